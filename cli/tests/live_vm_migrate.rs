//! A machine migrates live between two hosts, back and forth, while its connections talk. At the switch-over
//! `uc handover` takes their flows along, by hand or by `packaging/virsh-migrate`. A control without it shows
//! the harm.

use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use uc_lab::netns::Namespace;
use uc_lab::tap::Tap;
use uc_lab::vm::image::place_of;
use uc_lab::vm::message::Request;
use uc_lab::vm::{Links, Machine, Shape, Template};
use uc_live::in_peace;

use crate::common::bench::wait_until;
use crate::common::by_hand::{assert_same_windows, packets, windows};
use crate::common::ends::listen;
use crate::common::live_vm;
use crate::common::marked::{Counts, GUEST_PORT, LONGER, Manner, SERVER_PORT, Talk, serve};
use crate::common::routed::ip;
use crate::common::sandbox::Sandbox;
use crate::common::uc::{inside, success};
use crate::common::virsh::{SCRIPT, Virsh};

/// Flows that the guest opens, and as many that the server opens.
const FLOWS: usize = 100;
const MANNER: Manner = Manner {
    flows: FLOWS,
    answer: 4_000,
    pause: Duration::from_millis(100),
};
const SERVER: [u8; 4] = [10, 2, 0, 2];
const GUEST: [u8; 4] = [10, 2, 0, 3];
const SERIES: &str = "6.1";
/// Environment variable with the number of migrations.
const MIGRATIONS: &str = "UC_MIGRATIONS";
/// Timeout of a command in the guest.
const LIMIT: Duration = Duration::from_secs(60);
/// How long the flows talk before the first migration, and after the one of the control.
const PART: Duration = Duration::from_secs(2);
/// How long a guest of libvirt is paused before it arrives: the script writes its flows meanwhile, also on a busy
/// machine.
const SWITCH_OVER: Duration = Duration::from_secs(1);

/// Two hosts whose bridges lead to that of a server.
struct Site {
    server: Namespace,
    hosts: [Namespace; 2],
    sandboxes: [Sandbox; 2],
    folder: tempfile::TempDir,
    template: Template,
}

/// The guest, where it runs.
struct Guest {
    host: usize,
    machine: Machine,
    _tap: OwnedFd,
}

impl Site {
    fn new() -> Self {
        let [server, one, other] =
            ["the server", "one host", "the other host"].map(|name| Namespace::new(name).unwrap());
        let ecn = ("net.ipv4.tcp_ecn", "1".to_owned());
        server.set_sysctls(&[ecn]).unwrap();
        let hosts = [one, other];
        bridge(&server);
        ip(&server, "address add 10.2.0.2/24 dev br0");
        for (host, number) in hosts.iter().zip(0..) {
            bridge(host);
            let path = server.path();
            let path = path.display();
            ip(
                host,
                &format!("link add up0 type veth peer name port{number} netns {path}"),
            );
            join(host, "up0");
            join(&server, &format!("port{number}"));
            // Marks the longer messages, and some of the guest's data.
            let mut nft = host.command("nft");
            nft.arg(format!(
                "table bridge t {{ chain c {{ type filter hook forward priority 0; {LONGER} ip ecn set ce; \
                 ip saddr 10.2.0.3 ip ecn ect0 numgen random mod 100 < 1 ip ecn set ce; }}; }}"
            ));
            success(nft);
        }
        let own = std::env::current_exe().unwrap();
        let shape = Shape {
            translated: true,
            ..Shape::narrow(true)
        };
        let site = Self {
            server,
            hosts,
            sandboxes: [Sandbox::with_run(), Sandbox::with_run()],
            folder: tempfile::tempdir().unwrap(),
            template: Template::boot_wide(SERIES, &inside().with(own), shape, &|| Ok(())).unwrap(),
        };
        site.uc(0, &["watch", "--make-key", &site.path("key")]);
        site
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn uc(&self, host: usize, arguments: &[&str]) -> String {
        success(self.sandboxes[host].uc(&self.hosts[host], arguments))
    }

    /// Makes the guest's port on a host, and attaches it.
    fn port(&self, host: usize) -> OwnedFd {
        let tap = Tap::for_machine(&self.hosts[host], "tap0", true).unwrap();
        join(&self.hosts[host], "tap0");
        self.uc(host, &["attach", "tap0", "--law", "ecn"]);
        tap.into()
    }

    fn handover(&self, host: usize, way: &str) -> String {
        let (file, key) = (self.path("flows"), self.path("key"));
        self.uc(host, &["handover", way, &file, "--key-file", &key, "tap0"])
    }

    fn seen(&self, host: usize) -> Value {
        serde_json::from_str(&self.uc(host, &["flows", "--json"])).unwrap()
    }

    /// Returns the ends of each translated flow, with its window in bytes.
    fn windows(&self, host: usize) -> Vec<(String, f64)> {
        windows(&self.seen(host))
    }

    /// Boots the guest on the first host, and opens its connections.
    fn start(&self) -> (Guest, Talk) {
        let tap = self.port(0);
        let links = Links {
            tap: Some(&tap),
            ..Links::default()
        };
        let mut machine = self.template.machine("the guest", links).unwrap();
        for change in [
            "link set lo up",
            "address add 10.2.0.3/24 dev eth0",
            "link set eth0 up",
        ] {
            let words: Vec<&str> = ["/bin/ip"].into_iter().chain(change.split(' ')).collect();
            let ran = machine.run(&words, LIMIT).unwrap();
            assert_eq!(ran.status, Some(0), "{ran:?}");
        }
        machine
            .order(&Request::Write {
                path: "/proc/sys/net/ipv4/tcp_ecn".into(),
                text: "0".into(),
            })
            .unwrap();
        let at_server = listen(&self.server, (SERVER, SERVER_PORT).into());
        let own = place_of(&std::env::current_exe().unwrap());
        let test = "live_vm_migrate::ends_inside_the_guest";
        let arguments = [&own, "--exact", test, "--ignored", "--nocapture"];
        let arguments = arguments.map(str::to_owned).into();
        machine.order(&Request::Start { arguments }).unwrap();
        let mut ends: Vec<TcpStream> = (0..FLOWS).map(|_| at_server.accept().unwrap().0).collect();
        let connect = || TcpStream::connect((Ipv4Addr::from(GUEST), GUEST_PORT)).unwrap();
        let opened = self
            .server
            .enter(|| (0..FLOWS).map(|_| connect()).collect::<Vec<_>>());
        ends.extend(opened.unwrap());
        let guest = Guest {
            host: 0,
            machine,
            _tap: tap,
        };
        (guest, Talk::of(MANNER, ends))
    }

    /// Migrates the guest to the other host. Calls `at_switch_over` with the old host and the new one.
    fn migrate(&self, mut guest: Guest, at_switch_over: impl FnOnce(usize, usize)) -> Guest {
        let (from, to) = (guest.host, 1 - guest.host);
        let tap = self.port(to);
        let links = Links {
            tap: Some(&tap),
            ..Links::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("migration");
        let mut machine = self.template.awaiting(&socket, "the guest", links).unwrap();
        let (began, mut paused) = (Instant::now(), Instant::now());
        let switch_over = || {
            paused = Instant::now();
            at_switch_over(from, to);
        };
        guest.machine.migrate(&socket, switch_over).unwrap();
        self.template.settle(&mut machine, &|| Ok(())).unwrap();
        let (took, paused) = (began.elapsed(), paused.elapsed());
        println!("migrated in {took:.1?}, of which it was paused for {paused:.1?}");
        Guest {
            host: to,
            machine,
            _tap: tap,
        }
    }

    /// Hands the flows over, and checks that they have the same windows.
    fn hand_over(&self, from: usize, to: usize) {
        let before = self.windows(from);
        assert_eq!(before.len(), 2 * FLOWS);
        let began = Instant::now();
        assert_eq!(self.handover(from, "--out"), "tap0: 200 flows written\n");
        assert_eq!(self.handover(to, "--in"), "tap0: 200 flows taken over\n");
        println!("handed over in {:.1?}", began.elapsed());
        assert_same_windows(&before, &self.windows(to));
        self.uc(from, &["detach", "--now", "tap0"]);
    }

    /// Migrates the guest by `packaging/virsh-migrate` and a `virsh` that does what libvirt's does: while the
    /// guest is paused its old port goes, and it goes on when it is resumed on the new host.
    fn migrate_by_script(&self, guest: Guest) -> Guest {
        let (from, to) = (guest.host, 1 - guest.host);
        let virsh = Virsh::new();
        let mut script = self.sandboxes[from].command(&self.hosts[from], SCRIPT);
        script
            .args(["guest", "new", "--persistent"])
            .env("PATH", virsh.path())
            .env("UC_KEY_FILE", self.path("key"))
            .env("UC_REMOTE", self.sandboxes[to].entrance(&self.hosts[to]))
            .stdout(Stdio::piped());
        let script = script.spawn().unwrap();
        let guest = self.migrate(guest, |from, _| {
            virsh.tell("paused");
            thread::sleep(SWITCH_OVER);
            ip(&self.hosts[from], "link delete tap0");
            virsh.tell("arrived");
            wait_until("the guest is resumed", || virsh.was("resumed"));
            virsh.tell("ended");
        });
        let told = script.wait_with_output().unwrap();
        assert!(told.status.success(), "{told:?}");
        let told = String::from_utf8(told.stdout).unwrap();
        assert_eq!(told, "tap0: 200 flows taken over\n");
        guest
    }

    /// Waits until a mark of each flow is answered, of those since the guest has migrated.
    fn wait_translated(&self, guest: &Guest, talk: &Talk) {
        talk.turn();
        let turned = Instant::now();
        wait_until("a mark of each flow is answered", || {
            talk.answered() == 2 * FLOWS
        });
        println!("all are translated after {:.1?}", turned.elapsed());
        assert_eq!(self.windows(guest.host).len(), 2 * FLOWS);
        assert_eq!(packets(&self.seen(guest.host), "no_handshake"), 0);
    }
}

/// Makes the bridge br0.
fn bridge(namespace: &Namespace) {
    for change in [
        "link set lo up",
        "link add br0 type bridge",
        "link set br0 up",
    ] {
        ip(namespace, change);
    }
}

/// Joins an interface to the bridge.
fn join(namespace: &Namespace, name: &str) {
    ip(namespace, &format!("link set {name} master br0 up"));
}

#[test]
fn live_vm_flows_of_a_migrated_machine_are_translated_if_they_are_handed_over() {
    if !live_vm(&[SERIES]) {
        return;
    }
    let migrations = std::env::var(MIGRATIONS).map_or(2, |text| text.parse().unwrap());
    let site = Site::new();
    in_peace(|| {
        migrate_with_flows(&site, migrations);
        migrate_without_flows(&site);
    });
}

fn migrate_with_flows(site: &Site, migrations: usize) {
    let (mut guest, talk) = site.start();
    thread::sleep(PART);
    for _ in 0..migrations {
        guest = site.migrate(guest, |from, to| site.hand_over(from, to));
        site.wait_translated(&guest, &talk);
    }
    guest = site.migrate_by_script(guest);
    site.wait_translated(&guest, &talk);
    let counts: Counts = talk.end().into_iter().sum();
    println!("with the flows: {counts:?}");
    assert_eq!(counts.unanswered, 0, "{counts:?}");
    guest.machine.check_unharmed().unwrap();
}

fn migrate_without_flows(site: &Site) {
    let (guest, talk) = site.start();
    thread::sleep(PART);
    let guest = site.migrate(guest, |from, _| {
        site.uc(from, &["detach", "--now", "tap0"]);
    });
    talk.turn();
    thread::sleep(PART);
    assert_eq!(talk.answered(), 0);
    assert!(site.windows(guest.host).is_empty());
    let counts: Counts = talk.end().into_iter().sum();
    println!("without the flows: {counts:?}");
    assert!(counts.marked_after > FLOWS as u64, "{counts:?}");
    assert_eq!(counts.unanswered_after, counts.marked_after, "{counts:?}");
}

/// Runs in the guest: opens connections and accepts as many, and answers on them.
#[test]
#[ignore = "is run in a guest by the tests of this file"]
fn ends_inside_the_guest() {
    serve(SERVER.into(), MANNER);
}
