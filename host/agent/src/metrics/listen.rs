//! Binds the address of the metrics. If another process has the address, by accident or on purpose, binding is tried
//! again; the agent's ports do not wait for it.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;

/// First pause before the next attempt; each further pause is twice as long.
const PAUSE_FIRST: Duration = Duration::from_millis(250);
/// Maximum pause between two attempts to listen at the metrics' address.
const PAUSE_MOST: Duration = Duration::from_secs(15);

/// Listens on `address` as soon as it is free. Calls `tell` with the reason of each failed attempt, and with `None`
/// when the socket listens.
pub async fn listen(address: SocketAddr, tell: impl Fn(Option<String>)) -> TcpListener {
    let mut pause = PAUSE_FIRST;
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => {
                tell(None);
                return listener;
            }
            Err(error) => tell(Some(format!(
                "metrics can't be served on {address} ({error}); end the process that has this \
                 address (`ss -ltnp`), or name another in agent.metrics"
            ))),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MOST);
    }
}
