//! The set-up and the outcome in words.

use uc_experiment::{Application, Experiment, Family, Guests, Law, Measure, Network, Profile};
use uc_experiment::{Queue, Stack, Topology};

use crate::Report;
use crate::numbers::{number, percent};

/// `1 run`, `20 runs`.
pub(crate) fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// How many expectations hold.
pub(crate) fn headline(report: &Report<'_>) -> String {
    let (held, all) = (
        report.verdicts.iter().filter(|v| v.holds).count(),
        report.verdicts.len(),
    );
    let runs = count(report.meta.runs as usize, "run");
    match (held, all) {
        (_, 0) => format!("Nothing was expected of {runs} of every case."),
        (2, 2) => format!("Both expectations hold, over {runs} of every case."),
        (1, 1) => format!("What was expected holds, over {runs} of every case."),
        (held, all) if held == all => {
            format!("All {all} expectations hold, over {runs} of every case.")
        }
        _ => format!(
            "{held} of {} hold, over {runs} of every case.",
            count(all, "expectation")
        ),
    }
}

/// One sentence for every share and every retransmitted throughput among the verdicts.
pub(crate) fn sentences(report: &Report<'_>) -> Vec<String> {
    let pairs = report.experiment.expects.iter().zip(report.verdicts);
    let sentence = |(expect, verdict): (&uc_experiment::Expectation, &uc_experiment::Verdict)| {
        let title = |case: &str| {
            let case = report.experiment.case(case);
            case.map_or_else(String::new, |case| sentence_case(case.title()))
        };
        let ours = percent(verdict.ours);
        let paper = verdict.paper.map_or_else(String::new, |paper| {
            format!(" (the paper: {})", percent(paper))
        });
        match &expect.measure {
            Measure::Share { case, of, to } => Some(format!(
                "{}: “{of}” got {ours} of the goodput of a mean “{to}” flow{paper}.",
                title(case)
            )),
            Measure::Retransmitted { case } => Some(format!(
                "{}: {ours} of the link carried what had been sent before{paper}.",
                title(case)
            )),
            _ => None,
        }
    };
    pairs.filter_map(sentence).collect()
}

pub(crate) fn sentence_case(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(chars).collect()
    })
}

/// The links and hosts.
pub(crate) fn network(network: &Network) -> String {
    let access = match network.access_rate {
        Some(access) => format!("senders' links {access}, the receiver's {}", network.rate),
        None => format!("all links {}", network.rate),
    };
    let round_trip = uc_experiment::Nanos(network.delay.0.saturating_mul(4));
    let offload = if network.offload { "with" } else { "without" };
    let family = match network.family {
        Family::Ipv4 => "IPv4",
        Family::Ipv6 => "IPv6",
    };
    let delay = network.delay;
    let laid = match network.topology {
        Topology::Star => format!(
            "A star: {access}, {delay} each way, so {round_trip} a round trip when nothing waits"
        ),
        other => format!(
            "{}: between switches {}, {} a link; hosts' links {}, {delay}",
            sentence_case(other.name()),
            network.rate,
            network.trunk_delay(),
            network.access_rate()
        ),
    };
    format!("{laid}; {family}, {offload} segmentation offload.")
}

/// The bottleneck's queue.
pub(crate) fn queue(queue: &Queue) -> String {
    match queue {
        Queue::Droptail { limit } => format!("DropTail of {limit}."),
        Queue::Threshold { limit, mark } => {
            format!("Marks above {mark} of instantaneous queue, drops above {limit}.")
        }
        Queue::Red {
            min,
            max,
            limit,
            burst,
            probability,
            packet,
            ecn,
            ..
        } => format!(
            "RED: min {min}, max {max}, limit {limit}, burst {burst} packets of {packet}, \
             probability {}, {} ECN.",
            number(*probability),
            if *ecn { "with" } else { "without" }
        ),
    }
}

/// What of a run is measured.
pub(crate) fn times(experiment: &Experiment) -> String {
    let Experiment {
        duration,
        settle,
        tail,
        sample,
        ..
    } = experiment;
    let unmeasured = match (settle.0, tail.0) {
        (0, 0) => "all of which is measured".into(),
        (_, 0) => format!("of which the first {settle} are not measured"),
        (0, _) => format!("of which the last {tail} are not measured"),
        _ => format!("of which the first {settle} and the last {tail} are not measured"),
    };
    format!("{duration} a run, {unmeasured}; the state of every flow is read every {sample}.")
}

/// One host's TCP.
pub(crate) fn stack(stack: &Stack) -> String {
    let switches = [
        ("ECN", stack.ecn),
        ("SACK", stack.sack),
        ("timestamps", stack.timestamps),
        ("RACK", stack.rack),
        ("TLP", stack.early_retransmit),
    ];
    let named = |on: bool| {
        let names = switches
            .iter()
            .filter(|(_, is)| *is == on)
            .map(|(name, _)| *name);
        names.collect::<Vec<_>>().join(", ")
    };
    let mut words = stack.congestion_control.clone();
    for (prefix, names) in [("with", named(true)), ("without", named(false))] {
        if !names.is_empty() {
            words.push_str(&format!(", {prefix} {names}"));
        }
    }
    words.push_str(&format!(", window scale {}", stack.wscale));
    if let Some(rto_min) = stack.rto_min {
        words.push_str(&format!(", RTO at least {rto_min}"));
    }
    words
}

/// One group of guests.
pub(crate) fn guests(guests: &Guests) -> String {
    let law = match (guests.law, guests.profile) {
        (None, _) => String::new(),
        (Some(Law::Pass), _) => ", programs on the port that pass everything".into(),
        (Some(Law::Ecn), None) => ", law ecn on the port".into(),
        (Some(Law::Ecn), Some(Profile::Linux)) => ", law ecn on the port (as Linux does it)".into(),
        (Some(Law::Ecn), Some(Profile::Rfc)) => {
            ", law ecn on the port (as the RFCs say it)".into()
        }
    };
    let carries = match &guests.application {
        Application::Bulk => String::new(),
        other => format!(", application {}", other.name()),
    };
    let flows = match guests.flows {
        1 => String::new(),
        flows => format!(" with {flows} flows each"),
    };
    let host = guests
        .host
        .as_ref()
        .map_or_else(String::new, |host| format!(" on host {host}"));
    let number = count(guests.count as usize, "guest");
    format!(
        "{}: {number}{flows}{host}, stack {}{law}{carries}",
        guests.name, guests.stack
    )
}
