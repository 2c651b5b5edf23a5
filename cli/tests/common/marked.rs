//! Connections between a guest and a server. The network marks the longer of the server's messages to the guest, and
//! the server counts the marks that were not echoed. Both ends compare each byte that they read.

use std::io::{Read, Write};
use std::iter::Sum;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use uc_lab::netns::Namespace;
use uc_lab::pattern::Pattern;

use super::ends::{PATIENCE, listen};
use super::live_with;
use super::routed::Routed;
use super::truth::info;

/// TCP port on which the guest accepts connections; `SERVER_PORT`: that of the server.
pub const GUEST_PORT: u16 = 81;
pub const SERVER_PORT: u16 = 80;
/// Length in bytes of a usual message of the server; `MARKED_MESSAGE`: of one that the network marks, which is every
/// `MARKED_EACH`th.
const MESSAGE: usize = 500;
const MARKED_MESSAGE: usize = 700;
const MARKED_EACH: u32 = 5;
/// How long a guest's end waits for a message. Connections rest while a slow machine loads programs.
const REST_MAX: Duration = Duration::from_secs(300);
/// Content of what the ends send: each message is its beginning, and all answers of an end are one stream of it.
static PATTERN: LazyLock<Pattern> = LazyLock::new(Pattern::default);
/// Condition of nft that matches the longer messages, so that they can be marked.
pub const LONGER: &str = "ip saddr 10.2.0.2 ip ecn ect0 meta length > 700";

/// Returns a host between a guest without ECN and a server with it; `None` if this machine can't run live
/// tests with ports there.
pub fn network() -> Option<Routed> {
    if !live_with(&["ip", "nft", "unshare", "nsenter", "mount"]) {
        return None;
    }
    let net = Routed::build(&[None], 1);
    for (end, ecn) in [(&net.server, "1"), (&net.guest, "0")] {
        let ecn = ("net.ipv4.tcp_ecn", ecn.to_owned());
        end.set_sysctls(&[ecn]).unwrap();
    }
    Some(net)
}

/// What the server has counted of one connection, or of several.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Messages that the network has marked. One that the server has retransmitted is not counted.
    pub marked: u64,
    /// Marked messages whose acknowledgement had no echo.
    pub unanswered: u64,
    /// Marked messages since [`Talk::turn`].
    pub marked_after: u64,
    /// Marked messages since [`Talk::turn`] whose acknowledgement had no echo.
    pub unanswered_after: u64,
}

impl Sum for Counts {
    fn sum<Each: Iterator<Item = Counts>>(each: Each) -> Counts {
        each.fold(Counts::default(), |sum, one| Counts {
            marked: sum.marked + one.marked,
            unanswered: sum.unanswered + one.unanswered,
            marked_after: sum.marked_after + one.marked_after,
            unanswered_after: sum.unanswered_after + one.unanswered_after,
        })
    }
}

/// State that the test and the ends of its connections share.
#[derive(Default)]
struct Told {
    rest: AtomicBool,
    resting: AtomicUsize,
    turns: AtomicUsize,
    /// Connections of which a mark was answered in this turn.
    answered: AtomicUsize,
    stop: AtomicBool,
}

impl Told {
    /// Waits while the connections rest.
    fn rest(&self) {
        if self.rest.load(Ordering::Relaxed) {
            self.resting.fetch_add(1, Ordering::Relaxed);
            while self.rest.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// How the ends of the connections exchange messages.
#[derive(Clone, Copy)]
pub struct Manner {
    /// Connections that the guest opens, and as many that the server opens.
    pub flows: usize,
    /// Length of the guest's answers, in bytes.
    pub answer: usize,
    /// Pause between an answer and the next message.
    pub pause: Duration,
}

/// Connections on which the ends exchange messages, until it is ended.
pub struct Talk {
    manner: Manner,
    told: Arc<Told>,
    servers: Vec<JoinHandle<Counts>>,
    guests: Vec<JoinHandle<()>>,
}

impl Talk {
    /// Opens the connections.
    pub fn open(net: &Routed, manner: Manner) -> Self {
        let at_server = listen(&net.server, Routed::server(0, false, SERVER_PORT));
        let at_guest = listen(&net.guest, Routed::guest(false, GUEST_PORT));
        let connect = |from: &Namespace, to: SocketAddr| {
            from.enter(move || TcpStream::connect(to).unwrap()).unwrap()
        };
        let mut talk = Self::of(manner, Vec::new());
        for _ in 0..manner.flows {
            let guest = connect(&net.guest, at_server.local_addr().unwrap());
            talk.start(at_server.accept().unwrap().0, guest);
            let server = connect(&net.server, at_guest.local_addr().unwrap());
            talk.start(server, at_guest.accept().unwrap().0);
        }
        talk
    }

    /// Lets the server's ends of connections talk with guest's ends that [`answer`] elsewhere.
    pub fn of(manner: Manner, servers: Vec<TcpStream>) -> Self {
        let mut talk = Self {
            manner,
            told: Arc::default(),
            servers: Vec::new(),
            guests: Vec::new(),
        };
        servers.into_iter().for_each(|server| talk.ask(server));
        talk
    }

    fn start(&mut self, server: TcpStream, guest: TcpStream) {
        self.ask(server);
        let length = self.manner.answer;
        let answers = thread::spawn(move || answer(guest, length));
        self.guests.push(answers);
    }

    fn ask(&mut self, server: TcpStream) {
        let (manner, told) = (self.manner, Arc::clone(&self.told));
        let asks = thread::spawn(move || ask(server, manner, &told));
        self.servers.push(asks);
    }

    /// Lets all connections rest, with nothing in flight.
    pub fn rest(&self) {
        self.told.rest.store(true, Ordering::Relaxed);
        while self.told.resting.load(Ordering::Relaxed) < self.servers.len() {
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_millis(100));
    }

    /// Starts a turn: from now on messages are also counted separately ([`Counts::marked_after`]). Connections that
    /// rest continue.
    pub fn turn(&self) {
        self.told.answered.store(0, Ordering::Relaxed);
        self.told.turns.fetch_add(1, Ordering::Relaxed);
        self.told.rest.store(false, Ordering::Relaxed);
    }

    /// Returns how many connections have had a mark answered since [`Talk::turn`].
    pub fn answered(&self) -> usize {
        self.told.answered.load(Ordering::Relaxed)
    }

    /// Ends the connections and returns each one's counts. A reset of any is a panic of its end.
    pub fn end(self) -> Vec<Counts> {
        self.told.stop.store(true, Ordering::Relaxed);
        let ended = self.servers.into_iter().map(|end| end.join().unwrap());
        let counts = ended.collect();
        self.guests.into_iter().for_each(|end| end.join().unwrap());
        counts
    }
}

/// Sends one message at a time, and waits for the guest's answer: it acknowledges the message.
fn ask(mut end: TcpStream, manner: Manner, told: &Told) -> Counts {
    configure(&end, PATIENCE);
    let mut counts = Counts::default();
    let mut answer = vec![0; manner.answer];
    let (mut nth, mut at, mut turn, mut answered_in) = (0, 0, 0, 0);
    while !told.stop.load(Ordering::Relaxed) {
        told.rest();
        nth += 1;
        let is_marked = nth % MARKED_EACH == 0;
        let before_turn = turn;
        turn = told.turns.load(Ordering::Relaxed);
        if turn > before_turn {
            (counts.marked_after, counts.unanswered_after) = (0, 0);
        }
        let before = info(&end);
        let length = if is_marked { MARKED_MESSAGE } else { MESSAGE };
        let mut message = PATTERN.chunk(0)[..length].to_vec();
        message[0] = is_marked.into();
        end.write_all(&message).unwrap();
        end.read_exact(&mut answer).unwrap();
        assert_eq!(PATTERN.first_difference(at, &answer), None);
        at += manner.answer as u64;
        let after = info(&end);
        // A retransmitted segment can't be marked.
        if is_marked && after.total_retrans == before.total_retrans {
            let is_after = u64::from(turn > 0);
            let is_unanswered = u64::from(after.delivered_ce == before.delivered_ce);
            counts.marked += 1;
            counts.unanswered += is_unanswered;
            counts.marked_after += is_after;
            counts.unanswered_after += is_after * is_unanswered;
            if is_unanswered == 0 && answered_in < turn {
                answered_in = turn;
                told.answered.fetch_add(1, Ordering::Relaxed);
            }
        }
        thread::sleep(manner.pause);
    }
    end.shutdown(Shutdown::Both).unwrap();
    counts
}

/// Answers each message of a connection with this many bytes, until it ends.
pub fn answer(mut end: TcpStream, length: usize) {
    configure(&end, REST_MAX);
    let mut message = [0; MARKED_MESSAGE];
    let mut at = 0;
    while end.read_exact(&mut message[..MESSAGE]).is_ok() {
        let mut received = MESSAGE;
        if message[0] == 1 {
            end.read_exact(&mut message[MESSAGE..]).unwrap();
            received = MARKED_MESSAGE;
        }
        assert_eq!(PATTERN.first_difference(1, &message[1..received]), None);
        end.write_all(&PATTERN.chunk(at)[..length]).unwrap();
        at += length as u64;
    }
}

/// Opens the connections of a guest to the server and accepts as many, and answers on them.
pub fn serve(server: IpAddr, manner: Manner) {
    let listener = TcpListener::bind(("0.0.0.0", GUEST_PORT)).unwrap();
    let opened = (0..manner.flows).map(|_| TcpStream::connect((server, SERVER_PORT)).unwrap());
    let opened: Vec<_> = opened.collect();
    let accepted = (0..manner.flows).map(|_| listener.accept().unwrap().0);
    thread::scope(|scope| {
        for end in opened.into_iter().chain(accepted) {
            scope.spawn(|| answer(end, manner.answer));
        }
    });
}

fn configure(end: &TcpStream, patience: Duration) {
    end.set_nodelay(true).unwrap();
    end.set_read_timeout(Some(patience)).unwrap();
}
