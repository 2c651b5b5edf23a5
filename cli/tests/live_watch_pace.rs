//! The rate of turns where the kernel has no device that reports one: `uc watch` says so and goes on.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use uc_lab::{Lab, Plan};

use crate::common::bench::build;
use crate::common::{STACKS, experiment, guest, live, transfer};

const PORT: u16 = 5001;
const NETWORK: &str = "rate = \"100Mbit\"\ndelay = \"2ms\"\n\
     queue = { kind = \"droptail\", limit = \"1MB\" }";
/// What `uc watch` says where no uplink's rate is known.
const UNKNOWN: &str = "no uplink with a known rate";

/// Watches both ports with these options while a connection transfers a few bytes. Returns what
/// `uc watch` wrote to its standard error.
fn complaints(plan: &Plan, lab: &Lab, options: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    let hosts = &lab.wiring.hosts;
    let uc = env!("CARGO_BIN_EXE_uc");
    let mut make = hosts.command(uc);
    make.args(["watch", "--make-key"]).arg(&key);
    assert!(make.stdout(Stdio::null()).status().unwrap().success());
    let mut watch = hosts.command(uc);
    watch.args(["watch", "port0", "port1", "--peer", "10.77.0.0/24"]);
    watch.args(options).arg("--key-file").arg(&key);
    watch.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut watch = watch.spawn().unwrap();
    let mut said = BufReader::new(watch.stdout.take().unwrap()).lines();
    for port in ["port0", "port1"] {
        let line = said.next().unwrap().unwrap();
        assert!(line.starts_with(&format!("{port}: watched")), "{line}");
    }
    let address = SocketAddr::new(plan.servers[0].address, PORT);
    let listener = lab.wiring.servers[0].enter(|| TcpListener::bind(address));
    let connect = || TcpStream::connect(address).unwrap();
    let guest = &lab.wiring.guests[0];
    transfer::exchange(&listener.unwrap().unwrap(), || {
        guest.enter(connect).unwrap()
    });
    kill(Pid::from_raw(watch.id() as i32), Signal::SIGTERM).unwrap();
    let output = watch.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{options:?}: {stderr}");
    stderr
}

#[test]
fn live_watch_says_once_for_each_port_that_no_rate_is_known_and_goes_on() {
    if !live() {
        return;
    }
    let guests = format!("receiver_law = \"pass\"\n{}", guest("legacy", "legacy", ""));
    let (plan, lab) = build(&experiment(1, NETWORK, &guests, STACKS));
    for options in [&[][..], &["--pace", "auto"]] {
        let said = complaints(&plan, &lab, options);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 2, "{said}");
        for (line, port) in lines.iter().zip(["port0", "port1"]) {
            assert!(
                line.starts_with(&format!("uc: {port}: {UNKNOWN}")),
                "{line}"
            );
            assert!(line.contains("--pace RATE"), "{line}");
        }
    }
    for options in [["--pace", "100Mbit"], ["--pace", "none"], ["--wait", "0s"]] {
        assert_eq!(complaints(&plan, &lab, &options), "", "{options:?}");
    }
}
