//! Measures the time to attach many ports, give them new plans, swap their programs and detach
//! them, and the memory of the maps, in a network namespace of its own.
//! `cargo run --release -p uc-port --example ports [PORTS]`; needs root and `ip`.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use uc_core::{Policy, consts};
use uc_port::{AttachVia, Match, PortPlan, Rule, Store, interface_index};

const PORTS: usize = 1000;
/// Number of rules of a plan.
const RULES: usize = 8;

fn main() -> Result<(), Box<dyn Error>> {
    let ports = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => PORTS,
    };
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET)?;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>)?;
    mount(
        Some("bpf"),
        "/sys/fs/bpf",
        Some("bpf"),
        MsFlags::empty(),
        Some("mode=700"),
    )?;
    make_interfaces(ports)?;
    let indices = (0..ports).map(|at| interface_index(&format!("p{at}")));
    let indices: Vec<u32> = indices.collect::<Result<_, _>>()?;
    let plans = |law| -> BTreeMap<u32, PortPlan> {
        let rule = Rule::all(Policy::new(law, consts::PROFILE_LINUX));
        let of_web = Match {
            remote_ports: (80, 80),
            ..Match::ALL
        };
        let mut rules = vec![
            Rule {
                matches: of_web,
                ..rule
            };
            RULES - 1
        ];
        rules.push(rule);
        let plan = PortPlan {
            rules,
            ..PortPlan::default()
        };
        indices
            .iter()
            .map(|&ifindex| (ifindex, plan.clone()))
            .collect()
    };

    let store = Store::default();
    let _turn = store.lock()?;
    let began = Instant::now();
    let (programs, _) = store.upgrade(&BTreeMap::new(), 65536, false)?;
    tell("load and pin the programs", began);
    let began = Instant::now();
    let failed = store.attach_indices(&programs, &plans(consts::LAW_ECN), AttachVia::Auto)?;
    tell(
        &format!("attach {ports} ports, {} failed", failed.len()),
        began,
    );
    let began = Instant::now();
    programs.set_plans(&plans(consts::LAW_DCTCP))?;
    tell("put other plans in force", began);
    let began = Instant::now();
    let seen = (store.attached(&programs)?.len(), programs.ports()?.len());
    tell(&format!("list them: {seen:?}"), began);
    let began = Instant::now();
    let (programs, what) = store.upgrade(&BTreeMap::new(), 65536, true)?;
    tell(&format!("load and swap the programs: {what:?}"), began);
    println!("{:>10.1} MB of maps", programs.memory_bytes()? as f64 / 1e6);
    let began = Instant::now();
    store.detach_indices(&programs, &indices.into_iter().collect())?;
    tell("detach them", began);
    Ok(())
}

fn tell(what: &str, began: Instant) {
    println!("{:>10.2} s  {what}", began.elapsed().as_secs_f64());
}

fn make_interfaces(ports: usize) -> Result<(), Box<dyn Error>> {
    let mut batch = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .spawn()?;
    let mut lines = batch.stdin.take().ok_or("no pipe to ip")?;
    for at in (0..ports).step_by(2) {
        writeln!(lines, "link add p{at} type veth peer name p{}", at + 1)?;
    }
    drop(lines);
    match batch.wait()?.success() {
        true => Ok(()),
        false => Err("ip could not make the interfaces".into()),
    }
}
