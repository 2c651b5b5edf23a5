//! Connections of a guest and a server, of whose messages to the guest the network marks the longer ones.
//! The server counts the marks that were not echoed.

use std::io::{Read, Write};
use std::iter::Sum;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use uc_lab::netns::Namespace;

use super::ends::{PATIENCE, listen};
use super::live_with;
use super::routed::Routed;
use super::truth::info;

const GUEST_PORT: u16 = 81;
const SERVER_PORT: u16 = 80;
/// Length of a message of the server, and of one that the network marks: every fifth.
const MESSAGE: usize = 500;
const MARKED_MESSAGE: usize = 700;
const MARKED_EACH: u32 = 5;
/// What nft matches of the longer messages, to mark them.
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
    /// Messages that the network has marked.
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

/// What the test and the ends of its connections tell each other.
#[derive(Default)]
struct Told {
    rest: AtomicBool,
    resting: AtomicUsize,
    has_turned: AtomicBool,
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

/// How the connections talk.
#[derive(Clone, Copy)]
pub struct Manner {
    /// Connections that the guest opens, and as many that the server opens.
    pub flows: usize,
    /// Length of the guest's answers, in bytes.
    pub answer: usize,
    /// Pause between an answer and the next message.
    pub pause: Duration,
}

/// Connections while they last.
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
        let mut talk = Self {
            manner,
            told: Arc::default(),
            servers: Vec::new(),
            guests: Vec::new(),
        };
        for _ in 0..manner.flows {
            let guest = connect(&net.guest, at_server.local_addr().unwrap());
            talk.start(at_server.accept().unwrap().0, guest);
            let server = connect(&net.server, at_guest.local_addr().unwrap());
            talk.start(server, at_guest.accept().unwrap().0);
        }
        talk
    }

    fn start(&mut self, server: TcpStream, guest: TcpStream) {
        for end in [&server, &guest] {
            end.set_nodelay(true).unwrap();
            end.set_read_timeout(Some(PATIENCE)).unwrap();
        }
        let (manner, told) = (self.manner, Arc::clone(&self.told));
        let asks = thread::spawn(move || ask(server, manner, &told));
        self.servers.push(asks);
        let answers = thread::spawn(move || answer(guest, manner.answer));
        self.guests.push(answers);
    }

    /// Lets all connections rest, with nothing in flight.
    pub fn rest(&self) {
        self.told.rest.store(true, Ordering::Relaxed);
        while self.told.resting.load(Ordering::Relaxed) < self.servers.len() {
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_millis(100));
    }

    /// From now on messages are counted apart, too; connections that rest go on.
    pub fn turn(&self) {
        self.told.has_turned.store(true, Ordering::Relaxed);
        self.told.rest.store(false, Ordering::Relaxed);
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
    let mut counts = Counts::default();
    let mut answer = vec![0; manner.answer];
    let mut nth = 0;
    while !told.stop.load(Ordering::Relaxed) {
        told.rest();
        nth += 1;
        let is_marked = nth % MARKED_EACH == 0;
        let is_after = u64::from(told.has_turned.load(Ordering::Relaxed));
        let before = info(&end).delivered_ce;
        let mut message = [0; MARKED_MESSAGE];
        message[0] = is_marked.into();
        let length = if is_marked { MARKED_MESSAGE } else { MESSAGE };
        end.write_all(&message[..length]).unwrap();
        end.read_exact(&mut answer).unwrap();
        if is_marked {
            let is_unanswered = u64::from(info(&end).delivered_ce == before);
            counts.marked += 1;
            counts.unanswered += is_unanswered;
            counts.marked_after += is_after;
            counts.unanswered_after += is_after * is_unanswered;
        }
        thread::sleep(manner.pause);
    }
    end.shutdown(Shutdown::Both).unwrap();
    counts
}

fn answer(mut end: TcpStream, length: usize) {
    let mut message = [0; MARKED_MESSAGE];
    while end.read_exact(&mut message[..MESSAGE]).is_ok() {
        if message[0] == 1 {
            end.read_exact(&mut message[MESSAGE..]).unwrap();
        }
        end.write_all(&vec![0; length]).unwrap();
    }
}
