//! Stalls by a CPU quota: the host's scheduler gives the guest's thread 30 ms of every 90 (its
//! cgroup's quota), and the guest always computes. PVTCP's verdict must not depend on what stalls
//! the guest.

use std::fs;
use std::path::{Path, PathBuf};

use uc_experiment::RunRecord;
use uc_lab::vm::message::Request;
use uc_lab::vm::{Machine, Machines, Templates};

use crate::common::pvtcp::{SAMPLES, SERIES, build, can_run, insert, store};
use crate::common::uc::inside;
use crate::common::{experiment, guest};

const SECONDS: u32 = 9;
const QUOTA_US: u32 = 30_000;
const PERIOD_US: u32 = 90_000;
const NETWORK: &str = "rate = \"100Mbit\"\naccess_rate = \"1Gbit\"\ndelay = \"50us\"\n\
     queue = { kind = \"droptail\", limit = \"64kB\" }";
const STACK: &str = "[stack.old]\ncongestion_control = \"reno\"\nrack = false\n\
     early_retransmit = false\nsack = false\ntimestamps = false\nfrto = \"off\"\nrto_min = \"1ms\"";

/// A control group with this quota, in the machine's hierarchy.
struct Quota {
    folder: PathBuf,
    /// The file to which threads are added.
    threads: &'static str,
}

impl Quota {
    fn make() -> Result<Self, String> {
        let name = format!("uc-quota-{}", std::process::id());
        let [old, unified] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"].map(Path::new);
        let write = |path: PathBuf, text: String| {
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
        };
        let is_old = old.join("tasks").exists();
        let (parent, threads) = if is_old {
            (old, "tasks")
        } else {
            write(unified.join("cgroup.subtree_control"), "+cpu".into())?;
            (unified, "cgroup.threads")
        };
        let quota = Self {
            folder: parent.join(name),
            threads,
        };
        fs::create_dir(&quota.folder).map_err(|error| error.to_string())?;
        let place = |file: &str| quota.folder.join(file);
        // A cgroup replaces its threads' priority. With the largest weight nothing but the quota stalls them.
        if is_old {
            write(place("cpu.shares"), "262144".into())?;
            write(place("cpu.cfs_period_us"), PERIOD_US.to_string())?;
            write(place("cpu.cfs_quota_us"), QUOTA_US.to_string())?;
        } else {
            write(place("cgroup.type"), "threaded".into())?;
            write(place("cpu.weight"), "10000".into())?;
            write(place("cpu.max"), format!("{QUOTA_US} {PERIOD_US}"))?;
        }
        Ok(quota)
    }

    fn take(&self, thread: i32) {
        fs::write(self.folder.join(self.threads), thread.to_string()).unwrap();
    }

    /// Reads how often the cgroup was throttled, from its cpu.stat.
    fn stops(&self) -> u64 {
        let text = fs::read_to_string(self.folder.join("cpu.stat")).unwrap();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("nr_throttled "));
        line.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // Its threads have ended with their VM.
        let _ = fs::remove_dir(&self.folder);
    }
}

fn run(templates: &Templates, quota: &Quota, module: Option<&[u8]>) -> RunRecord {
    let experiment = experiment(SECONDS, NETWORK, &guest("one", "old", ""), STACK);
    let mut prepare = |_: &uc_lab::Guest, machine: &mut Machine| {
        if let Some(module) = module {
            store(machine, module)?;
            machine.order(&insert(""))?;
        }
        let busy = ["/bin/uc-bench", "verify", "--cases", "100000000"];
        machine.order(&Request::Start {
            arguments: busy.map(str::to_owned).to_vec(),
        })?;
        quota.take(machine.processor()?);
        Ok(())
    };
    let mut machines = Machines::new(templates).prepared_by(&mut prepare);
    crate::common::run(&mut machines, &experiment)
}

#[test]
fn live_vm_pvtcp_prevents_timeouts_after_quota_stalls_as_after_freezes() {
    if !can_run() {
        return;
    }
    let quota = match Quota::make() {
        Ok(quota) => quota,
        Err(why) => {
            return uc_live::skip(format!("no quota for a thread: {why}"));
        }
    };
    let module = build(SERIES, SAMPLES);
    let templates = Templates::new(inside());
    let mut runs = [None, Some(&module[..])].map(|module| {
        let before = quota.stops();
        let record = run(&templates, &quota, module);
        let stops = quota.stops() - before;
        let delivered = record.flows[0].samples.last().map(|s| s.delivered_bytes);
        println!(
            "quota, PVTCP {}: {stops} stops, {delivered:?} bytes: {:?}",
            module.is_some(),
            record.counters
        );
        (stops, record.counters["vm_one_timeouts"])
    });
    let [(stops, before), (_, after)] = &mut runs;
    assert!(*stops > 20, "seed 1: {stops} stops");
    assert!(
        2 * *after < *before,
        "seed 1: {before} timeouts without, {after} with"
    );
}
