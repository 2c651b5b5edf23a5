//! Checks whether an operator must confirm a new policy. A valid text can still be wrong, for instance with a mistyped
//! pattern or of another fleet, and would detach most ports of a host at once.

use std::collections::BTreeSet;

use uc_policy::Policy;
use uc_port::PortError;

use crate::desired::desired;
use crate::guests::Guests;
use crate::links::Link;
use crate::source::has_guests_names;
use crate::withdrawn::Withdrawn;

/// The state of the host's ports, by which a new policy is judged.
pub struct Judge<'a> {
    /// The host's interfaces; `None`: not known yet.
    pub links: Option<&'a [Link]>,
    /// Ports that an operator has detached: they do not count as detached by the policy.
    pub withdrawn: &'a Withdrawn,
    /// Returns the names of the host's guests, keyed by interface.
    pub guests: &'a dyn Fn() -> Guests,
    /// Returns the indices of the interfaces that have the programs, or why they can't be listed.
    pub attached: &'a dyn Fn() -> Result<BTreeSet<u32>, PortError>,
    /// Fraction of the attached ports, 0 to 1, that a policy may detach.
    pub at_most: f64,
}

impl Judge<'_> {
    /// Checks that a policy detaches few enough ports: at most the fraction `at_most` of the attached ports, or one.
    /// Accepts any policy while the interfaces are not known.
    ///
    /// # Errors
    /// The number of ports that the policy would detach and the allowed number; or why the attached ports can't be
    /// listed.
    pub fn check(&self, policy: &Policy, text: &str) -> Result<(), String> {
        let Some(links) = self.links else {
            return Ok(());
        };
        let guests = match has_guests_names(text) {
            true => (self.guests)(),
            false => Guests::default(),
        };
        let wanted = desired(policy, links, &guests, self.withdrawn);
        let attached = (self.attached)().map_err(|error| {
            format!("would detach an unknown number of ports: {error}; the agent tries again")
        })?;
        let here = links.iter().map(|link| link.ifindex);
        let here: Vec<u32> = here.filter(|index| attached.contains(index)).collect();
        let lost = here
            .iter()
            .filter(|index| !wanted.contains_key(index))
            .count();
        let most = ((here.len() as f64 * self.at_most) as usize).max(1);
        if lost <= most {
            return Ok(());
        }
        Err(format!(
            "would detach {lost} of the {} attached ports, and agent.at_most_detached allows {most}",
            here.len()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(names: &[&str]) -> Vec<Link> {
        let link = |(at, name): (usize, &&str)| Link {
            ifindex: at as u32 + 1,
            name: (*name).to_owned(),
            ..Link::default()
        };
        names.iter().enumerate().map(link).collect()
    }

    /// Returns the refusal of a policy for ports `pattern` where these ports are attached.
    fn refusal(names: &[&str], attached: &[u32], pattern: &str, at_most: f64) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("[[tenant]]\nname = \"a\"\nports = [\"{pattern}\"]\n");
        let judge = Judge {
            links: Some(&links(names)),
            withdrawn: &Withdrawn::read(&folder.path().join("agent.sock")).unwrap(),
            guests: &Guests::default,
            attached: &|| Ok(attached.iter().copied().collect()),
            at_most,
        };
        judge
            .check(&Policy::parse("t.toml", &text).unwrap(), &text)
            .err()
    }

    #[test]
    fn a_policy_is_refused_while_the_attached_ports_cannot_be_listed() {
        let folder = tempfile::tempdir().unwrap();
        let text = "[[tenant]]\nname = \"a\"\nports = [\"v*\"]\n";
        let judge = Judge {
            links: Some(&links(&["v1"])),
            withdrawn: &Withdrawn::read(&folder.path().join("agent.sock")).unwrap(),
            guests: &Guests::default,
            attached: &|| Err(PortError::TooManyPorts),
            at_most: 0.5,
        };
        let policy = Policy::parse("t.toml", text).unwrap();
        let told = judge.check(&policy, text).unwrap_err();
        assert!(told.contains("unknown number of ports"), "{told}");
    }

    #[test]
    fn a_policy_may_detach_a_part_of_the_ports_and_one_always() {
        let names = ["v1", "v2", "w1", "w2", "w3", "eth0"];
        let all = [1, 2, 3, 4, 5];
        assert_eq!(refusal(&names, &all, "w*", 0.5), None, "2 of 5");
        let told = refusal(&names, &all, "v*", 0.5).unwrap();
        assert!(
            told.starts_with("would detach 3 of the 5 attached ports"),
            "{told}"
        );
        assert!(told.ends_with("agent.at_most_detached allows 2"), "{told}");
        assert_eq!(
            refusal(&names, &all, "x*", 1.0),
            None,
            "the operator allows all"
        );
        assert!(refusal(&names, &all, "w*", 0.0).is_some(), "2 of 5");
        assert_eq!(refusal(&names, &[1, 3, 4], "w*", 0.0), None, "1 of 3");
        assert_eq!(
            refusal(&names, &[1, 9], "w*", 0.5),
            None,
            "an interface that is gone"
        );
        assert_eq!(refusal(&names, &[], "x*", 0.5), None);
    }
}
