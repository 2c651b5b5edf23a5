//! Measures what an agent costs on a large host: 1,000 ports and 1,000,000 flows.
//!
//! `cargo run --release -p uc-agent --example scale -- target/release/uc`, as root. It creates
//! network and mount namespaces of its own with a thousand pairs of interfaces, and prints how long
//! an agent takes to attach them all, its CPU use when idle, and its memory with a full flow table.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use uc_client::Client;
use uc_port::cost::Report;

const PORTS: usize = 1_000;
const FLOWS: u32 = 1_000_000;
/// Period after which each periodic activity of an idle agent has happened at least once, whenever it begins.
const IDLE: Duration = Duration::from_secs(30);
const BATCH: u32 = 10_000;
/// Offset of the key in an entry of the flow table; `FRESH_AT`: offset, in the table's cursor, of the number of places
/// that were ever taken.
const KEY_AT: usize = 8;
const FRESH_AT: usize = 12;

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let uc = std::env::args().nth(1).map(PathBuf::from);
    let uc =
        fs::canonicalize(uc.ok_or("the argument is missing: the path of the `uc` to measure")?)?;
    isolate()?;
    pairs()?;
    let folder = PathBuf::from("/run/undercurrent");
    let config = folder.join("undercurrent.toml");
    fs::write(
        &config,
        format!(
            "[agent]\nmetrics = \"none\"\nlog = \"error\"\nflows_max = {FLOWS}\n\n[[tenant]]\n\
             name = \"all\"\nports = [\"p*\"]\n\n[[rule]]\ntenant = \"all\"\nlaw = \"ecn\"\n"
        ),
    )?;
    let client = Client::at(folder.join("agent.sock"));

    let began = Instant::now();
    let mut agent = start(&uc, &config)?;
    wait(&client)?;
    let attached_s = began.elapsed().as_secs_f64();
    println!("{PORTS} ports attached in {attached_s:.1} s");
    end(&mut agent)?;
    let began = Instant::now();
    let mut agent = start(&uc, &config)?;
    wait(&client)?;
    let found_s = began.elapsed().as_secs_f64();
    println!("found attached again by the next agent in {found_s:.1} s");
    let alone = idle(&agent, "no flows")?;

    fill()?;
    let began = Instant::now();
    client.reload()?;
    println!(
        "a reload is answered in {:.2} s",
        began.elapsed().as_secs_f64()
    );
    ip("link add q0 type veth peer name q1\nlink set q0 name p9999\n")?;
    let attached = |count| {
        move |state: &uc_client::AgentState| {
            state.ports.iter().filter(|port| port.attached).count() == count
        }
    };
    let began = Instant::now();
    while !attached(PORTS + 1)(&client.status()?) {
        std::thread::sleep(Duration::from_millis(5));
    }
    println!(
        "one more port is attached in {:.2} s",
        began.elapsed().as_secs_f64()
    );
    let full = idle(&agent, &format!("{FLOWS} flows"))?;
    println!(
        "memory locked by the maps: {} MB",
        maps_bytes()? / 1_000_000
    );
    end(&mut agent)?;
    let mut report = Report::new("agent of 1,000 ports");
    let again = ("ports found attached", &[found_s][..]);
    report.add(again, "s", ("ports attached", &[attached_s]));
    for (figure, unit, at) in [("processor, idle", "%", 0), ("memory", "MB", 1)] {
        let name = format!("{figure}, {FLOWS} flows");
        report.add((&name, &[full[at]]), unit, ("no flows", &[alone[at]]));
    }
    Ok(report.finish()?)
}

/// Moves this process into new network and mount namespaces.
fn isolate() -> Result<(), Error> {
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)?;
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(
        Some("bpf"),
        "/sys/fs/bpf",
        Some("bpf"),
        MsFlags::empty(),
        Some("mode=700"),
    )?;
    fs::create_dir_all("/run/undercurrent")?;
    let mode = Some("mode=700");
    mount(
        Some("tmpfs"),
        "/run/undercurrent",
        Some("tmpfs"),
        MsFlags::empty(),
        mode,
    )?;
    Ok(())
}

fn ip(batch: &str) -> Result<(), Error> {
    let mut ip = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .spawn()?;
    ip.stdin
        .take()
        .ok_or("the standard input of `ip` is not open")?
        .write_all(batch.as_bytes())?;
    if ip.wait()?.success() {
        Ok(())
    } else {
        Err("`ip` ended with an error, which it printed".into())
    }
}

fn pairs() -> Result<(), Error> {
    let pair = |number| format!("link add p{number} type veth peer name g{number}\n");
    ip(&(0..PORTS).map(pair).collect::<String>())
}

fn start(uc: &Path, config: &Path) -> Result<Child, Error> {
    let mut command = Command::new(uc);
    Ok(command.args(["agent", "--config"]).arg(config).spawn()?)
}

fn end(agent: &mut Child) -> Result<(), Error> {
    let pid = nix::unistd::Pid::from_raw(agent.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM)?;
    agent.wait()?;
    Ok(())
}

fn wait(client: &Client) -> Result<(), Error> {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(300) {
        if let Ok(state) = client.status()
            && state.ports.iter().filter(|port| port.attached).count() == PORTS
        {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err("the agent has not attached all ports after five minutes".into())
}

/// Returns the agent's CPU time in clock ticks, and its resident memory in kB.
fn usage(agent: &Child) -> Result<(u64, u64), Error> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", agent.id()))?;
    let after = stat
        .rsplit_once(") ")
        .ok_or("/proc/PID/stat has another format than expected")?
        .1;
    let fields: Vec<&str> = after.split(' ').collect();
    let ticks = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    let status = fs::read_to_string(format!("/proc/{}/status", agent.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line
        .and_then(|line| line.split_whitespace().next())
        .ok_or("/proc/PID/status has no line VmHWM")?;
    Ok((ticks, kilobytes.parse()?))
}

/// Prints and returns the CPU use of an idle agent in percent, and its memory in MB.
fn idle(agent: &Child, when: &str) -> Result<[f64; 2], Error> {
    std::thread::sleep(Duration::from_secs(2));
    let (before, _) = usage(agent)?;
    std::thread::sleep(IDLE);
    let (after, kilobytes) = usage(agent)?;
    // USER_HZ is 100 on every architecture of Debian.
    let percent = (after - before) as f64 / IDLE.as_secs_f64();
    println!(
        "{when}: {percent:.2} % of a processor when idle, at most {} MB",
        kilobytes / 1024
    );
    Ok([percent, kilobytes as f64 / 1024.0])
}

/// Fills the flow table with flows of the first port, by writing into the map.
fn fill() -> Result<(), Error> {
    let flows = MapHandle::from_pinned_path(maps()?.join("flows"))?;
    let value_bytes = flows.value_size() as usize;
    let ifindex = nix::net::if_::if_nametoindex("p0")?;
    let mut slot = vec![0; value_bytes];
    slot[KEY_AT..KEY_AT + 4].copy_from_slice(&ifindex.to_ne_bytes());
    let values = slot.repeat(BATCH as usize);
    for first in (0..FLOWS).step_by(BATCH as usize) {
        let places: Vec<u8> = (first..first + BATCH).flat_map(u32::to_ne_bytes).collect();
        flows.update_batch(&places, &values, BATCH, MapFlags::ANY, MapFlags::ANY)?;
    }
    let cursors = MapHandle::from_pinned_path(maps()?.join("cursors"))?;
    let mut cursor = cursors
        .lookup(&[0; 4], MapFlags::ANY)?
        .ok_or("the map `cursors` has no entry")?;
    cursor[FRESH_AT..FRESH_AT + 4].copy_from_slice(&FLOWS.to_ne_bytes());
    Ok(cursors.update(&[0; 4], &cursor, MapFlags::ANY)?)
}

/// Returns the folder in which the maps are pinned.
fn maps() -> Result<PathBuf, Error> {
    for entry in fs::read_dir("/sys/fs/bpf/undercurrent")? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("maps-") {
            return Ok(entry.path());
        }
    }
    Err("the agent has pinned no maps".into())
}

/// Returns the memory of all pinned maps, in bytes, as the kernel accounts for it.
fn maps_bytes() -> Result<u64, Error> {
    use std::os::fd::{AsFd, AsRawFd};
    let mut bytes = 0;
    for entry in fs::read_dir(maps()?)? {
        let Ok(map) = MapHandle::from_pinned_path(entry?.path()) else {
            continue;
        };
        let info = format!("/proc/self/fdinfo/{}", map.as_fd().as_raw_fd());
        let text = fs::read_to_string(info)?;
        let line = text.lines().find_map(|line| line.strip_prefix("memlock:"));
        bytes += line
            .and_then(|line| line.trim().parse::<u64>().ok())
            .unwrap_or(0);
    }
    Ok(bytes)
}
