//! What systemd wants to hear of a service (`sd_notify(3)`), where it asks.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Where to say it.
#[derive(Debug, Default)]
pub struct Notify {
    socket: Option<UnixDatagram>,
    /// How often the service has to say that it lives.
    watchdog: Option<Duration>,
}

impl Notify {
    /// As the environment says. Somebody who doesn't ask is told nothing.
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
            // The service has better to do than to wait for its supervisor.
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

    /// The longest that may pass between two [`Notify::alive`]: half of what systemd waits.
    pub fn interval(&self) -> Option<Duration> {
        self.watchdog.map(|most| most / 2)
    }

    /// The ports are as the policy wants them, as far as they can be.
    pub fn ready(&self, status: &str) {
        self.say(&format!("READY=1\nSTATUS={}", status.replace('\n', " ")));
    }

    /// A policy is being read.
    pub fn reloading(&self, now_us: u64) {
        self.say(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}"));
    }

    /// The service does its work.
    pub fn alive(&self) {
        if self.watchdog.is_some() {
            self.say("WATCHDOG=1");
        }
    }

    /// It ends.
    pub fn stopping(&self) {
        self.say("STOPPING=1");
    }

    fn say(&self, text: &str) {
        if let Some(socket) = &self.socket {
            // A supervisor that doesn't listen is no reason not to work.
            let _unheard = socket.send(text.as_bytes());
        }
    }
}
