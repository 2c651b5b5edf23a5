//! `uc detach`: takes ports off by hand, and waits until the flows that were promised ECN have ended.

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
/// A process in the background detaches the port then, or the agent if one runs. `uc status` shows how many
/// flows are left, and whether that process is missing: then run `uc detach PORT` again. `uc attach` of a
/// port that drains translates it again, and its flows with it. An idle flow counts for up to 2 h 4 min.
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
    /// Detach at once: marks on what the peers of flows under way send are no longer echoed
    #[arg(long)]
    now: bool,
    /// Return when the ports are detached, however long that takes; Ctrl-C ends only the waiting
    #[arg(long, conflicts_with = "now")]
    wait: bool,
    /// Detach ports that drain when they have drained, until none is left
    #[arg(long, hide = true, exclusive = true)]
    finish: bool,
}

/// How long the process that detaches ports may take to begin.
const WATCHED_WITHIN: Duration = Duration::from_secs(10);

/// A port that was detached, or drains.
struct Off {
    ifindex: u32,
    name: String,
    /// Number of flows whose peers may go on sending ECT.
    flows: usize,
    drains: bool,
}

impl Detach {
    /// Takes all of the ports off, or none.
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
    /// Says what became of the port. `who`: detaches it when it has drained.
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

/// Takes these ports off, or all that there are; at once, or when they have drained. Ports of another
/// version, whose flows can't be read, go at once.
fn take_off(store: &Store, names: Option<&Vec<String>>, now: bool) -> Result<Vec<Off>> {
    let _turn = store.lock()?;
    let programs = match names {
        Some(names) => {
            let Some(programs) = store.open()? else {
                store.open_tidy()?;
                bail!(
                    "nothing is attached on this host, so neither is '{}'",
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

/// Returns the state of ports that the agent has let go.
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

/// Detaches those of the agent's former ports that drain.
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

/// Waits until the ports have drained; returns false if one was attached again meanwhile.
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

/// Starts a process that detaches ports when they have drained, unless one runs. Returns when one runs, or
/// all have drained.
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
            Some(status) => bail!("{none}: it has ended, {status}"),
            None if Instant::now() > until => bail!("{none}: it does not begin"),
            None => thread::sleep(Duration::from_millis(20)),
        }
    }
    Ok(())
}
