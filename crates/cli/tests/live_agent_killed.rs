//! Under load the agent is killed and started again, told of other policies, and replaced by one
//! that puts new programs on the ports: connections and their shadows don't notice.
//!
//! Beside the port there is another one that no policy names, with as many connections: what pauses
//! on both is the machine's doing. A stall is counted against these, not by a clock.

mod common;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::agent::{Agent, Installation, ip};
use common::live_with;
use common::transfer::{End, Transfer};
use common::uc::success;
use uc_lab::netns::Namespace;
use uc_port::{Event, FlowView, Programs, Store};

const TOOLS: [&str; 4] = ["unshare", "nsenter", "mount", "ip"];
const PORT: &str = "port0";
/// The port that is left alone.
const OTHER: &str = "other0";
const FLOWS: u16 = 100;
/// Each flow sends a segment about every 29 ms.
const PACE_BYTES_PER_S: u32 = 50_000;
/// What a flow sends in 200 ms: a pause that somebody would notice.
const STALL_BYTES: u64 = PACE_BYTES_PER_S as u64 / 5;
const QUIET: Duration = Duration::from_secs(2);

fn policy(law: &str) -> String {
    format!(
        "[[tenant]]\nname = \"acme\"\nports = [\"port*\"]\n\n[[rule]]\ntenant = \"acme\"\n\
         law = \"{law}\"\n"
    )
}

/// A guest behind a port of the host, another one behind one that is left alone, and a server beside
/// them, on one bridge.
struct Network {
    guests: [Namespace; 2],
    host: Namespace,
    server: Namespace,
}

impl Network {
    fn new() -> Self {
        let [guest, other, host, server] =
            ["guest", "other", "host", "server"].map(|name| Namespace::new(name).unwrap());
        ip(&host, "link add br0 type bridge");
        ip(&host, "link set br0 up");
        for (port, end, address) in [
            (PORT, &guest, "10.9.0.1/24"),
            (OTHER, &other, "10.9.0.2/24"),
            ("server0", &server, "10.9.0.3/24"),
        ] {
            ip(&host, &format!("link add {port} type veth peer name peer0"));
            ip(&host, &format!("link set {port} master br0 up"));
            ip(
                &host,
                &format!("link set peer0 netns {}", end.path().display()),
            );
            ip(end, &format!("addr add {address} dev peer0"));
            // otherwise a guest sends what is due within a second at once, and pauses by itself
            ip(end, "link set peer0 gso_max_segs 2");
            ip(end, "link set peer0 up");
            ip(end, "link set lo up");
            // no probe of a tail: on a loaded machine ACKs are later than those wait
            let mut no_probes = end.command("sh");
            no_probes.args(["-c", "echo 0 > /proc/sys/net/ipv4/tcp_early_retrans"]);
            success(no_probes);
        }
        Self {
            guests: [guest, other],
            host,
            server,
        }
    }

    /// Those of one guest.
    fn transfers(&self, guest: usize) -> Vec<Transfer> {
        let address = |end: usize, port| SocketAddr::from(([10, 9, 0, end as u8 + 1], port));
        let start = |number| {
            let from = End {
                namespace: &self.guests[guest],
                address: address(guest, 40_000 + number),
            };
            let to = End {
                namespace: &self.server,
                address: address(2, 5_000 + FLOWS * guest as u16 + number),
            };
            let transfer = Transfer::start(from, to);
            transfer.pace(PACE_BYTES_PER_S);
            transfer
        };
        (0..FLOWS).map(start).collect()
    }
}

/// The pauses of some transfers in one span.
#[derive(Clone, Debug, Default)]
struct Pauses {
    /// Of one transfer: so much did each of the others send meanwhile, at least.
    longest_bytes: u64,
    /// Longer than a stall.
    stalls: u32,
    /// By the clock, to be read by people.
    longest: Duration,
}

/// One transfer, as it was seen last when it had got on.
struct Seen {
    acked_bytes: u64,
    others: Vec<u64>,
    at: Instant,
    stalls: bool,
}

/// What the senders' kernels know to have arrived: no thread has to run for that.
fn acked(transfers: &[Transfer]) -> Vec<u64> {
    let acked = |transfer: &Transfer| transfer.info().bytes_acked;
    transfers.iter().map(acked).collect()
}

impl Pauses {
    /// Another look at transfers, and at others, all of which have to get on before a pause counts.
    fn look(&mut self, seen: &mut [Seen], acked: &[u64], others: &[u64]) {
        for (seen, &acked_bytes) in seen.iter_mut().zip(acked) {
            let sent = others
                .iter()
                .zip(&seen.others)
                .map(|(now, then)| now - then);
            let bytes = sent.min().unwrap_or(0);
            self.longest_bytes = self.longest_bytes.max(bytes);
            self.longest = self.longest.max(seen.at.elapsed());
            if bytes > STALL_BYTES && !seen.stalls {
                self.stalls += 1;
                seen.stalls = true;
            }
            if acked_bytes != seen.acked_bytes {
                *seen = Seen::now(acked_bytes, others);
            }
        }
    }
}

impl Seen {
    fn now(acked_bytes: u64, others: &[u64]) -> Self {
        Self {
            acked_bytes,
            others: others.to_vec(),
            at: Instant::now(),
            stalls: false,
        }
    }
}

/// Watches the progress of the port's transfers and of the others, each against the other ones.
struct Observer {
    pauses: Arc<Mutex<[Pauses; 2]>>,
    stop: Arc<AtomicBool>,
}

impl Observer {
    fn watch<'scope>(
        scope: &'scope std::thread::Scope<'scope, '_>,
        transfers: &'scope [Vec<Transfer>; 2],
    ) -> Self {
        let observer = Self {
            pauses: Arc::default(),
            stop: Arc::default(),
        };
        let (pauses, stop) = (Arc::clone(&observer.pauses), Arc::clone(&observer.stop));
        scope.spawn(move || {
            let look = || [acked(&transfers[0]), acked(&transfers[1])];
            let first = look();
            let seen = |one: &[u64], others: &[u64]| -> Vec<Seen> {
                one.iter().map(|acked| Seen::now(*acked, others)).collect()
            };
            let mut port = seen(&first[0], &first[1]);
            let mut other = seen(&first[1], &first[0]);
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(10));
                let now = look();
                let mut pauses = pauses.lock().unwrap();
                pauses[0].look(&mut port, &now[0], &now[1]);
                pauses[1].look(&mut other, &now[1], &now[0]);
            }
        });
        observer
    }

    /// What was seen since the last call, on the port and beside it.
    fn take(&self, what: &str) -> [Pauses; 2] {
        let pauses = std::mem::take(&mut *self.pauses.lock().unwrap());
        println!(
            "{what}: on the port {:?}, beside it {:?}",
            pauses[0], pauses[1]
        );
        pauses
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The shadows of all flows, which only ever go on.
struct Shadows<'a> {
    here: &'a Installation,
    last: BTreeMap<SocketAddr, Shadow>,
}

/// One, and its story: a flow that was opened anew would have another.
struct Shadow {
    flow: FlowView,
    events: Vec<Event>,
}

impl Shadow {
    /// Panics unless this is the one that it was, further on.
    fn goes_on_from(&self, then: &Shadow, when: &str) {
        let (now, before) = (&self.flow.state, &then.flow.state);
        let who = format!("{when}: {}", self.flow.guest);
        for (what, now, before) in [
            ("snd_una", now.snd_una, before.snd_una),
            ("snd_nxt", now.snd_nxt, before.snd_nxt),
            ("the furthest edge", now.furthest_edge, before.furthest_edge),
            ("echoed_ack", now.echoed_ack, before.echoed_ack),
            ("cuts", now.cuts, before.cuts),
            ("losses", now.losses, before.losses),
            ("marks", now.marks, before.marks),
        ] {
            let further = now.wrapping_sub(before) as i32;
            assert!(further >= 0, "{who}: {what} went back by {further}");
        }
        for (what, now, before) in [
            ("seen", now.seen_ns, before.seen_ns),
            ("timed", now.timed_ns, before.timed_ns),
            ("sent", now.sent_ns, before.sent_ns),
        ] {
            assert!(
                now >= before,
                "{who}: {what} went back: {now} after {before}"
            );
        }
        // What the handshake settled, and the slot that it was entered in.
        let settled = |shadow: &Shadow| {
            let (flow, state) = (&shadow.flow, &shadow.flow.state);
            let agreed = (
                state.stage,
                state.syns,
                state.wscale,
                state.mss_bytes,
                state.policy,
            );
            (agreed, flow.generation, flow.rule, flow.rule_number)
        };
        assert_eq!(settled(self), settled(then), "{who}");
        assert!(
            now.srtt_us > 0 || before.srtt_us == 0,
            "{who}: no round-trip time any more"
        );
        self.window_goes_on_from(then, &who);
        self.story_goes_on_from(then, &who);
    }

    fn window_goes_on_from(&self, then: &Shadow, who: &str) {
        let (now, before) = (&self.flow.state, &then.flow.state);
        if now.cuts + now.losses > before.cuts + before.losses {
            return;
        }
        // Cut by nothing, cwnd falls where a flow leaves it unused (RFC 2861), and to no less than
        // the restart window: here its policy's initial one. ssthresh remembers three quarters.
        let restart: u32 = now.policy.initial_window_segments.into();
        let (cwnd, least) = (now.reno.cwnd, before.reno.cwnd.min(restart));
        assert!(
            cwnd >= least,
            "{who}: cwnd {cwnd} after {}",
            before.reno.cwnd
        );
        let (ssthresh, least) = (now.reno.ssthresh, before.reno.ssthresh);
        assert!(
            ssthresh >= least,
            "{who}: ssthresh {ssthresh} after {least}"
        );
        // It begins at 1, and without a mark only falls (RFC 8257 §3.3): none begins again.
        let (alpha, most) = (now.dctcp.alpha_q30, before.dctcp.alpha_q30);
        assert!(alpha <= most, "{who}: alpha {alpha} after {most}, of 2^30");
    }

    fn story_goes_on_from(&self, then: &Shadow, who: &str) {
        let [Some(first), Some(last)] = [then.events.first(), then.events.last()] else {
            panic!("{who}: no event is remembered");
        };
        let count = self.events.last().map_or(0, |event| event.number);
        assert!(
            count >= last.number,
            "{who}: {count} events after {}",
            last.number
        );
        // 16 are kept; here it is a few: the same SYN, at the same nanosecond.
        assert_eq!(self.events.first(), Some(first), "{who}");
    }
}

impl Shadows<'_> {
    fn programs(&self) -> Programs {
        let pins = self.here.sandbox.path("/sys/fs/bpf/undercurrent");
        Store::at(pins).open().unwrap().unwrap()
    }

    /// Panics unless each is the one that it was, further on.
    fn go_on(&mut self, when: &str) {
        let programs = self.programs();
        let now = programs.flows().unwrap();
        assert_eq!(now.len(), usize::from(FLOWS), "{when}: flows in the table");
        for flow in now {
            let events = programs.events(&flow).unwrap();
            let shadow = Shadow { flow, events };
            if let Some(before) = self.last.get(&shadow.flow.guest) {
                shadow.goes_on_from(before, when);
            }
            self.last.insert(shadow.flow.guest, shadow);
        }
    }

    /// How many have begun to learn: of shadows as they were born a test would say nothing.
    fn learnt(&self) -> usize {
        let began = 1 << 30;
        let states = self.last.values().map(|shadow| &shadow.flow.state);
        states
            .filter(|state| state.dctcp.alpha_q30 < began / 2 && state.srtt_us > 0)
            .count()
    }
}

/// Segments that were sent again, on the port and beside it.
fn resent(transfers: &[Vec<Transfer>; 2]) -> [u32; 2] {
    let resent = |transfer: &Transfer| transfer.info().total_retrans;
    [0, 1].map(|side| transfers[side].iter().map(resent).sum())
}

#[test]
fn live_a_hundred_flows_survive_killed_agents_reloads_and_upgrades_without_noticing() {
    if !live_with(&TOOLS) {
        return;
    }
    let network = Network::new();
    let here = Installation::new(&network.host, &policy("dctcp"), "");
    let agent = here.start(&[]);
    here.wait_for(&[PORT]);
    let transfers = [network.transfers(0), network.transfers(1)];
    let mut shadows = Shadows {
        here: &here,
        last: BTreeMap::new(),
    };
    shadows.go_on("at the start");
    let mut stalls = Vec::new();
    std::thread::scope(|scope| {
        let observer = Observer::watch(scope, &transfers);
        let mut count = |what: &str| {
            println!("{what}: sent again so far: {:?}", resent(&transfers));
            let [port, _] = observer.take(what);
            stalls.push((what.to_owned(), port.stalls));
        };
        std::thread::sleep(QUIET);
        count("before");
        shadows.go_on("before the first kill");
        assert_eq!(
            shadows.learnt(),
            usize::from(FLOWS),
            "flows with a state to lose"
        );
        let agent = twenty_kills(&here, agent, &mut shadows);
        count("20 kills");
        twenty_reloads(&here, &mut shadows);
        count("20 reloads");
        let agent = ten_upgrades(&here, agent, &mut shadows);
        count("10 upgrades");
        std::thread::sleep(QUIET);
        count("after");
        agent.end();
    });
    shadows.go_on("at the end");
    let resent = resent(&transfers);
    println!(
        "segments sent again: {} on the port, {} beside it",
        resent[0], resent[1]
    );
    // Every byte arrives, intact and in order, and no connection is reset.
    for transfer in transfers.into_iter().flatten() {
        // what is still to be sent needn't be paced
        transfer.pace(u32::MAX);
        transfer.end();
    }
    // A segment that a program drops or holds up is one that is sent again.
    assert_eq!(resent[0], 0, "{} beside the port", resent[1]);
    // No flow stood still while every one beside the port got on.
    assert!(stalls.iter().all(|(_, stalls)| *stalls == 0), "{stalls:?}");
    success(here.uc(&["detach", "--all"]));
    assert!(here.sandbox.is_clean());
}

fn twenty_kills(here: &Installation, mut agent: Agent, shadows: &mut Shadows<'_>) -> Agent {
    for number in 0..20 {
        let pid = agent.pid();
        shadows.go_on(&format!("before kill {number}"));
        agent.kill();
        shadows.go_on(&format!("without an agent {number}"));
        agent = here.start(&[]);
        here.wait("the next agent", |state| state.pid != pid.as_raw() as u32);
        let state = here.wait_for(&[PORT]);
        assert_eq!(state.counts.attached, 0, "it was attached all the time");
        shadows.go_on(&format!("kill {number}"));
    }
    agent
}

fn twenty_reloads(here: &Installation, shadows: &mut Shadows<'_>) {
    let first = here.wait_for(&[PORT]).policy.generation;
    for number in 1..=20 {
        here.write_policy(&policy(["dctcp", "pass"][number % 2]));
        here.wait("the next policy", |state| {
            state.policy.generation == first + number as u64
        });
        here.wait_for(&[PORT]);
        shadows.go_on(&format!("reload {number}"));
    }
}

/// Of the programs that are pinned; each version has a number of its own.
fn versions(here: &Installation) -> Vec<String> {
    let mut pins = here.sandbox.pins();
    pins.retain(|name| name.starts_with("programs-"));
    pins
}

fn ten_upgrades(here: &Installation, mut agent: Agent, shadows: &mut Shadows<'_>) -> Agent {
    let mut before = versions(here);
    assert_eq!(before.len(), 1, "{before:?}");
    for number in 0..10 {
        let pid = agent.pid();
        agent.end();
        agent = here.start(&["--swap"]);
        here.wait("the next agent", |state| state.pid != pid.as_raw() as u32);
        here.wait_for(&[PORT]);
        let programs = versions(here);
        assert_eq!(programs.len(), 1, "upgrade {number}: {programs:?}");
        assert_ne!(programs, before, "upgrade {number}: other programs");
        before = programs;
        shadows.go_on(&format!("upgrade {number}"));
    }
    agent
}
