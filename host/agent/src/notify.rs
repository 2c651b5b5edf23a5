//! Notifications to systemd about the service (`sd_notify(3)`), sent only if systemd has asked for them by its
//! environment variables.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Maximum duration of one piece of work during which the service reports to systemd that it is alive.
const WORK_MOST: Duration = Duration::from_secs(120);

/// The socket of systemd to which the service reports its state (sd_notify).
#[derive(Debug, Default)]
pub struct Notify {
    socket: Option<UnixDatagram>,
    /// Interval within which the service must report that it is alive; `None`: systemd does not ask for it.
    watchdog: Option<Duration>,
}

impl Notify {
    /// Reads the socket and the interval from the environment; without them nothing is sent.
    pub fn from_environment() -> Self {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET") else {
            return Self::default();
        };
        let bytes = name.as_bytes();
        let address = match bytes.split_first() {
            Some((b'@', rest)) => SocketAddr::from_abstract_name(rest),
            _ => SocketAddr::from_pathname(&name),
        };
        let socket = address.and_then(|address| {
            let socket = UnixDatagram::unbound()?;
            socket.connect_addr(&address)?;
            // The service must not block on its manager.
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        Self {
            socket: socket.ok(),
            watchdog: number("WATCHDOG_USEC")
                .filter(|us| *us > 0 && is_ours)
                .map(Duration::from_micros),
        }
    }

    /// Returns the longest time between two calls of [`Notify::alive`], half of systemd's limit; `None` if systemd sets
    /// no limit.
    pub fn interval(&self) -> Option<Duration> {
        self.watchdog.map(|most| most / 2)
    }

    /// Reports that the service is ready: the ports are as the policy wants them, as far as possible. `status` is one
    /// line for `systemctl status`.
    pub fn ready(&self, status: &str) {
        self.say(&format!("READY=1\nSTATUS={}", status.replace('\n', " ")));
    }

    /// Reports that the service reads its policy again; `now_us` is CLOCK_MONOTONIC in microseconds.
    pub fn reloading(&self, now_us: u64) {
        self.say(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}"));
    }

    /// Reports to systemd that the service is alive (its watchdog).
    pub fn alive(&self) {
        if self.watchdog.is_some() {
            self.say("WATCHDOG=1");
        }
    }

    /// Runs `work` on a thread of its own and returns its result. Reports meanwhile to systemd that the service is
    /// alive, for [`WORK_MOST`] at most.
    pub fn meanwhile<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let Some(interval) = self.interval() else {
            return work();
        };
        std::thread::scope(|scope| {
            let (done, ended) = mpsc::channel::<()>();
            let worker = scope.spawn(move || {
                let answer = work();
                drop(done);
                answer
            });
            let until = Instant::now() + WORK_MOST;
            self.alive();
            while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                if Instant::now() < until {
                    self.alive();
                }
            }
            match worker.join() {
                Ok(answer) => answer,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Reports to systemd that the service is ending.
    pub fn stopping(&self) {
        self.say("STOPPING=1");
    }

    fn say(&self, text: &str) {
        if let Some(socket) = &self.socket {
            // A manager that doesn't listen must not stop the service.
            let _unheard = socket.send(text.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_work_does_not_stop_the_watchdogs_beats() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        manager
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let socket = UnixDatagram::unbound().unwrap();
        socket.connect(&path).unwrap();
        let notify = Notify {
            socket: Some(socket),
            watchdog: Some(Duration::from_millis(20)),
        };
        let answer = notify.meanwhile(|| {
            for _ in 0..3 {
                let mut beat = [0; 32];
                let length = manager.recv(&mut beat).unwrap();
                assert_eq!(&beat[..length], b"WATCHDOG=1");
            }
            7
        });
        assert_eq!(answer, 7);
    }
}
