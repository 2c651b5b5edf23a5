//! Follows `docs/write-a-law.md`: writes its files, applies its edit, runs its commands, and checks
//! what the law does, natively and in the kernel: of ABE (RFC 8511) a mark takes 15 % of the window
//! and a loss half of it.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use etherparse::{PacketBuilder, TcpOptionElement};
use uc_core::{Asked, COMPILED, Core, Edit, Flow, Law, Policy, Reason, Segment, consts};
use uc_lab::netns::Namespace;
use uc_live::folder;
use uc_port::{Direction, PacketContext, ProgramObject, Programs};

use crate::common::by_hand::TOOLS;
use crate::common::law_page::{blocks, repository};
use crate::common::live_with;
use crate::common::sandbox::Sandbox;
use crate::common::uc::{refusal, success};

const MSS: u32 = 1_000;
const ISS: u32 = 0xffff_f000; // wraps within a few segments
const WINDOW_SEGMENTS: u32 = 20;
/// Number of the page's law where it is compiled from its own folder (`UC_LAW_OUTSIDE`).
const OUTSIDE: u32 = 12;
/// Number of the page's law where it stands in the source tree, after all others.
const INSIDE: u32 = consts::LAW_COUPLED + 1;
/// A number that no law has.
const NONE: u32 = 13;

const ACK: u8 = consts::ACK as u8;
const CWR: u8 = consts::CWR as u8;
const ECE: u8 = consts::ECE as u8;
const SYN: u8 = consts::SYN as u8;

/// Runs a command in a folder; it must succeed.
fn run(command: &mut Command, root: &Path, what: &str) {
    let output = command.current_dir(root).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}\n{text}");
}

/// Returns a command of a shell in which `uc` is the one that is tested.
fn shell(mut command: Command, text: &str) -> Command {
    let uc = Path::new(env!("CARGO_BIN_EXE_uc"))
        .parent()
        .expect("a folder");
    let path = std::env::var("PATH").expect("a PATH");
    command.env("PATH", format!("{}:{path}", uc.display()));
    command.args(["-ec", text]);
    command
}

/// Runs a comparison that finds a difference.
fn differ(root: &Path, text: &str) {
    let mut command = shell(Command::new("sh"), text);
    let output = command.current_dir(root).output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}\n{told}");
    assert!(told.contains("utilisation"), "{told}");
}

/// Checks that the simulator ran the law: packets of its flows were marked, as those of flows that
/// pass unmodified are not.
fn simulated(root: &Path) {
    let flows = fs::read_to_string(root.join("out/abe/flows.csv")).expect("the run's flows");
    let mut lines = flows
        .lines()
        .map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().expect("a header");
    let column = |name: &str| header.iter().position(|column| *column == name);
    let (case, marked) = (column("case").unwrap(), column("marked_packets").unwrap());
    let own: Vec<_> = lines.filter(|row| row[case] == "abe").collect();
    assert_eq!(own.len(), 6, "2 flows in 3 runs: {flows}");
    assert!(own.iter().all(|row| row[marked] != "0"), "{flows}");
}

/// A folder in which all that the page says was done. `attach` runs the commands about ports.
fn followed(attach: impl Fn(&Path, &str)) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    folder::copy(&repository().join("core"), &root.path().join("core"));
    let base = repository().join("base").canonicalize().expect("a path");
    symlink(base, root.path().join("base")).expect("room for a link");
    let mut seen = Vec::new();
    for (language, file, text) in blocks() {
        match (language.as_str(), file) {
            ("c" | "toml", Some(file)) => {
                let path = root.path().join(file);
                fs::create_dir_all(path.parent().expect("a folder")).expect("room for a folder");
                fs::write(path, text).expect("room for a file");
            }
            ("diff", _) => {
                fs::write(root.path().join("edit"), &text).expect("room for a file");
                let mut apply = Command::new("git");
                run(apply.args(["apply", "edit"]), root.path(), &text);
            }
            ("sh", _) if text.starts_with("uc attach") => attach(root.path(), &text),
            ("sh", _) if text.starts_with("uc-bench compare") => differ(root.path(), &text),
            ("sh", _) => run(&mut shell(Command::new("sh"), &text), root.path(), &text),
            other => panic!("a block that the test cannot follow: {other:?}"),
        }
        seen.push(language);
    }
    let pages = ["c", "c", "sh", "toml", "sh", "sh", "sh", "c", "diff", "sh"];
    assert_eq!(seen, pages);
    root
}

/// A core that the page compiled.
fn loaded(root: &Path, library: &str) -> Core {
    // SAFETY: built from uc-core's own shim.c; the law touches no struct of the contract.
    unsafe { Core::open_library(&root.join(library)) }.expect("the library that was just built")
}

fn syn() -> Segment {
    Segment {
        seq: ISS,
        flags: SYN,
        window: 65_535,
        mss_bytes: MSS as u16,
        options: consts::OPT_MSS as u8,
        direction: consts::FROM_GUEST as u8,
        ..Segment::default()
    }
}

fn policy(law: u32) -> Policy {
    Policy {
        initial_window_segments: WINDOW_SEGMENTS as u8,
        ..Policy::new(law, consts::PROFILE_RFC)
    }
}

/// A platform of the core with one flow.
trait Place {
    /// Passes a segment, which must be translated.
    fn pass(&mut self, segment: &Segment);
    /// Returns what the platform knows of the flow.
    fn flow(&self) -> Flow;
}

/// A native core.
struct Native {
    core: Core,
    policy: Policy,
    flow: Flow,
    now_ns: u64,
}

impl Place for Native {
    fn pass(&mut self, segment: &Segment) {
        self.now_ns += 10_000;
        let (flow, now_ns) = (&mut self.flow, self.now_ns);
        let (reason, edit) = if uc_core::is_syn(segment) {
            let (given, mut asked) = ((&self.policy, 0), Asked::default());
            let (step, edit) = self.core.unknown(flow, given, &mut asked, segment, now_ns);
            assert_eq!(edit.flags, SYN | ECE | CWR, "the host offers ECN for it");
            (step.reason(), edit)
        } else {
            self.core.translate(flow, segment, now_ns)
        };
        assert_eq!(reason, Reason::TRANSLATED, "{edit:?}");
    }

    fn flow(&self) -> Flow {
        self.flow
    }
}

/// Programs in the kernel, through which packets pass one by one.
struct Kernel<'a> {
    programs: &'a Programs,
    guest: SocketAddr,
}

/// Index of the loopback interface, which every namespace has.
const PORT: u32 = 1;

impl Kernel<'_> {
    fn frame(&self, segment: &Segment) -> Vec<u8> {
        let from_guest = u32::from(segment.direction) == consts::FROM_GUEST;
        let (guest, peer) = ([10, 77, 0, 1], [10, 77, 0, 2]);
        let ports = (self.guest.port(), 5001);
        let (from, to, ports) = if from_guest {
            (guest, peer, ports)
        } else {
            (peer, guest, (ports.1, ports.0))
        };
        let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
            .ipv4(from, to, 64)
            .tcp(ports.0, ports.1, segment.seq, segment.window);
        let flag = |bit: u8| segment.flags & bit != 0;
        let builder = if flag(SYN) { builder.syn() } else { builder };
        let builder = if flag(ECE) { builder.ece() } else { builder };
        let builder = if flag(ACK) {
            builder.ack(segment.ack)
        } else {
            builder
        };
        let mss = [TcpOptionElement::MaximumSegmentSize(MSS as u16)];
        let options = if flag(SYN) { &mss[..] } else { &[] };
        let builder = builder.options(options).expect("room for an option");
        let mut frame = Vec::new();
        let payload = vec![0; segment.payload_bytes as usize];
        builder.write(&mut frame, &payload).expect("room in memory");
        frame
    }
}

impl Place for Kernel<'_> {
    fn pass(&mut self, segment: &Segment) {
        let direction = if u32::from(segment.direction) == consts::FROM_GUEST {
            Direction::FromGuest
        } else {
            Direction::ToGuest
        };
        let context = PacketContext {
            ifindex: PORT,
            gso_segs: 0,
            gso_size: 0,
            repeat: 1,
        };
        let translated = || self.programs.counters().unwrap().get(Reason::TRANSLATED);
        let before = translated();
        let frame = self.frame(segment);
        self.programs.test_run(direction, &frame, context).unwrap();
        assert_eq!(translated(), before + 1);
    }

    fn flow(&self) -> Flow {
        let flows = self.programs.flows().unwrap();
        let own = flows.iter().find(|flow| flow.guest == self.guest);
        own.expect("the flow is in the table").state
    }
}

/// Opens a flow and sends its whole initial window.
fn sending<P: Place>(mut place: P) -> P {
    place.pass(&syn());
    place.pass(&Segment {
        ack: ISS.wrapping_add(1),
        flags: SYN | ACK | ECE,
        direction: consts::TO_GUEST as u8,
        ..syn()
    });
    for sent in 0..WINDOW_SEGMENTS {
        place.pass(&Segment {
            seq: ISS.wrapping_add(1 + sent * MSS),
            ack: ISS.wrapping_add(1),
            payload_bytes: MSS,
            wire_payload_bytes: MSS as u16,
            flags: ACK,
            options: 0,
            ..syn()
        });
    }
    place
}

fn ack(place: &mut impl Place, segments: u32, flags: u8) {
    place.pass(&Segment {
        seq: ISS.wrapping_add(1),
        ack: ISS.wrapping_add(1 + segments * MSS),
        flags: ACK | flags,
        options: 0,
        direction: consts::TO_GUEST as u8,
        ..syn()
    });
}

/// Checks the law on flows that `place` makes, each under the law of a number.
fn takes_15_percent_on_a_mark_and_half_on_a_loss<P: Place>(
    mut place: impl FnMut(u32) -> P,
    law: u32,
) {
    let mut marked = sending(place(law));
    ack(&mut marked, 1, ECE);
    let flow = marked.flow();
    assert_eq!((flow.reno.cwnd, flow.cuts), (17 * MSS, 1));

    let mut lost = sending(place(law));
    for _ in 0..4 {
        ack(&mut lost, 0, 0);
    }
    let flow = lost.flow();
    assert_eq!((flow.reno.ssthresh, flow.losses), (10 * MSS, 1));

    let mut by_law_ecn = sending(place(consts::LAW_ECN));
    ack(&mut by_law_ecn, 1, ECE);
    assert_eq!(by_law_ecn.flow().reno.cwnd, 10 * MSS);
}

fn natively(core: Core, law: u32) {
    let place = |law| Native {
        core,
        policy: policy(law),
        flow: Flow::default(),
        now_ns: 1_000_000_000,
    };
    takes_15_percent_on_a_mark_and_half_on_a_loss(place, law);
}

fn in_the_kernel(programs: &Programs, law: u32) {
    let mut port = 40_000;
    let place = |law| {
        port += 1;
        let guest = SocketAddr::from(([10, 77, 0, 1], port));
        programs.set_plan(PORT, &policy(law).into()).unwrap();
        Kernel { programs, guest }
    };
    takes_15_percent_on_a_mark_and_half_on_a_loss(place, law);
}

fn passes(reason: Reason, edit: &Edit) {
    assert_eq!((reason, edit.flags), (Reason::NO_POLICY, SYN));
}

#[test]
fn page_makes_the_law_work_in_a_folder_of_its_own_and_in_the_tree() {
    let root = followed(|_, _| {});
    simulated(root.path());
    let outside = loaded(root.path(), "abe/core.so");
    natively(outside, OUTSIDE);
    let inside = loaded(root.path(), "core.so");
    natively(inside, INSIDE);

    // flows pass under a number that no law has, also where another core has one
    let (mut flow, mut asked) = (Flow::default(), Asked::default());
    for (core, law) in [
        (outside, NONE),
        (outside, INSIDE),
        (inside, OUTSIDE),
        (COMPILED, OUTSIDE),
        (COMPILED, INSIDE),
    ] {
        let given = (&policy(law), 0);
        let (step, edit) = core.unknown(&mut flow, given, &mut asked, &syn(), 1);
        passes(step.reason(), &edit);
    }
}

/// A namespace with the interfaces tap0 and tap1.
fn taps() -> Namespace {
    let namespace = Namespace::new("the tests").unwrap();
    ip(&namespace, "link add tap0 type veth peer name guest0");
    ip(&namespace, "link add tap1 type veth peer name guest1");
    namespace
}

fn ip(namespace: &Namespace, arguments: &str) {
    let mut command = namespace.command("ip");
    command.args(arguments.split(' '));
    success(command);
}

#[test]
fn live_page_attaches_the_law_and_the_kernel_takes_15_percent_on_a_mark() {
    if !live_with(&TOOLS) || !live_with(&["ip"]) {
        return;
    }
    let (namespace, sandbox) = (taps(), Sandbox::new());
    // entering the mount namespace leaves the folder
    let within = |root: &Path, text: &str| {
        let text = format!("cd {}; {text}", root.display());
        shell(sandbox.command(&namespace, "sh"), &text)
    };
    let root = followed(|root, text| {
        let told = success(within(root, text));
        let attached = "tap0: attached; new flows are translated";
        assert!(told.starts_with(attached), "{told}");
    });
    let object = ProgramObject::read(&root.path().join("abe/port.bpf.o")).unwrap();
    assert_eq!(object.laws()[0].name, "abe");
    in_the_kernel(&Programs::load_object(&object, 64, 0).unwrap(), OUTSIDE);

    // another process knows the law by its name while ports run it, and keeps the programs
    let done = |text: &str| success(within(root.path(), text));
    assert!(Law::named("abe").is_none(), "this process was not told");
    let versions = || {
        sandbox
            .pins()
            .into_iter()
            .filter(|pin| pin.contains("programs-"))
            .collect::<Vec<_>>()
    };
    let pinned = versions();
    done("uc attach tap1 --law abe");
    done("uc flows --filter law=abe");
    assert_eq!(versions(), pinned);
    done("uc detach tap1");

    // a changed law of the same name replaces the programs, and other laws do not
    let change = |from: &str, to: &str| {
        let copy = root.path().join(to);
        copy_law(&root.path().join("abe"), &copy, |text| {
            text.replace("abe", from)
                .replace("ABE", &from.to_uppercase())
                .replace("85", "90")
        });
        done(&format!("uc law build {to}"));
    };
    change("abe", "changed");
    done("uc attach tap1 --laws changed --law abe");
    assert_ne!(versions(), pinned);
    done("uc detach tap1");
    change("other", "others");
    let refused = [
        "laws from outside (abe)",
        "have others (other)",
        "uc detach --all",
    ];
    refusal(
        within(root.path(), "uc attach tap1 --laws others"),
        &refused,
    );
    done("uc detach --all");
    done("uc attach tap1 --laws others --law other");
    done("uc detach --all");

    // a machine whose interface is gone leaves no law behind, and none in the way of others
    done("uc attach tap1 --laws abe --law abe; ip link del tap1");
    let refused = ["no law 'abe'", "--laws"];
    refusal(within(root.path(), "uc attach tap0 --law abe"), &refused);
    done("uc attach tap0 --laws abe --law abe; ip link del tap0");
    ip(&namespace, "link add tap2 type veth peer name guest2");
    done("uc attach tap2 --laws others --law other");

    // another machine or cut under the same name is another law
    copy_law(
        &root.path().join("others"),
        &root.path().join("cut"),
        |text| text.replace("UC_SHALLOW", "UC_BYTES"),
    );
    done("uc law build cut");
    ip(&namespace, "link add tap3 type veth peer name guest3");
    let refused = ["laws from outside (other)", "uc detach --all"];
    refusal(
        within(root.path(), "uc attach tap3 --laws cut --law other"),
        &refused,
    );
    done("uc detach --all");
    assert!(sandbox.is_clean(), "{:?}", sandbox.pins());
}

/// Copies the sources of a law, changed.
fn copy_law(from: &Path, to: &Path, change: impl Fn(String) -> String) {
    fs::create_dir_all(to.join("more")).expect("room for a folder");
    for name in ["more/table.h", "more/law.h"] {
        let text = fs::read_to_string(from.join(name)).expect("a source of the law");
        fs::write(to.join(name), change(text)).expect("room for a file");
    }
}
