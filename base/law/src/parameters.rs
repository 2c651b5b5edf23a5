//! Parameters of a port's law: `parameters = { beta = 0.5, echo = "classic" }`. Their names are
//! those of the options of `uc attach`.

use std::sync::LazyLock;

use uc_core::parameter::{Row, parameters};
use uc_core::{Law, Policy};

use crate::profile::Profile;
use crate::table::{Chosen, Table};

/// The parameters of a law that an operator set; every other parameter has its usual value.
pub type Parameters = Chosen<Policy>;

impl Table for Policy {
    const NAME: &'static str = "Parameters";
    const WHAT: &'static str =
        "Parameters of a law; an absent one has its default, by the law's RFC where it has one.";

    fn rows() -> &'static [Row<Policy>] {
        parameters()
    }

    fn keys() -> &'static [&'static str] {
        static KEYS: LazyLock<Vec<&str>> =
            LazyLock::new(|| parameters().iter().map(|row| row.key).collect());
        &KEYS
    }
}

impl Parameters {
    /// Keeps the parameters that the law has.
    pub fn under(mut self, law: Law) -> Parameters {
        self.retain(|row| row.is_of(law));
        self
    }
}

/// Returns the core's policy for a law, profile and parameters.
pub fn policy(law: Law, profile: Profile, parameters: &Parameters) -> Policy {
    let mut policy = Policy::new(law.number().into(), profile.number());
    parameters.apply(&mut policy);
    policy
}
