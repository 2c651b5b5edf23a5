//! Orders in which flows are sorted.

use clap::ValueEnum;

use super::flow::FlowRow;

/// A column to sort by: the largest values first, names ascending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// Port, then guest, then remote
    #[default]
    Name,
    /// Sum of both directions; the table is read twice
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
    /// Bytes in flight
    Flight,
    /// Law `dctcp`: the marked fraction
    Alpha,
}

impl Order {
    /// Returns whether the table must be read twice.
    pub fn needs_rates(self) -> bool {
        self == Order::Goodput
    }

    /// Returns the next order in `uc top`.
    pub fn next(self) -> Order {
        let all = Order::value_variants();
        let at = all.iter().position(|order| *order == self).unwrap_or(0);
        all[(at + 1) % all.len()]
    }

    /// Returns the order of a digit in `uc top`: 1 is the first.
    pub fn of_digit(digit: char) -> Option<Order> {
        let at = (digit.to_digit(10)? as usize).checked_sub(1)?;
        Order::value_variants().get(at).copied()
    }

    /// Returns the name on the command line.
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

    /// Sorts the flows; equal ones by name.
    pub fn sort(self, flows: &mut [FlowRow]) {
        flows.sort_by(|a, b| {
            let descending = self.key(b).cmp(&self.key(a));
            let name = |flow: &FlowRow| (flow.ifindex, flow.guest, flow.remote);
            descending.then_with(|| name(a).cmp(&name(b)))
        });
    }
}
