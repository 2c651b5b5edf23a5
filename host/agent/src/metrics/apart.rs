//! Serves metrics from two processes. One without capabilities reads the scrapers' requests and asks the agent for the
//! text; only the agent can read the maps.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{Backlog, listen};
use tokio::io::Interest;
use tokio::net::{TcpListener, UnixStream};
use uc_service::confine::{Confined, gets_on, receive, send};

use super::Reading;
use super::serve::router;
use crate::bounded::Bounded;

/// Pause before the process is started again, and interval of the process's checks that it still makes progress
/// ([`gets_on`]).
const AGAIN: Duration = Duration::from_secs(1);
/// Maximum number of connections that wait to be accepted by the metrics' listener.
const QUEUE: i32 = 128;

/// Serves metrics on this listening socket, and never returns. Calls `tell` with the reason when metrics are not
/// served, and with `None` when they are served again.
pub fn serve_apart(
    listener: &OwnedFd,
    read: impl Fn() -> Reading,
    tell: impl Fn(Option<String>),
) -> ! {
    loop {
        let served = Confined::start(["agent", "--confined", "metrics"]).and_then(|process| {
            listen_again(listener)?;
            send(&process, b"listener", Some(listener))?;
            tell(None);
            answer(&process, &read)?;
            process.status()
        });
        let why = match served {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        tell(Some(format!(
            "metrics are not served by `uc agent --confined metrics` ({why}); it is started again"
        )));
        std::thread::sleep(AGAIN);
    }
}

/// Makes a socket listen again: a process that has ended may have shut it down.
fn listen_again(listener: &OwnedFd) -> io::Result<()> {
    Ok(listen(listener, Backlog::new(QUEUE)?)?)
}

/// Answers each question of the process that serves metrics with their text, until that process ends.
fn answer(process: impl AsFd, read: impl Fn() -> Reading) -> io::Result<()> {
    let mut open = [0];
    while receive(&process, &mut open)?.is_some() {
        let text = read().text(open != [0]);
        let text = text.map(in_memory).transpose()?;
        send(&process, b"text", text.as_ref())?;
    }
    Ok(())
}

fn in_memory(text: String) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("metrics", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}

/// Serves requests on the listening socket that `parent` sends, with texts that it asks `parent` for. The caller has
/// dropped its capabilities.
pub fn serve(parent: OwnedFd) -> io::Result<()> {
    let Some((_, Some(listener))) = receive(&parent, &mut [0; 8])? else {
        return Ok(());
    };
    let listener = std::net::TcpListener::from(listener);
    // A socket of messages: only its readiness is asked for, not a stream's bytes.
    let parent = std::os::unix::net::UnixStream::from(parent);
    parent.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        tokio::spawn(async {
            while gets_on().is_ok() {
                tokio::time::sleep(AGAIN).await;
            }
        });
        let listener = Bounded::new(TcpListener::from_std(listener)?);
        let parent = Arc::new(UnixStream::from_std(parent)?);
        let ask = move |open| -> super::serve::Answer { Box::pin(ask(Arc::clone(&parent), open)) };
        axum::serve(listener, router(ask)).await
    })
}

/// Asks the agent for the text of the metrics, as OpenMetrics if `open`; `None`: the agent gave none.
async fn ask(parent: Arc<UnixStream>, open: bool) -> Option<String> {
    send(&parent, &[open.into()], None).ok()?;
    let (_, text) = loop {
        parent.readable().await.ok()?;
        let received = parent.try_io(Interest::READABLE, || receive(&parent, &mut [0; 4]));
        match received {
            // Woken without a message.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            received => break received.ok()??,
        }
    };
    let mut all = String::new();
    File::from(text?).read_to_string(&mut all).ok()?;
    Some(all)
}

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_listener_that_was_shut_down_listens_again_at_its_address() {
        let found = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = found.local_addr().unwrap();
        drop(found);
        // Of a port that the kernel chose, it would choose another.
        let listener = TcpListener::bind(address).unwrap();
        let listener = OwnedFd::from(listener);
        let stream = TcpStream::from(listener.try_clone().unwrap());
        stream.shutdown(Shutdown::Both).unwrap();
        assert!(TcpStream::connect(address).is_err());
        listen_again(&listener).unwrap();
        assert!(TcpStream::connect(address).is_ok());
        listen_again(&listener).unwrap();
        assert!(TcpStream::connect(address).is_ok(), "one that listens");
    }
}
