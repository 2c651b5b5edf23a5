//! The experiment's set-up in words.

use uc_experiment::{
    Application, Case, Experiment, Family, Frto, Guests, Law, Nanos, Network, NotEct, Parameters,
    Pattern, Profile, Queue, Sizes, Stack, Sweep, Topology, Value,
};

use crate::numbers::number;
use crate::words::count;

/// Returns each part of the set-up with its name.
pub(crate) fn entries(experiment: &Experiment) -> Vec<(String, String)> {
    let mut entries = vec![
        ("Network".to_owned(), network(&experiment.network)),
        (
            "Bottleneck queue".to_owned(),
            queue(&experiment.network.queue),
        ),
        ("Time".to_owned(), times(experiment)),
    ];
    for (name, settings) in &experiment.stacks {
        entries.push((format!("Stack {name}"), stack(settings)));
    }
    for each in &experiment.cases {
        entries.push((
            format!("Case {}", each.name),
            case(each, &experiment.network),
        ));
    }
    for sweep in &experiment.sweeps {
        entries.push((format!("Sweep {}", sweep.name), axis(sweep)));
    }
    let overrides: Vec<&str> = experiment.overrides().collect();
    if !overrides.is_empty() {
        entries.push(("Changed for this report".to_owned(), overrides.join(", ")));
    }
    entries
}

/// Describes the links and hosts.
fn network(network: &Network) -> String {
    let (rate, delay) = (network.rate, network.delay);
    let access = network
        .access_rate
        .map_or_else(String::new, |access| match network.topology {
            Topology::Star => format!(" (senders' links {access})"),
            Topology::Switch { .. } => format!(" (links to the switch {access})"),
            Topology::FatTree { .. } => format!(" (links from the hosts {access})"),
            _ => format!(" (hosts' links {access})"),
        });
    let shape = match network.topology {
        Topology::Star => "A star, all to one receiver".to_owned(),
        Topology::Dumbbell => "A dumbbell".to_owned(),
        Topology::ParkingLot { hops } => format!("A parking lot of {hops} hops"),
        Topology::LeafSpine { leaves, spines } => {
            let leaves = count(leaves as usize, "leaf").replace("leafs", "leaves");
            let spines = count(spines as usize, "spine");
            format!("A leaf–spine network of {leaves} and {spines}")
        }
        Topology::Switch { hosts } => format!("One switch with {}", count(hosts as usize, "host")),
        Topology::FatTree { ports } => {
            let hosts = network.topology.hosts().unwrap_or_default();
            format!("A fat-tree of {hosts} hosts at switches of {ports} ports")
        }
    };
    let round_trip = network.round_trip();
    let longest = if network.topology.trunks() > 1 {
        " at the longest"
    } else {
        ""
    };
    let offload = if network.offload { "with" } else { "without" };
    let family = match network.family {
        Family::Ipv4 => "IPv4",
        Family::Ipv6 => "IPv6",
    };
    let mtu = match network.mtu.0 {
        1_500 => String::new(),
        _ => format!(" An MTU of {}.", network.mtu),
    };
    let processing = match network.processing {
        Nanos::ZERO => String::new(),
        time => format!(" Each host's processor takes {time} for a packet, one after the other."),
    };
    let loss = match network.loss {
        0.0 => String::new(),
        loss => format!(
            " Bottlenecks lose {} % of the packets at random.",
            loss * 100.0
        ),
    };
    format!(
        "{shape}: {rate}{access}, {delay} a link, so {round_trip} a round trip{longest} when \
         nothing waits; {family}, {offload} segmentation offload.{mtu}{processing}{loss}"
    )
}

/// Describes the bottleneck's queue.
fn queue(queue: &Queue) -> String {
    match queue {
        Queue::Droptail { limit } => format!("DropTail of {limit}."),
        Queue::Threshold {
            limit,
            mark,
            not_ect,
        } => {
            let rest = match not_ect {
                NotEct::Drop => "",
                NotEct::Queue => " Packets that can't be marked wait.",
            };
            format!("Marks above {mark} of instantaneous queue, drops above {limit}.{rest}")
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

/// Describes the measured part of a run.
fn times(experiment: &Experiment) -> String {
    let Experiment {
        duration,
        settle,
        tail,
        sample,
        slower,
        ..
    } = experiment;
    let unmeasured = match (settle.0, tail.0) {
        (0, 0) => "all of which is measured".into(),
        (_, 0) => format!("of which the first {settle} are not measured"),
        (0, _) => format!("of which the last {tail} are not measured"),
        _ => format!("of which the first {settle} and the last {tail} are not measured"),
    };
    let slower = match slower {
        1 => String::new(),
        _ => format!(
            " On real kernels all times are {slower} times longer, and rates {slower} times lower; \
             results are in the file's."
        ),
    };
    format!(
        "{duration} a run, {unmeasured}; the state of every flow is read every {sample}.{slower}"
    )
}

/// Describes one host's TCP.
fn stack(stack: &Stack) -> String {
    let switches = [
        ("ECN", Some(stack.ecn)),
        ("SACK", Some(stack.sack)),
        ("timestamps", Some(stack.timestamps)),
        ("RACK", Some(stack.rack)),
        ("TLP", Some(stack.early_retransmit)),
        ("limited transmit", stack.limited_transmit),
        ("Nagle's rule", stack.nagle),
        ("a restart after idle time", stack.restart_after_idle),
    ];
    let named = |on: bool| {
        let names = switches.iter().filter(|(_, is)| *is == Some(on));
        names.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    };
    let mut words = stack.congestion_control.clone();
    for (prefix, names) in [("with", named(true)), ("without", named(false))] {
        if !names.is_empty() {
            words.push_str(&format!(", {prefix} {names}"));
        }
    }
    words.push_str(&format!(", window scale {}", stack.wscale));
    let frto = stack.frto.map(|frto| match frto {
        Frto::Off => "no F-RTO".to_owned(),
        Frto::Halve => "F-RTO that leaves the window reduced".to_owned(),
        Frto::Undo => "F-RTO that undoes the reduction".to_owned(),
    });
    let settings = [
        stack
            .initial_window
            .map(|segments| format!("initial window {segments}")),
        stack.rto_min.map(|rto| format!("RTO at least {rto}")),
        stack
            .kernel
            .as_ref()
            .map(|kernel| format!("Linux {kernel}")),
        stack.rto_max.map(|rto| format!("RTO at most {rto}")),
        stack
            .rto_granularity
            .map(|grain| format!("RTO in steps of {grain}")),
        frto,
        stack
            .delayed_ack
            .map(|delay| format!("ACKs delayed {delay} at most")),
        stack
            .receive_buffer
            .map(|bytes| format!("receive buffer {bytes}")),
        stack.pvtcp.map(|pvtcp| pvtcp.to_string()),
    ];
    for setting in settings.into_iter().flatten() {
        words.push_str(&format!(", {setting}"));
    }
    words
}

/// Describes the groups of guests and their receivers.
fn case(case: &Case, network: &Network) -> String {
    let groups = case.guests.iter().map(|group| guests(group, network));
    let mut words = groups.collect::<Vec<_>>().join("; ");
    if let Some(stack) = &case.receiver {
        words.push_str(&format!("; receivers of stack {stack}"));
    }
    if let Some(own) = &case.queue {
        words.push_str(&format!("; bottleneck queue here: {}", queue(own)));
    }
    if let Some(law) = case.receiver_law {
        words.push_str(&format!("; {} on the receivers' ports", law_words(law)));
    }
    if let Some(hypervisor) = &case.receiver_hypervisor {
        words.push_str(&format!("; receivers {hypervisor}"));
    }
    words
}

fn law_words(law: Law) -> String {
    match law {
        Law::PASS => "programs that pass everything".into(),
        law => format!("law {}", law.name()),
    }
}

/// Describes one group of guests.
fn guests(guests: &Guests, network: &Network) -> String {
    let profile = match guests.profile {
        None => "",
        Some(Profile::Linux) => " (as Linux does it)",
        Some(Profile::Rfc) => " (as the RFCs say it)",
    };
    let law = guests.law.map_or_else(String::new, |law| {
        let parameters = parameters(&guests.parameters);
        format!(", {} on the port{profile}{parameters}", law_words(law))
    });
    let flows = match guests.flows {
        1 => String::new(),
        flows => format!(" with {flows} flows each"),
    };
    let host = guests
        .host
        .as_ref()
        .map_or_else(String::new, |host| format!(" on host {host}"));
    let place = match (guests.from, guests.to) {
        (None, None) => String::new(),
        (Some(from), None) => format!(" at switch {from}"),
        (None, Some(to)) => format!(", receivers at switch {to}"),
        (Some(from), Some(to)) => format!(" at switch {from}, receivers at switch {to}"),
    };
    let spread = match guests.start_spread.0 {
        0 => String::new(),
        _ => format!(" within {}", guests.start_spread),
    };
    let start = match (guests.start.0, guests.start_spread.0) {
        (0, 0) => String::new(),
        _ => format!(", starting at {}{spread}", guests.start),
    };
    let stop = guests
        .stop
        .map_or_else(String::new, |stop| format!(", stopping at {stop}"));
    let hypervisor = guests.hypervisor.as_ref();
    let shared = hypervisor.map_or_else(String::new, |hypervisor| format!(", {hypervisor}"));
    let dupack = guests
        .dupack
        .map_or_else(String::new, |dupack| dupack.to_string());
    let hold = guests
        .hold
        .map_or_else(String::new, |hold| hold.to_string());
    let pattern = guests.pattern.as_ref().map_or_else(String::new, pattern);
    let carries = application(guests, network);
    let number = count(guests.count as usize, "guest");
    format!(
        "{}: {number}{flows}{host}{place}, stack {}{law}{dupack}{hold}{shared}{carries}{pattern}{start}{stop}",
        guests.name, guests.stack
    )
}

/// Describes the application of a group; empty for bulk.
fn application(guests: &Guests, network: &Network) -> String {
    match &guests.application {
        Application::Bulk => String::new(),
        Application::Transfer { size } => format!(", one transfer of {size}"),
        Application::Request {
            request,
            response,
            rounds,
            gap,
        } => format!(
            ", {} of {request} for {response}, {gap} apart",
            count(*rounds as usize, "request")
        ),
        Application::Incast { block, rounds } => {
            format!(
                ", incast of {block} blocks, {}",
                count(*rounds as usize, "round")
            )
        }
        Application::Epochs {
            size,
            rounds,
            every,
            gap,
            request,
        } => {
            let asked = match request {
                None => String::new(),
                Some(request) => format!(", asked for by {request} of a client that connects"),
            };
            let rounds = count(*rounds as usize, "epoch");
            format!(", {rounds} of a transfer of {size}{asked}, {every} apart, {gap} between flows")
        }
        Application::Web { load, sizes, .. } => {
            let load = load.map_or_else(String::new, |load| {
                let link = match network.topology.hosts() {
                    Some(_) => "its host's link",
                    None => "the bottleneck together",
                };
                format!(", to fill {} of {link}", number(load))
            });
            let rate = number(guests.arrivals_per_s(network).unwrap_or_default());
            format!(", {rate} arrivals a second of {}{load}", size(sizes))
        }
        Application::List(list) => {
            format!(", {} of a list", count(list.len(), "transfer"))
        }
        Application::Messages {
            sizes,
            every: Some(every),
        } => format!(", a message of {} every {every}", size(sizes)),
        Application::Messages { sizes, every: None } => {
            format!(", messages of {} one after the other", size(sizes))
        }
    }
}

fn size(sizes: &Sizes) -> String {
    match sizes {
        Sizes::Fixed(size) => size.to_string(),
        Sizes::Points(_) => format!("{:.1} kB in the mean", sizes.mean_bytes() / 1e3),
    }
}

/// Describes who sends to whom, where every host both sends and receives.
fn pattern(pattern: &Pattern) -> String {
    match pattern {
        Pattern::Stride(steps) => {
            let steps: Vec<String> = steps.iter().map(u32::to_string).collect();
            format!(", each to the hosts {} further", steps.join(", "))
        }
        Pattern::Shuffle { parallel } => {
            format!(", each to all others in random order, {parallel} at a time")
        }
        Pattern::Random => ", each to a random other host".into(),
        Pattern::FanIn { to } => format!(", all to host {to}"),
    }
}

/// Describes the chosen parameters of a law, by the keys of the file.
fn parameters(parameters: &Parameters) -> String {
    let words = parameters.iter().map(|(row, value)| match value {
        Value::Fraction(fraction) => format!(", {} {fraction:?}", row.key),
        value => format!(", {} {}", row.key, value.text(row)),
    });
    words.collect()
}

fn axis(sweep: &Sweep) -> String {
    let keys: Vec<&str> = sweep.set.keys().map(String::as_str).collect();
    format!("{} ({})", sweep.all_labels().join(", "), keys.join(", "))
}
