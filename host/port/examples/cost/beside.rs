//! Packets on one processor while another handles packets of the same flow, or of the same group.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use uc_core::consts;
use uc_port::cost::{Case, Report};

use crate::frames::Kind;
use crate::walk::{Flows, Walk};
use crate::{Bench, Done, FROM_GUEST, REPEAT, ROUNDS, TO_GUEST};

impl Bench {
    /// Measures packets on the second processor: alone, and while the first handles ACKs.
    pub fn two_processors(&self) -> Done {
        let mut flow = self.begun(12, consts::LAW_ECN)?;
        let other = self.begun(13, consts::LAW_ECN)?;
        let member = self.begun(14, consts::LAW_COUPLED)?;
        let second = self.begun(15, consts::LAW_COUPLED)?;
        // All but the first flow's data repeat, since only one processor may advance a flow.
        let ack = |flows: &Flows| Done::Ok(flows.walk(Kind::Ack, TO_GUEST)?.repeating());
        let beside = [None, Some(ack(&other)?), Some(ack(&flow)?)];
        let coupled = [None, Some(ack(&second)?)];
        let mut data = vec![Vec::new(); beside.len()];
        let mut acks = vec![Vec::new(); coupled.len()];
        for _ in 0..ROUNDS {
            for (theirs, times) in beside.iter().zip(&mut data) {
                let mine = flow.walk(Kind::Data, FROM_GUEST)?;
                times.push(self.beside(mine, Kind::Data, *theirs)?);
                flow.runs += u64::from(REPEAT);
            }
            for (theirs, times) in coupled.iter().zip(&mut acks) {
                times.push(self.beside(ack(&member)?, Kind::Ack, *theirs)?);
            }
        }
        let mut report = Report::new("packet while another processor works");
        let alone = ("alone", &data[0][..]);
        report.add(("data, beside ACKs of another flow", &data[1]), "ns", alone);
        report.add(
            ("data, beside ACKs of the same flow", &data[2]),
            "ns",
            alone,
        );
        let alone = ("alone", &acks[0][..]);
        let grouped = ("coupled ACK, beside those of its group", &acks[1][..]);
        report.add(grouped, "ns", alone);
        Ok(report.finish()?)
    }

    /// Opens a connection that has data in flight, so that its ACKs ask its group.
    fn begun(&self, number: u32, law: u32) -> Done<Flows> {
        let mut flows = self.connect(number, 0, law, Kind::Data, false)?;
        self.time(&flows, Kind::Data, 8)?;
        flows.runs = 8;
        Ok(flows)
    }

    /// Returns the time of a packet of `mine` in ns, including the walking program, while the first processor handles
    /// the ACKs of `theirs`; `None`: while that processor is idle.
    fn beside(&self, mine: Walk, kind: Kind, theirs: Option<Walk>) -> Done<f64> {
        self.walker.set(&[theirs.unwrap_or(mine), mine])?;
        let case = self.walker.case(kind, false, REPEAT)?;
        let acks = self.walker.case(Kind::Ack, false, REPEAT)?;
        let began = AtomicBool::new(theirs.is_none());
        let ended = AtomicBool::new(theirs.is_none());
        pin(1)?;
        std::thread::scope(|scope| {
            let busy = scope.spawn(|| work(&acks, &began, &ended));
            while !began.load(Relaxed) {
                std::thread::yield_now();
            }
            let time = case.time_ns();
            ended.store(true, Relaxed);
            busy.join().map_err(|_| "a thread panicked")??;
            Ok(time?)
        })
    }
}

/// Runs a case on the first processor until `ended`. Sets `began` after the first round.
fn work(case: &Case<'_>, began: &AtomicBool, ended: &AtomicBool) -> Result<(), String> {
    pin(0).map_err(|error| error.to_string())?;
    while !ended.load(Relaxed) {
        case.time_ns().map_err(|error| error.to_string())?;
        began.store(true, Relaxed);
    }
    Ok(())
}

/// Binds the calling thread to a processor.
fn pin(processor: usize) -> nix::Result<()> {
    let mut set = CpuSet::new();
    set.set(processor)?;
    sched_setaffinity(Pid::from_raw(0), &set)
}
