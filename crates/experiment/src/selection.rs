//! `--case virtual`: some of an experiment's cases only.

use crate::error::Error;
use crate::measure::Measure;
use crate::schema::Experiment;

impl Experiment {
    /// Keeps the cases of these names, and the expectations that need no other. Keeps all if
    /// `names` is empty.
    ///
    /// # Errors
    /// [`Error::Case`] if a name is no case's.
    pub fn keep_cases(&mut self, names: &[String]) -> Result<(), Error> {
        if names.is_empty() {
            return Ok(());
        }
        if let Some(unknown) = names.iter().find(|name| self.case(name).is_none()) {
            let known: Vec<&str> = self.cases.iter().map(|case| case.name.as_str()).collect();
            return Err(Error::Case {
                name: unknown.clone(),
                known: known.join(", "),
            });
        }
        self.cases.retain(|case| names.contains(&case.name));
        self.expects
            .retain(|expect| needs_only(&expect.measure, names));
        Ok(())
    }
}

fn needs_only(measure: &Measure, names: &[String]) -> bool {
    match measure {
        Measure::Ratio { of, to } => needs_only(of, names) && needs_only(to, names),
        other => other
            .case()
            .is_none_or(|case| names.iter().any(|name| name == case)),
    }
}
