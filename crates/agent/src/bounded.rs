//! Listeners whose peers can't take all of the agent's descriptors: so many connections at once, and
//! none that says nothing for long.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, Join, ReadBuf};
use tokio::net::TcpListener;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

/// So many connections at once; further ones wait.
pub(crate) const CONNECTIONS_MAX: usize = 64;
/// Whoever scrapes says what it wants at once, and may come again by another connection.
const SILENT_MOST: Duration = Duration::from_secs(10);
/// Out of descriptors, for instance: that may end.
const AGAIN: Duration = Duration::from_millis(100);

/// A connection's reading half, its place among those that may be there, and how long it may say
/// nothing.
#[derive(Debug)]
pub struct Held<R> {
    read: R,
    _place: OwnedSemaphorePermit,
    silent_most: Duration,
    end: Pin<Box<Sleep>>,
}

impl<R> Held<R> {
    pub(crate) fn new(read: R, place: OwnedSemaphorePermit, silent_most: Duration) -> Held<R> {
        Held {
            read,
            _place: place,
            silent_most,
            end: Box::pin(tokio::time::sleep(silent_most)),
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Held<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.read).poll_read(context, buffer);
        if read.is_ready() {
            let end = Instant::now() + self.silent_most;
            self.end.as_mut().reset(end);
            return read;
        }
        match self.end.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// Places for connections, of which one is taken for each.
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

/// A connection could not be accepted: says so, and waits.
pub(crate) async fn wait_after(error: &io::Error) {
    tracing::warn!(%error, "could not accept");
    tokio::time::sleep(AGAIN).await;
}

/// A TCP listener so bounded.
#[derive(Debug)]
pub struct Bounded {
    listener: TcpListener,
    places: Places,
    silent_most: Duration,
}

impl Bounded {
    /// Of one that listens already.
    pub fn new(listener: TcpListener) -> Bounded {
        Bounded {
            listener,
            places: Places::new(),
            silent_most: SILENT_MOST,
        }
    }
}

impl axum::serve::Listener for Bounded {
    type Io = Join<Held<OwnedReadHalf>, OwnedWriteHalf>;
    type Addr = ();

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let place = self.places.take().await;
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let (read, write) = stream.into_split();
                    let held = Held::new(read, place, self.silent_most);
                    return (tokio::io::join(held, write), ());
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

    use axum::Router;
    use axum::routing::get;

    use super::*;

    #[test]
    fn those_who_say_nothing_are_hung_up_on_and_then_others_are_answered() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let router = Router::new().route("/", get(|| async { "here" }));
            let bounded = Bounded {
                silent_most: Duration::from_millis(50),
                ..Bounded::new(listener)
            };
            let served = tokio::spawn(async { axum::serve(bounded, router).await });
            let asked = tokio::task::spawn_blocking(move || {
                let connect = || {
                    let mut stream = std::net::TcpStream::connect(address).unwrap();
                    stream.write_all(b"GET / HTTP/1.1\r\n").unwrap();
                    stream
                };
                let mut silent: Vec<_> = (0..CONNECTIONS_MAX + 8).map(|_| connect()).collect();
                let mut late = std::net::TcpStream::connect(address).unwrap();
                late.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
                let mut answer = String::new();
                late.read_to_string(&mut answer).unwrap();
                let hung_up = silent[0].read(&mut [0; 64]).is_ok();
                (answer, hung_up)
            });
            let (answer, hung_up) = asked.await.unwrap();
            assert!(answer.ends_with("here") && hung_up, "{answer}");
            served.abort();
        });
    }
}
