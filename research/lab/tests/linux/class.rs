//! What a difference between shadow and kernel is called.

/// A difference. The first ones are explained: a port cannot know better, or need not. Known faults
/// follow, then all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The two agreed again within `LASTING_STEPS` of `windows`.
    Passing,
    /// Windows that differ by two segments at most after a reduction, and thresholds by one: they are
    /// whole segments, and halves of such.
    FewSegments,
    /// The kernel counts packets, the shadow full segments: sub-MSS segments were in flight.
    SmallPackets,
    /// The guest did not fill its window, and neither window is above thrice what was ever in flight:
    /// growth ends at twice that.
    Unfilled,
    /// Linux counts data when SACK or a duplicate reports them, the shadow when they are acknowledged.
    CountedBySack,
    /// The guest paused for most of an RTO, or longer: the two estimate the RTO from other samples.
    Pause,
    /// The guest's SYN was sent three times or more: Linux begins with one segment.
    LostSyns,
    /// The kernel undid a reduction by time stamps (RFC 3522), which a guest may feign.
    UndoneByStamps,
    /// The kernel undid a reduction by duplicate SACKs (RFC 3708).
    UndoneByDsack,
    /// The kernel undid a timeout that the shadow does not judge: other losses came before it, or ECE
    /// after it.
    UndoneUnjudged,
    /// The kernel undid a timeout when SACK reported data behind a hole, which the shadow takes for a
    /// loss.
    UndoneBySack,
    /// The guest's timer fired in a repair that the shadow sees, too: the segment may as well be the
    /// next hole's.
    TimeoutInRepair,
    /// The guest's timer fired after a hole was reported, and before the guest repaired it by ACKs: the
    /// shadow takes the segment for that repair. It reduces as far, and goes on from there.
    TimeoutCalledFast,
    /// The guest's timer fired in a reduction. Linux then keeps the threshold, unless ACKs have come
    /// since another timeout.
    TimeoutInReduction,
    /// Without SACK Linux ends a repair an ACK later, and until then answers no ECE.
    EndedEarly,
    /// A recovery without a retransmission: the one before it has repeated the hole already.
    SilentRecovery,
    /// The last segment alone in flight was repeated: by a probe (RFC 8985 §7), or by the timer.
    LoneSegment,
    /// A retransmission was lost, and the guest repeated it without its timer (RACK).
    RepeatedRepair,
    /// A tail loss probe has repaired a loss, for which Linux reduces (RFC 8985 §7.4).
    ProbeRepaired,
    /// The port translates no flow whose window unit is this coarse, and its shadow has no effect.
    NotTranslated,

    /// Known: Linux repairs a hole that no ACK has reported at this number. A later segment has arrived
    /// (RACK), or without SACK the duplicates were of the number before, or fewer than three do. Only
    /// the time since the last ACK tells this from a timeout.
    Unreported,
    /// Known: the first ACK that reports a hole begins with a D-SACK block, and the shadow reads no
    /// further.
    HiddenByDsack,
    /// Known: a probe repeated data before a timeout. Their ACK is taken for that of an original.
    ProbedBefore,
    /// Known: without SACK the shadow sees a window that changed, and its guest sees none: it was the
    /// port that wrote the window, or the window was a smaller one, which Linux ignores.
    OtherWindow,
    /// Known: a full last segment with a FIN counts as two, so that a probe of it is no probe.
    FinCounted,
    /// Known: the shadow undid a timeout when the guest had gone over to repairing it. Linux judges
    /// none any more then.
    UndoneInRepair,
    /// Known: after a timeout, data of the peer end a guest's probe for a spurious timeout (RFC 5682).
    EndedByData,
    /// Known: the port has seen so many ECT segments lost that it distrusts ECN on this path, also where
    /// it only observes. The guest goes on to answer ECE.
    Distrusted,

    FastCalledTimeout,
    RepairCalledTimeout,
    ProbeCalledTimeout,
    TimeoutMissed,
    FastMissed,
    SpuriousTimeoutKept,
    RealLossUndone,
    WindowKeptAfterLoss,
    RetransmissionTimed,
    RepairWithoutEnd,
    FlowLost,
    WindowUnexplained,
    ThresholdUnexplained,
}

impl Class {
    /// Returns whether the class is a fault of the shadow.
    pub fn is_fault(self) -> bool {
        self >= Class::FastCalledTimeout
    }

    /// Returns whether the class is a fault of the shadow that is known, and rare.
    pub fn is_known(self) -> bool {
        (Class::Unreported..Class::FastCalledTimeout).contains(&self)
    }

    /// Returns whether the class explains thresholds that differ by more than a segment, too.
    pub fn explains_thresholds(self) -> bool {
        self > Class::CountedBySack
    }

    pub fn words(self) -> &'static str {
        match self {
            Class::Passing => "for a step or two",
            Class::FewSegments => "a segment or two after a reduction",
            Class::SmallPackets => "sub-MSS segments in flight",
            Class::Unfilled => "a window that is not filled",
            Class::CountedBySack => "data that SACK or duplicates reported",
            Class::Pause => "a pause near the RTO",
            Class::LostSyns => "two SYNs lost",
            Class::UndoneByStamps => "undone by time stamps",
            Class::UndoneByDsack => "undone by duplicate SACKs",
            Class::UndoneUnjudged => "undone, but not judged",
            Class::UndoneBySack => "undone by SACK",
            Class::TimeoutInRepair => "a timeout in a repair",
            Class::TimeoutCalledFast => "a timeout called a fast retransmission",
            Class::TimeoutInReduction => "a timeout in a reduction",
            Class::EndedEarly => "a repair ended early, without SACK",
            Class::SilentRecovery => "a recovery without a retransmission",
            Class::LoneSegment => "a probe or timeout of the last segment",
            Class::RepeatedRepair => "a repeated retransmission",
            Class::ProbeRepaired => "a loss repaired by a probe",
            Class::NotTranslated => "not translated",
            Class::Unreported => "known: a repair that no ACK asked for",
            Class::HiddenByDsack => "known: a report behind a D-SACK",
            Class::ProbedBefore => "known: a probe before a timeout",
            Class::OtherWindow => "known: duplicates with other windows",
            Class::FinCounted => "known: a probe with a FIN",
            Class::UndoneInRepair => "known: undone in the guest's repair",
            Class::EndedByData => "known: a probe ended by data",
            Class::Distrusted => "known: ECN distrusted",
            Class::FastCalledTimeout => "FAULT: a fast retransmission called a timeout",
            Class::RepairCalledTimeout => "FAULT: a repair called a timeout",
            Class::ProbeCalledTimeout => "FAULT: a tail loss probe called a timeout",
            Class::TimeoutMissed => "FAULT: a timeout missed",
            Class::FastMissed => "FAULT: a fast retransmission missed",
            Class::SpuriousTimeoutKept => "FAULT: a spurious timeout not undone",
            Class::RealLossUndone => "FAULT: a real loss undone",
            Class::WindowKeptAfterLoss => "FAULT: a window above 0.75 of before after a real loss",
            Class::RetransmissionTimed => "FAULT: a round-trip time of retransmitted data",
            Class::RepairWithoutEnd => "FAULT: a repair without end",
            Class::FlowLost => "FAULT: the flow was given up",
            Class::WindowUnexplained => "FAULT: the windows differ",
            Class::ThresholdUnexplained => "FAULT: the thresholds differ",
        }
    }
}

/// A difference that was found at an event of a record.
#[derive(Clone, Debug)]
pub struct Finding {
    pub class: Class,
    pub event: usize,
    pub words: String,
}
