//! Congestion control, initial window and minimum RTO of a control group's connections, set by the program of
//! `guest/tune.bpf.c`.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt};
use nix::time::{ClockId, clock_getres};
use zerocopy::IntoBytes;

use crate::cgroup::Cgroup;
use crate::control::{map_of, missing, quieten};
use crate::error::{GuestError, Linux};
use crate::layout::{UC_TUNE_PATH_BYTES, uc_tune_counts, uc_tune_settings};
use crate::pins;
use crate::pvtcp::LeastTimeout;

/// The object that clang compiled from `guest/tune.bpf.c`.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tune.bpf.o"));
/// First kernel in which a program may set a socket's minimum RTO.
const NEEDED: Linux = Linux(5, 10);
const PROGRAM: &str = "uc_tune_socket";
const SETTINGS: &str = "settings";
const COUNTS: &str = "counts";
const BY_POLICY: &str = "by-policy";
/// Minimum number of the kernel's timer ticks in a minimum RTO (`TCP_TIMEOUT_MIN`).
const TICKS_LEAST: u32 = 2;

/// Settings of a control group's new connections; `None`: the kernel's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Name of the congestion control, as in the sysctl `net.ipv4.tcp_available_congestion_control`.
    pub congestion_control: Option<String>,
    /// Initial congestion window, in segments.
    pub initial_window_segments: Option<u32>,
    /// Minimum RTO, from two ticks of the kernel to 200 ms.
    pub rto_min: Option<Duration>,
}

/// The settings of a tuned control group, and the counters of its program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TuningState {
    /// Path of the control group's folder.
    pub cgroup: String,
    /// The settings that new connections of the group get.
    pub tuning: Tuning,
    /// Whether the agent made the tuning by its policy, not an operator by hand.
    pub by_policy: bool,
    /// Number of connections that the group has opened or accepted since it was tuned.
    pub connections: u64,
    /// Number of times that the kernel refused the congestion control, because it was unloaded meanwhile.
    pub refused_congestion_control: u64,
    /// Number of times that the kernel refused the initial window, because the connection had sent data with its SYN.
    pub refused_initial_window: u64,
    /// Number of times that the kernel refused the minimum RTO.
    pub refused_rto_min: u64,
}

impl Tuning {
    /// Checks that this kernel accepts the settings. This may load a congestion control's module.
    ///
    /// # Errors
    /// The kernel has no such congestion control, or refuses the minimum RTO.
    pub fn check(&self) -> Result<(), GuestError> {
        self.congestion_control
            .iter()
            .try_for_each(|name| check_control(name))?;
        self.rto_min
            .iter()
            .try_for_each(|asked| check_rto_min(*asked))
    }

    fn raw(&self, cgroup: &Path) -> Result<uc_tune_settings, GuestError> {
        let mut raw = uc_tune_settings {
            initial_window_segments: self.initial_window_segments.unwrap_or(0),
            rto_min_us: self.rto_min.map_or(0, |rto| rto.as_micros() as u32),
            ..uc_tune_settings::default()
        };
        let name = self.congestion_control.as_deref().unwrap_or_default();
        raw.congestion_control[..name.len()].copy_from_slice(name.as_bytes());
        let path = cgroup.as_os_str().as_encoded_bytes();
        if path.len() >= UC_TUNE_PATH_BYTES as usize {
            return Err(GuestError::NotACgroup {
                path: cgroup.into(),
            });
        }
        raw.cgroup[..path.len()].copy_from_slice(path);
        Ok(raw)
    }

    fn of_raw(raw: &uc_tune_settings) -> Self {
        let rto_min = Duration::from_micros(raw.rto_min_us.into());
        Self {
            congestion_control: Some(text(&raw.congestion_control)).filter(|name| !name.is_empty()),
            initial_window_segments: Some(raw.initial_window_segments).filter(|window| *window > 0),
            rto_min: Some(rto_min).filter(|rto| !rto.is_zero()),
        }
    }
}

/// Returns the text before the first NUL.
fn text(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Checks that a socket of this host can have the congestion control. This loads the congestion control's module if
/// needed: a socket of this process can, but a BPF program can't.
fn check_control(name: &str) -> Result<(), GuestError> {
    let failed = |errno: nix::Error| GuestError::from_kernel("create a socket", errno.into());
    let (family, kind) = (AddressFamily::Inet, SockType::Stream);
    let trial = socket(family, kind, SockFlag::SOCK_CLOEXEC, None).map_err(failed)?;
    // The kernel cuts a longer name to its first fifteen characters.
    let fits = (1..crate::layout::UC_TUNE_NAME_BYTES as usize).contains(&name.len());
    if fits && setsockopt(&trial, sockopt::TcpCongestion, &OsString::from(name)).is_ok() {
        return Ok(());
    }
    let list = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let available = list.unwrap_or_default();
    Err(GuestError::Other(format!(
        "this kernel has no congestion control '{name}'; it has {available}: name one of them, or \
         load its module",
        available = available.split_whitespace().collect::<Vec<_>>().join(", ")
    )))
}

fn check_rto_min(asked: Duration) -> Result<(), GuestError> {
    let least = tick()? * TICKS_LEAST;
    if (least..=LeastTimeout::MOST).contains(&asked) {
        return Ok(());
    }
    Err(GuestError::Other(format!(
        "a minimum RTO of {asked_ms} ms is out of this kernel's range: two ticks, {least_ms} ms, \
         to {most_ms} ms",
        asked_ms = asked.as_millis(),
        least_ms = least.as_micros().div_ceil(1000),
        most_ms = LeastTimeout::MOST.as_millis()
    )))
}

/// Returns the time between two timer ticks of the kernel, which is the resolution of its coarse clock.
fn tick() -> Result<Duration, GuestError> {
    clock_getres(ClockId::CLOCK_MONOTONIC_COARSE)
        .map(Duration::from)
        .map_err(|errno| GuestError::from_kernel("read the kernel's tick", errno.into()))
}

/// The tuning program, attached to a control group until this value is dropped; if it is pinned, until the pin is
/// removed.
#[derive(Debug)]
pub(crate) struct Tuned {
    object: Object,
    links: [(&'static str, Link); 1],
}

impl Tuned {
    /// Loads the program with these settings and attaches it to the control group.
    pub fn attach(tuning: &Tuning, path: &Path) -> Result<Self, GuestError> {
        let raw = tuning.raw(path)?;
        let cgroup = Cgroup::open(Some(path))?;
        let failed = |error| GuestError::from_loading("load the tuning program", &error, NEEDED);
        quieten();
        let open = ObjectBuilder::default()
            .open_memory(OBJECT)
            .map_err(failed)?;
        let object = open.load().map_err(failed)?;
        let written = map_of(&object, SETTINGS)?.update(&[0; 4], raw.as_bytes(), MapFlags::ANY);
        written.map_err(|error| GuestError::from_libbpf("write the tuning's settings", &error))?;
        let program = object.progs_mut().find(|program| program.name() == PROGRAM);
        let program = program.ok_or_else(|| missing(PROGRAM))?;
        let links = [(PROGRAM, cgroup.attach(&program, NEEDED)?)];
        Ok(Self { object, links })
    }

    /// Pins the link, and the maps from which other processes read the state. `by_policy` adds a second pin of the
    /// settings' map, by which an agent recognizes tunings that a policy wants.
    pub fn pin(&mut self, folder: &Path, by_policy: bool) -> Result<(), GuestError> {
        pins::pin(folder, &mut self.links, &self.object, &[SETTINGS, COUNTS])?;
        if by_policy {
            let path = folder.join(BY_POLICY);
            let action = || format!("pin {}", path.display());
            let pinned = map_of(&self.object, SETTINGS)?.pin(&path);
            pinned.map_err(|error| GuestError::from_libbpf(action(), &error))?;
        }
        Ok(())
    }

    /// Returns whether this folder has all pins of a tuning; the additional pin of [`Tuned::pin`] for policies does not
    /// count.
    pub fn is_whole(folder: &Path) -> bool {
        [PROGRAM, SETTINGS, COUNTS]
            .iter()
            .all(|name| folder.join(name).exists())
    }

    /// Detaches the program whose link is pinned in this folder, if there is one. Only this detaches it at once:
    /// removing the pin would do so some time later.
    pub fn detach_at(folder: &Path) {
        if let Ok(link) = Link::open(folder.join(PROGRAM)) {
            let _the_group_has_ended = link.detach();
        }
    }

    /// Returns the state of the tuning that is pinned in this folder.
    pub fn state_at(folder: &Path) -> Result<TuningState, GuestError> {
        let settings: uc_tune_settings = pins::read(&folder.join(SETTINGS))?;
        let counts: uc_tune_counts = pins::read(&folder.join(COUNTS))?;
        Ok(TuningState {
            cgroup: text(&settings.cgroup),
            tuning: Tuning::of_raw(&settings),
            by_policy: folder.join(BY_POLICY).exists(),
            connections: counts.connections,
            refused_congestion_control: counts.refused_congestion_control,
            refused_initial_window: counts.refused_initial_window,
            refused_rto_min: counts.refused_rto_min,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_the_map_and_none_is_told_from_zero() {
        let tuning = Tuning {
            congestion_control: Some("fifteen_letters".into()),
            initial_window_segments: Some(32),
            rto_min: None,
        };
        let raw = tuning.raw(Path::new("/sys/fs/cgroup/a b")).unwrap();
        assert_eq!(Tuning::of_raw(&raw), tuning);
        assert_eq!(text(&raw.cgroup), "/sys/fs/cgroup/a b");
        let none = Tuning::default().raw(Path::new("/")).unwrap();
        assert_eq!(Tuning::of_raw(&none), Tuning::default());
        let long = format!("/{}", "x".repeat(UC_TUNE_PATH_BYTES as usize));
        assert!(tuning.raw(Path::new(&long)).is_err());
    }

    #[test]
    fn values_that_the_kernel_would_refuse_are_refused_in_words() {
        let control = |name: &str| {
            let congestion_control = Some(name.to_owned());
            let tuning = Tuning {
                congestion_control,
                ..Tuning::default()
            };
            tuning.check().map_err(|error| error.to_string())
        };
        assert_eq!(control("reno"), Ok(()));
        for name in ["", "no-such", "reno_and_too_long_a_name"] {
            let refusal = control(name).unwrap_err();
            assert!(
                refusal.contains(&format!("'{name}'")) && refusal.contains("reno"),
                "{refusal}"
            );
        }
        let rto_min = |rto_min: Duration| {
            let tuning = Tuning {
                rto_min: Some(rto_min),
                ..Tuning::default()
            };
            tuning.check().map_err(|error| error.to_string())
        };
        let least = tick().unwrap() * TICKS_LEAST;
        assert_eq!(
            (rto_min(least), rto_min(LeastTimeout::MOST)),
            (Ok(()), Ok(()))
        );
        for wrong in [least - Duration::from_micros(1), Duration::from_millis(201)] {
            let refusal = rto_min(wrong).unwrap_err();
            assert!(
                refusal.contains("two ticks") && refusal.contains("to 200 ms"),
                "{refusal}"
            );
        }
    }
}
