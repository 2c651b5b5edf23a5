//! `uc detach`: detaches ports by hand, and waits for the end of the flows that negotiated ECN through a port.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use uc_port::{Drain, Store, interface_index};

use crate::agent;
use crate::ports::{distinct, flows, port_name};

/// Detach these ports. Every connection lives on.
///
/// A port drains first if it negotiated ECN for a guest, because the peers go on sending packets that
/// switches mark. Until the last such flow has ended the programs stay and echo the marks. New flows pass
/// unmodified, no window is written, and the guest's data are sent without ECT.
///
/// A process in the background detaches the port then, or the agent if one runs. `uc status` shows how many flows are
/// left, and whether that process is missing: then run `uc detach PORT` again. `uc attach` of a port that drains
/// translates it again, and its flows with it. Such a flow keeps its port draining for up to 2 h 4 min after its last
/// segment.
///
/// Exit status: 0 if the ports are detached or drain, 1 if one was attached again during --wait, 2 after
/// an error.
#[derive(Args)]
pub struct Detach {
    /// Interfaces on the host's side of guests, such as tap0 or veth1
    #[arg(required_unless_present_any = ["all", "finish"], value_name = "PORT")]
    ports: Vec<String>,
    /// Detach every port, including those whose interface is gone or in another network namespace
    #[arg(long, conflicts_with = "ports")]
    all: bool,
    /// Detach at once, without draining: CE marks on packets that peers of flows under way send are then no
    /// longer echoed to the peers
    #[arg(long)]
    now: bool,
    /// Return only when the ports are detached, however long that takes; Ctrl-C ends the waiting, not the
    /// draining
    #[arg(long, conflicts_with = "now")]
    wait: bool,
    /// Wait for ports that drain, detach each when its last flow has ended, and end when no port drains. The
    /// command starts itself with this option in the background
    #[arg(long, hide = true, exclusive = true)]
    finish: bool,
}

/// Maximum time that the process in the background may take to begin to wait for draining ports.
const WATCHED_WITHIN: Duration = Duration::from_secs(10);

/// A port that was detached or drains.
struct Off {
    ifindex: u32,
    name: String,
    /// Number of flows whose peers may still send packets with ECT; they keep a draining port attached.
    flows: usize,
    drains: bool,
}

impl Detach {
    /// Detaches all of the ports, or none.
    pub fn execute(self) -> Result<bool> {
        let store = Store::default();
        if self.finish {
            // a lock of who ran `uc detach`, for instance
            uc_service::confine::close_others()?;
            // a terminal that is closed ends it no more
            let _leads_one_already = nix::unistd::setsid();
            store.watch_drain()?;
            return Ok(true);
        }
        let ports = distinct(self.ports.clone());
        let held = agent::withdraw(&ports)?;
        let mut off = match &held {
            Some(held) => taken_by_agent(&store, held)?,
            None => take_off(&store, (!self.all).then_some(&ports), self.now)?,
        };
        if self.now && held.is_some() {
            detach_at_once(&store, &mut off)?;
        }
        if off.is_empty() && held.is_none() {
            outln!("nothing is attached");
        }
        let drains = off.iter().any(|port| port.drains);
        let then = match held {
            Some(_) => "; the agent keeps off it until `uc attach`",
            None => "",
        };
        if held.is_none() && drains {
            watch_in_background(&store)?;
        }
        let who = match held {
            Some(_) => "the agent".to_owned(),
            None => "a process in the background".to_owned(),
        };
        for port in &off {
            outln!("{}: {}{then}", port.name, port.told(&who));
        }
        if held.is_some() && self.all {
            outln!("the agent keeps off ports to come, too, until it is ended and started again");
        }
        if self.wait {
            return wait(&store, &off);
        }
        Ok(true)
    }
}

impl Off {
    /// Returns a sentence on how the port was detached. `who` names the process that detaches the port after it has
    /// drained.
    fn told(&self, who: &str) -> String {
        let flows = flows(self.flows);
        match self.flows {
            0 => "detached".to_owned(),
            _ if self.drains => format!(
                "drains: {flows} still get marks echoed, new ones pass; {who} detaches it after the last \
                 (`uc detach --now`: at once)"
            ),
            _ => format!(
                "detached; the peers of {flows} may go on sending ECT, and marks are not echoed"
            ),
        }
    }
}

/// Detaches these ports, or with `None` all attached ports. `now`: at once; otherwise a port with flows that negotiated
/// ECN drains. Ports of another version, whose flows can't be read, are detached at once.
fn take_off(store: &Store, names: Option<&Vec<String>>, now: bool) -> Result<Vec<Off>> {
    let _turn = store.lock()?;
    let programs = match names {
        Some(names) => {
            let Some(programs) = store.open()? else {
                store.open_tidy()?;
                bail!(
                    "'{}' is not attached: no port of this host is",
                    names.join("', '")
                );
            };
            Some(programs)
        }
        None => store.open().ok().flatten(),
    };
    let mut ports = store.ports()?;
    if let Some(names) = names {
        ports.retain(|port| port.name.as_ref().is_some_and(|name| names.contains(name)));
    }
    let indices = ports.iter().map(|port| port.ifindex).collect();
    let mut lost = BTreeMap::new();
    let mut drain = Drain::default();
    match (&programs, names) {
        (Some(programs), Some(names)) if now => {
            lost = programs.echoing()?;
            store.detach_all(programs, names)?;
        }
        (Some(programs), Some(names)) => drain = store.leave_all(programs, names)?,
        (Some(programs), None) if now => lost = programs.echoing()?,
        (Some(programs), None) => drain = store.leave(programs, &indices)?,
        (None, _) => {}
    }
    match &programs {
        _ if names.is_none() && drain.is_empty() => {
            store.remove_all()?;
        }
        Some(programs) => {
            store.tidy(programs)?;
        }
        None => {}
    }
    let off = ports.into_iter().map(|port| {
        let left = drain.flows(port.ifindex);
        Off {
            ifindex: port.ifindex,
            name: port_name(&port),
            flows: left.or(lost.get(&port.ifindex).copied()).unwrap_or(0),
            drains: left.is_some(),
        }
    });
    Ok(off.collect())
}

/// Returns the state of ports that the agent has stopped managing.
fn taken_by_agent(store: &Store, names: &[String]) -> Result<Vec<Off>> {
    let programs = store.open().ok().flatten();
    let views = programs.map_or_else(|| Ok(Vec::new()), |programs| programs.ports())?;
    let off = names.iter().map(|name| {
        let ifindex = interface_index(name).unwrap_or(0);
        let view = views.iter().find(|view| view.ifindex == ifindex);
        let draining = view.and_then(|view| view.draining);
        Off {
            ifindex,
            name: name.clone(),
            flows: draining.unwrap_or(0),
            drains: draining.is_some(),
        }
    });
    Ok(off.collect())
}

/// Detaches those of the ports that still drain after the agent has stopped managing them.
fn detach_at_once(store: &Store, off: &mut [Off]) -> Result<()> {
    let _turn = store.lock()?;
    let drain = off.iter_mut().filter(|port| port.drains);
    let drain = drain.map(|port| {
        port.drains = false;
        port.ifindex
    });
    let drain: BTreeSet<u32> = drain.collect();
    if let Some(programs) = store.open().ok().flatten()
        && !drain.is_empty()
    {
        store.detach_indices(&programs, &drain)?;
    }
    Ok(())
}

/// Waits until none of the ports drains; returns false if one was attached again meanwhile.
fn wait(store: &Store, off: &[Off]) -> Result<bool> {
    let mine: BTreeSet<u32> = off.iter().map(|port| port.ifindex).collect();
    while !store.wait_until_left(&mine)? {
        watch_in_background(store)?;
    }
    let mut again = store.ports()?;
    again.retain(|port| mine.contains(&port.ifindex));
    for port in &again {
        outln!("{}: attached again", port_name(port));
    }
    let is_again = |port: &&Off| again.iter().any(|again| again.ifindex == port.ifindex);
    for port in off.iter().filter(|port| port.drains && !is_again(port)) {
        outln!("{}: detached", port.name);
    }
    Ok(again.is_empty())
}

/// Starts a process that detaches draining ports when their flows have ended, unless one runs already. Returns when
/// such a process waits, or no port drains.
fn watch_in_background(store: &Store) -> Result<()> {
    let none =
        "the ports drain, but no process waits for their flows to end; run `uc detach` again";
    let mut process = std::env::current_exe()
        .and_then(|program| {
            Command::new(program)
                .args(["detach", "--finish"])
                .current_dir("/")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
        })
        .context(none)?;
    let until = Instant::now() + WATCHED_WITHIN;
    while !store.is_drain_watched()? {
        match process.try_wait()? {
            Some(status) if status.success() => break,
            Some(status) => bail!("{none}: the waiting process has ended ({status})"),
            None if Instant::now() > until => bail!(
                "{none}: the waiting process did not start within {} s",
                WATCHED_WITHIN.as_secs()
            ),
            None => thread::sleep(Duration::from_millis(20)),
        }
    }
    Ok(())
}
