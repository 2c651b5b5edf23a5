//! By what flows are sorted.

use clap::ValueEnum;

use super::flow::FlowRow;

/// A column; the largest come first, names in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// Port, then guest, then remote
    #[default]
    Name,
    /// Both directions together; the table is read twice for it
    Goodput,
    /// Smoothed round-trip time
    Srtt,
    /// Reductions on marks or delay
    Cuts,
    /// Fast retransmits and timeouts
    Losses,
    /// CE marks cleared from data to the guest
    Marks,
    /// The law's window
    Window,
    /// Bytes on their way
    Flight,
    /// Law `dctcp`: the marked fraction
    Alpha,
}

impl Order {
    /// Does it take two looks at the table?
    pub fn needs_rates(self) -> bool {
        self == Order::Goodput
    }

    /// The next one, in `uc top`.
    pub fn next(self) -> Order {
        let all = Order::value_variants();
        let at = all.iter().position(|order| *order == self).unwrap_or(0);
        all[(at + 1) % all.len()]
    }

    /// As the command line calls it.
    pub fn label(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    fn key(self, flow: &FlowRow) -> u64 {
        match self {
            Order::Name => 0,
            Order::Goodput => {
                flow.sent_bits_per_s.unwrap_or(0) + flow.received_bits_per_s.unwrap_or(0)
            }
            Order::Srtt => flow.srtt_us.into(),
            Order::Cuts => flow.cuts.into(),
            Order::Losses => flow.losses.into(),
            Order::Marks => flow.marks.into(),
            Order::Window => flow.window_bytes.into(),
            Order::Flight => flow.flight_bytes.into(),
            // by millionths: only ever shown
            Order::Alpha => flow.alpha.map_or(0, |alpha| 1 + (alpha * 1e6) as u64),
        }
    }

    /// Sorts; what is equal, by name.
    pub fn sort(self, flows: &mut [FlowRow]) {
        flows.sort_by(|a, b| {
            let descending = self.key(b).cmp(&self.key(a));
            let name = |flow: &FlowRow| (flow.ifindex, flow.guest_at, flow.remote_at);
            descending.then_with(|| name(a).cmp(&name(b)))
        });
    }
}
