//! Incast: the receiver requests blocks from all flows of a group at once, and again when the last
//! has answered. A request is one byte on the connection, the answer a block of fixed size.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use uc_experiment::{Application, Guests};

/// The blocks of a group's flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Incast {
    /// Payload of a block, in bytes.
    pub block_bytes: u32,
    /// Number of rounds of requests.
    pub rounds: u32,
}

impl Incast {
    pub(crate) fn of(group: &Guests) -> Option<Self> {
        match group.application {
            Application::Incast { block, rounds } => Some(Self {
                block_bytes: block.0,
                rounds,
            }),
            _ => None,
        }
    }
}

/// Durations of the rounds of all groups.
#[derive(Debug, Default)]
pub struct Rounds {
    /// Number of rounds that have ended.
    pub count: AtomicU64,
    /// Longest round in microseconds, from the request to the last byte.
    pub longest_us: AtomicU64,
    /// Total duration of all rounds, in microseconds.
    pub total_us: AtomicU64,
}

impl Rounds {
    /// Returns the number of rounds, their mean and their maximum as counters; empty without
    /// rounds.
    pub fn counters(&self) -> BTreeMap<String, u64> {
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let (count, total_us) = (of(&self.count), of(&self.total_us));
        if count == 0 {
            return BTreeMap::new();
        }
        BTreeMap::from([
            ("incast_rounds".into(), count),
            ("incast_round_mean_us".into(), total_us / count),
            ("incast_round_max_us".into(), of(&self.longest_us)),
        ])
    }
}

/// The requesting side of one group.
#[derive(Debug)]
pub(crate) struct Asking {
    incast: Incast,
    /// Flow numbers of the group.
    flows: Vec<usize>,
    connected: usize,
    asked: u32,
    answering: usize,
    since: Instant,
    rounds: Arc<Rounds>,
}

impl Asking {
    pub fn new(incast: Incast, flows: Vec<usize>, rounds: Arc<Rounds>) -> Self {
        Self {
            incast,
            flows,
            connected: 0,
            asked: 0,
            answering: 0,
            since: Instant::now(),
            rounds,
        }
    }

    /// Returns the flow numbers of the group.
    pub fn flows(&self) -> &[usize] {
        &self.flows
    }

    /// Counts a connected flow; the first requests are sent when all flows of the group are connected.
    pub fn connected(&mut self, streams: &mut [Option<TcpStream>]) -> io::Result<()> {
        self.connected += 1;
        if self.connected == self.flows.len() {
            self.ask(streams)?;
        }
        Ok(())
    }

    /// Notes that the payload delivered by a flow of the group has grown from `before` to `after` bytes. The last flow
    /// to complete its block ends the round, and the next requests are sent.
    pub fn read(
        &mut self,
        (before, after): (u64, u64),
        streams: &mut [Option<TcpStream>],
    ) -> io::Result<()> {
        let whole = u64::from(self.asked) * u64::from(self.incast.block_bytes);
        if before >= whole || after < whole {
            return Ok(());
        }
        self.answering = self.answering.saturating_sub(1);
        if self.answering > 0 {
            return Ok(());
        }
        let took_us = self.since.elapsed().as_micros() as u64;
        self.rounds.count.fetch_add(1, Ordering::Relaxed);
        self.rounds.total_us.fetch_add(took_us, Ordering::Relaxed);
        self.rounds.longest_us.fetch_max(took_us, Ordering::Relaxed);
        self.ask(streams)
    }

    fn ask(&mut self, streams: &mut [Option<TcpStream>]) -> io::Result<()> {
        if self.asked == self.incast.rounds {
            return Ok(());
        }
        self.asked += 1;
        self.answering = self.flows.len();
        self.since = Instant::now();
        for &flow in &self.flows {
            if let Some(stream) = &mut streams[flow] {
                // At most one request is in flight: a byte fits into any socket's buffer.
                stream.write_all(&[0])?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    /// Connects two sockets: the requesting end and the answering end.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn rounds_follow_the_last_answer_up_to_the_configured_number() {
        let ((first, mut a), (second, mut b)) = (pair(), pair());
        let mut streams = [Some(first), None, Some(second)];
        let rounds = Arc::<Rounds>::default();
        let incast = Incast {
            block_bytes: 100,
            rounds: 2,
        };
        let mut asking = Asking::new(incast, vec![0, 2], Arc::clone(&rounds));
        let asked = |a: &mut TcpStream| {
            a.set_nonblocking(true).unwrap();
            a.read(&mut [0; 8]).unwrap_or(0)
        };
        asking.connected(&mut streams).unwrap();
        assert_eq!(asked(&mut a), 0);
        asking.connected(&mut streams).unwrap();
        asking.read((0, 60), &mut streams).unwrap();
        asking.read((60, 100), &mut streams).unwrap();
        assert_eq!(rounds.count.load(Ordering::Relaxed), 0);
        asking.read((0, 100), &mut streams).unwrap();
        assert_eq!(rounds.count.load(Ordering::Relaxed), 1);
        asking.read((100, 200), &mut streams).unwrap();
        asking.read((100, 200), &mut streams).unwrap();
        assert_eq!(rounds.count.load(Ordering::Relaxed), 2);
        drop(streams);
        let mut bytes = Vec::new();
        for end in [&mut a, &mut b] {
            end.set_nonblocking(false).unwrap();
            bytes.clear();
            end.read_to_end(&mut bytes).unwrap();
            assert_eq!(bytes.len(), 2, "two rounds, two questions");
        }
    }
}
