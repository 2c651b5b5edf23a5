//! Faults of a link: loss, duplication and reordering by an ordered list of rules.

use crate::error::SpecError;
use crate::random::Stream;
use uc_words::Nanos;

/// What a rule does to a packet that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The packet never reaches the queue.
    Loss,
    /// The packet is offered to the queue twice.
    Duplicate,
    /// The packet arrives `hold` later than without the rule; packets behind it don't wait.
    Reorder {
        /// Delay of the packet, added to the link's propagation delay.
        hold: Nanos,
    },
}

/// A fault rule. A link tries its rules in order on every packet, and the first that matches
/// decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultRule {
    /// Probability of a match, in parts per million (0 to 1,000,000).
    pub chance_ppm: u32,
    /// Flow whose packets can match; `None` for every flow.
    pub flow: Option<u32>,
    /// Fault that the rule causes to packets that it matches.
    pub fault: Fault,
}

/// A link's rules with their random stream.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    rules: Vec<FaultRule>,
    random: Stream,
}

impl Faults {
    pub(crate) fn new(rules: &[FaultRule], random: Stream) -> Result<Faults, SpecError> {
        if let Some(rule) = rules.iter().find(|rule| rule.chance_ppm > 1_000_000) {
            let what = "a fault's chance";
            return Err(SpecError::ProbabilityAboveOne {
                what,
                ppm: rule.chance_ppm,
            });
        }
        Ok(Faults {
            rules: rules.to_vec(),
            random,
        })
    }

    /// Draws the fault of a packet of `flow`; `None` if no rule matches.
    pub(crate) fn strike(&mut self, flow: u32) -> Option<Fault> {
        for rule in &self.rules {
            let concerns = rule.flow.is_none_or(|concerned| concerned == flow);
            if concerns && self.random.chance_ppm(rule.chance_ppm) {
                return Some(rule.fault);
            }
        }
        None
    }
}
