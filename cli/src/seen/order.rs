//! Orders in which `uc flows` and `uc top` sort flows.

use clap::ValueEnum;

use super::flow::FlowRow;

/// A column by which flows are sorted: the largest values first, but names ascending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// Port, then guest, then remote
    #[default]
    Name,
    /// Goodput of both directions together; the flow table is read twice
    Goodput,
    /// Smoothed round-trip time
    Srtt,
    /// Number of window reductions on marks or delay
    Cuts,
    /// Number of fast retransmits and timeouts
    Losses,
    /// Number of CE marks that were cleared from packets to the guest
    Marks,
    /// Window that the law computed, in bytes
    Window,
    /// Number of the guest's bytes in flight
    Flight,
    /// Law `dctcp`: its estimate α of the marked fraction of bytes
    Alpha,
}

impl Order {
    /// Returns whether the flow table must be read twice, because the order needs goodput.
    pub fn needs_rates(self) -> bool {
        self == Order::Goodput
    }

    /// Returns the order that follows this one when a key in `uc top` changes the order; after the last comes the
    /// first.
    pub fn next(self) -> Order {
        let all = Order::value_variants();
        let at = all.iter().position(|order| *order == self).unwrap_or(0);
        all[(at + 1) % all.len()]
    }

    /// Returns the order that a digit in `uc top` selects, 1 for the first; `None` if there are not so many.
    pub fn of_digit(digit: char) -> Option<Order> {
        let at = (digit.to_digit(10)? as usize).checked_sub(1)?;
        Order::value_variants().get(at).copied()
    }

    /// Returns the order's name on the command line.
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
            // In millionths, since it is only shown.
            Order::Alpha => flow.alpha.map_or(0, |alpha| 1 + (alpha * 1e6) as u64),
        }
    }

    /// Sorts the flows by this order; flows with equal values by name.
    pub fn sort(self, flows: &mut [FlowRow]) {
        flows.sort_by(|a, b| {
            let descending = self.key(b).cmp(&self.key(a));
            let name = |flow: &FlowRow| (flow.ifindex, flow.guest, flow.remote);
            descending.then_with(|| name(a).cmp(&name(b)))
        });
    }
}
