//! Where runs come from: the program's commit, the kernel, the machine and its load.

use std::fs;
use std::time::SystemTime;

use uc_experiment::{Arm, Circumstances};

use crate::outputs::{COMMIT, CORE};

/// Returns the circumstances of runs on this backend that begin now.
pub fn of(arm: Arm) -> Circumstances {
    match arm {
        Arm::Sim => of_program(),
        Arm::Live | Arm::Vm => of_machine(),
    }
}

/// Returns the circumstances on which a simulated run depends: only the program.
pub fn of_program() -> Circumstances {
    Circumstances {
        commit: COMMIT.to_owned(),
        core: CORE.to_owned(),
        ..Circumstances::default()
    }
}

/// Returns the circumstances of runs on this machine that begin now.
pub fn of_machine() -> Circumstances {
    let since = SystemTime::UNIX_EPOCH.elapsed();
    Circumstances {
        begun_unix_s: since.map_or(None, |since| Some(since.as_secs())),
        kernel: read("/proc/sys/kernel/osrelease"),
        machine: machine(),
        load: load().map(|load| [load, load]),
        ..of_program()
    }
}

/// Updates the load at the end of the last run.
pub fn end(circumstances: &mut Circumstances) {
    if let (Some([_, last]), Some(now)) = (&mut circumstances.load, load()) {
        *last = now;
    }
}

fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

/// Returns the load average over a minute; `None`: unknown.
fn load() -> Option<f64> {
    read("/proc/loadavg")?.split(' ').next()?.parse().ok()
}

/// Returns the number and model of the processors; `None`: unknown.
fn machine() -> Option<String> {
    let text = read("/proc/cpuinfo")?;
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    let models: Vec<&str> = fields
        .filter(|(key, _)| key.trim() == "model name")
        .map(|(_, model)| model.trim())
        .collect();
    Some(format!("{} × {}", models.len(), models.first()?))
}
