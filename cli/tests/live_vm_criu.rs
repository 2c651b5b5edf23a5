//! CRIU moves a container with open connections between two hosts, and `packaging/criu-handover` takes their flows
//! along; a move without it is the control. All of it is in a machine with a kernel on which Debian's CRIU runs.

use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use nix::sys::prctl::set_child_subreaper;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use serde_json::Value;
use uc_lab::netns::Namespace;
use uc_lab::vm::image::{MODULES, place_of};

use crate::common::bench::wait_until;
use crate::common::by_hand::{assert_same_windows, packets, windows};
use crate::common::ends::listen;
use crate::common::live_vm;
use crate::common::marked::{Counts, GUEST_PORT, LONGER, Manner, SERVER_PORT, Talk, serve};
use crate::common::routed::{Routed, connect, ip};
use crate::common::sandbox::Sandbox;
use crate::common::uc::{outcome, success};
use crate::inside::{at_home, run_in, timed};

const SERIES: &str = "6.1";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/criu-handover");
/// What the hosts run, and what the shell scripts do.
const PROGRAMS: [&str; 12] = [
    "criu", "nft", "sh", "cat", "mkdir", "mount", "nsenter", "rm", "setsid", "sleep", "unshare",
    SCRIPT,
];
/// What CRIU asks of the kernel, and a port.
const NEEDED: [&str; 11] = [
    "veth",
    "sch_ingress",
    "cls_bpf",
    "crc32c_generic",
    "nf_tables",
    "nf_conntrack_netlink",
    "tcp_diag",
    "udp_diag",
    "unix_diag",
    "af_packet_diag",
    "netlink_diag",
];
/// Connections that the container opens, and as many that the server opens.
const FLOWS: usize = 5;
const MANNER: Manner = Manner {
    flows: FLOWS,
    answer: 4_000,
    pause: Duration::from_millis(50),
};
/// How long the flows talk before each move, and after the control's.
const PART: Duration = Duration::from_secs(1);
const KEY: &str = "/tmp/key";

#[test]
fn live_vm_flows_of_a_container_that_criu_moves_are_translated_if_its_script_hands_them_over() {
    if live_vm(&[SERIES]) && uc_live::have(&PROGRAMS) {
        run_in(SERIES, "live_vm_criu::moves_inside_a_guest", &PROGRAMS);
    }
}

/// Two hosts; the container begins at the first.
struct Site {
    net: Routed,
    hosts: [Namespace; 2],
    sandboxes: [Sandbox; 2],
}

impl Site {
    fn new() -> Self {
        let net = Routed::build(&[None], 1);
        for (end, ecn) in [(&net.server, "1"), (&net.guest, "0")] {
            let ecn = ("net.ipv4.tcp_ecn", ecn.to_owned());
            end.set_sysctls(&[ecn]).unwrap();
        }
        let hosts = [net.host.clone(), net.second_host()];
        for host in &hosts {
            let mut nft = host.command("nft");
            nft.arg(format!(
                "table ip t {{ chain c {{ type filter hook forward priority 0; {LONGER} ip ecn set ce; }}; }}"
            ));
            success(nft);
        }
        let sandboxes = [Sandbox::with_run(), Sandbox::with_run()];
        Self {
            net,
            hosts,
            sandboxes,
        }
    }

    fn uc(&self, host: usize, arguments: &[&str]) -> Command {
        self.sandboxes[host].uc(&self.hosts[host], arguments)
    }

    fn seen(&self, host: usize) -> Value {
        serde_json::from_str(&success(self.uc(host, &["flows", "--json"]))).unwrap()
    }

    /// Starts the container at the first host, and its connections.
    #[expect(
        clippy::zombie_processes,
        reason = "waited for by its number, as its restored self is"
    )]
    fn start(&self) -> (Pid, Talk) {
        let at_server = listen(&self.net.server, Routed::server(0, false, SERVER_PORT));
        // CRIU opens a process's files by their names in the host's mounts; setsid, because no terminal is to come along.
        let own = place_of(&std::env::current_exe().unwrap());
        let test = "live_vm_criu::ends_inside_a_container";
        let line = format!(
            "exec setsid {own} --exact {test} --ignored --nocapture </dev/null >/tmp/container 2>&1"
        );
        let mut container = self.sandboxes[0].command(&self.net.guest, "sh");
        let container = container.args(["-c", &line]).spawn().unwrap();
        let mut ends: Vec<_> = (0..FLOWS).map(|_| at_server.accept().unwrap().0).collect();
        let to = Routed::guest(false, GUEST_PORT);
        let open = || (0..FLOWS).map(|_| TcpStream::connect(to).unwrap());
        ends.extend(
            self.net
                .server
                .enter(|| open().collect::<Vec<_>>())
                .unwrap(),
        );
        (
            Pid::from_raw(container.id().try_into().unwrap()),
            Talk::of(MANNER, ends),
        )
    }

    /// Runs `criu` on a host; with `script` it calls it.
    fn criu(&self, host: usize, arguments: &[&str], script: bool) {
        let mut criu = self.sandboxes[host].command(&self.hosts[host], "criu");
        criu.args(arguments)
            .args(["--images-dir", "/tmp/images", "--tcp-established"]);
        criu.args(["--external", "veth[eth0]:port0"]);
        if script {
            let place = place_of(Path::new(SCRIPT));
            criu.args(["--action-script", &place]);
            criu.env("UC_PORT", "port0").env("UC_KEY_FILE", KEY);
        }
        let told = outcome(criu);
        assert_eq!(told.status, Some(0), "{arguments:?}: {told:?}");
    }

    /// Moves the container to the other host, and its port.
    fn migrate(&self, container: Pid, from: usize, script: bool) {
        let to = 1 - from;
        let pid = container.to_string();
        std::fs::create_dir_all("/tmp/images").unwrap();
        let dump = ["dump", "--tree", &pid, "--network-lock", "nftables"];
        timed("dump", || self.criu(from, &dump, script));
        waitpid(container, None).unwrap();
        // The namespace that CRIU made has ended with the container, and its port with it.
        if from == 0 {
            ip(&self.hosts[from], "link delete port0");
        }
        timed("restore", || {
            thread::scope(|scope| {
                // As an agent does, when the port appears.
                scope.spawn(|| wait_until("port0 is attached", || self.is_attached(to)));
                self.criu(to, &["restore", "--restore-detached"], script);
            });
        });
        std::fs::remove_dir_all("/tmp/images").unwrap();
    }

    fn is_attached(&self, host: usize) -> bool {
        outcome(self.uc(host, &["attach", "port0"])).status == Some(0)
    }

    /// Leads the container's packets by a host.
    fn plug_in(&self, host: usize) {
        let at = &self.hosts[host];
        ip(at, "address add 10.1.0.1/24 dev port0");
        ip(at, "link set port0 up");
        let by = ["10.2.0.1", "10.3.0.1"][host];
        ip(
            &self.net.server,
            &format!("route replace 10.1.0.0/24 via {by}"),
        );
    }
}

/// Runs in the machine.
#[test]
#[ignore = "is run in a guest by the test of this file"]
fn moves_inside_a_guest() {
    at_home();
    for module in NEEDED {
        uc_lab::vm::modules::load(Path::new(MODULES), module).unwrap();
    }
    set_child_subreaper(true).unwrap();
    let site = timed("hosts", Site::new);
    success(site.uc(0, &["watch", "--make-key", KEY]));
    timed("attach", || {
        // So that both hosts have loaded their programs, and keep them while the container is away.
        for (host, namespace) in site.hosts.iter().enumerate() {
            connect(namespace, "spare0", namespace, "spare1");
            success(site.uc(host, &["attach", "spare0"]));
        }
        success(site.uc(0, &["attach", "port0"]));
    });
    let (container, talk) = site.start();
    thread::sleep(PART);
    talk.rest();
    let before = windows(&site.seen(0));
    assert_eq!(before.len(), 2 * FLOWS);

    site.migrate(container, 0, true);
    assert_same_windows(&before, &windows(&site.seen(1)));
    site.plug_in(1);
    talk.turn();
    wait_until("a mark of each flow is answered", || {
        talk.answered() == 2 * FLOWS
    });
    assert_eq!(packets(&site.seen(1), "no_handshake"), 0);

    talk.rest();
    site.migrate(container, 1, false);
    site.plug_in(0);
    talk.turn();
    thread::sleep(PART);
    assert_eq!(talk.answered(), 0);
    assert!(windows(&site.seen(0)).is_empty());
    let counts: Counts = talk.end().into_iter().sum();
    println!("{counts:?}");
    assert!(counts.marked_after > FLOWS as u64, "{counts:?}");
    assert_eq!(counts.unanswered_after, counts.marked_after, "{counts:?}");
    assert_eq!(counts.unanswered, counts.unanswered_after, "{counts:?}");
}

/// Runs in the container: opens connections and accepts as many, and answers on them.
#[test]
#[ignore = "is run in a container by the test of this file"]
fn ends_inside_a_container() {
    serve(Routed::server(0, false, SERVER_PORT).ip(), MANNER);
}
