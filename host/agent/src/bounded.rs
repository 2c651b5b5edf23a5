//! Listeners whose peers can't use up the agent's descriptors: the number and the duration of
//! connections are limited, whatever a peer sends or doesn't read.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

/// Maximum number of connections at once; further ones wait.
pub(crate) const CONNECTIONS_MAX: usize = 64;
/// Maximum duration of a connection. It is enough for a scraper, which sends its request at once, and uses a new
/// connection for the next request.
const LASTS_MOST: Duration = Duration::from_secs(10);
/// Pause after a failed accept, for instance for lack of descriptors, which may end.
const AGAIN: Duration = Duration::from_millis(100);

/// A connection, its permit, and its deadline. The deadline holds even for a peer that sends or reads a byte now and
/// then.
#[derive(Debug)]
pub struct Limited<S> {
    stream: S,
    _place: OwnedSemaphorePermit,
    end: Pin<Box<Sleep>>,
}

impl<S> Limited<S> {
    pub(crate) fn new(stream: S, place: OwnedSemaphorePermit, lasts_most: Duration) -> Limited<S> {
        Limited {
            stream,
            _place: place,
            end: Box::pin(tokio::time::sleep(lasts_most)),
        }
    }
}

impl<S: Unpin> Limited<S> {
    /// Returns the wrapped stream, or an error if its deadline has passed.
    fn stream(self: Pin<&mut Self>, context: &mut Context<'_>) -> io::Result<Pin<&mut S>> {
        let limited = self.get_mut();
        match limited.end.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(Pin::new(&mut limited.stream)),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Limited<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream(context)?.poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Limited<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream(context)?.poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream(context)?.poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream(context)?.poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream(context)?.poll_shutdown(context)
    }
}

/// Permits for connections; each open connection holds one.
#[derive(Clone, Debug)]
pub(crate) struct Places(Arc<Semaphore>);

impl Places {
    pub(crate) fn new() -> Places {
        Places(Arc::new(Semaphore::new(CONNECTIONS_MAX)))
    }

    pub(crate) async fn take(&self) -> OwnedSemaphorePermit {
        match Arc::clone(&self.0).acquire_owned().await {
            Ok(place) => place,
            // The semaphore is never closed.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Logs the error of a failed accept, and pauses before the next.
pub(crate) async fn wait_after(error: &io::Error) {
    tracing::warn!(%error, "could not accept");
    tokio::time::sleep(AGAIN).await;
}

/// A TCP listener that limits the number of its connections and the duration of each.
#[derive(Debug)]
pub struct Bounded {
    listener: TcpListener,
    places: Places,
    lasts_most: Duration,
}

impl Bounded {
    /// Wraps a listening socket, so that its connections are limited.
    pub fn new(listener: TcpListener) -> Bounded {
        Bounded {
            listener,
            places: Places::new(),
            lasts_most: LASTS_MOST,
        }
    }
}

impl axum::serve::Listener for Bounded {
    type Io = Limited<TcpStream>;
    type Addr = ();

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let place = self.places.take().await;
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    return (Limited::new(stream, place, self.lasts_most), ());
                }
                Err(error) => wait_after(&error).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::atomic::{AtomicBool, Ordering};

    use axum::Router;
    use axum::routing::get;

    use super::*;

    /// A time longer than the deadline of the listener below.
    const WHILE: Duration = Duration::from_secs(20);

    /// Opens more connections than there are permits, each of which sends the beginning of a
    /// request and then `more`. Returns the answer to a proper request meanwhile, and whether the
    /// first connection was closed.
    fn answer_beside(more: &'static [u8]) -> (String, bool) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let router = Router::new().route("/", get(|| async { "here" }));
            let bounded = Bounded {
                lasts_most: Duration::from_millis(200),
                ..Bounded::new(listener)
            };
            let served = tokio::spawn(async { axum::serve(bounded, router).await });
            let asked = tokio::task::spawn_blocking(move || {
                let connect = || {
                    let mut stream = std::net::TcpStream::connect(address).unwrap();
                    stream.write_all(b"GET / HTTP/1.1\r\nx: ").unwrap();
                    stream
                };
                let mut slow: Vec<_> = (0..CONNECTIONS_MAX + 8).map(|_| connect()).collect();
                let answered = Arc::new(AtomicBool::new(false));
                let until = Arc::clone(&answered);
                let trickle = std::thread::spawn(move || {
                    let begun = std::time::Instant::now();
                    while !until.load(Ordering::Relaxed) && begun.elapsed() < WHILE {
                        for stream in &mut slow {
                            // A write to a closed connection fails.
                            let _hung_up = stream.write(more);
                        }
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    let mut first = slow.swap_remove(0);
                    first.set_read_timeout(Some(WHILE)).unwrap();
                    let read = first.read(&mut [0; 64]);
                    read.map_or_else(
                        |error| error.kind() == io::ErrorKind::ConnectionReset,
                        |_| true,
                    )
                });
                let mut late = std::net::TcpStream::connect(address).unwrap();
                late.set_read_timeout(Some(WHILE / 2)).unwrap();
                late.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
                let mut answer = String::new();
                let _late = late.read_to_string(&mut answer);
                answered.store(true, Ordering::Relaxed);
                (answer, trickle.join().unwrap())
            });
            let answer = asked.await.unwrap();
            served.abort();
            answer
        })
    }

    #[test]
    fn silent_and_slow_peers_are_disconnected_and_others_are_answered() {
        for more in [&b""[..], b"x"] {
            let (answer, hung_up) = answer_beside(more);
            assert!(answer.ends_with("here") && hung_up, "{more:?}: {answer}");
        }
    }
}
