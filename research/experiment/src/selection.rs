//! Selection of some of an experiment's cases: `--case virtual`.

use uc_words::place::parts;

use crate::case::Case;
use crate::error::Error;
use crate::measure::Measure;
use crate::schema::Experiment;
use crate::sweep::Sweep;

impl Experiment {
    /// Keeps the cases of these names, the axes that set keys of the remaining experiment, and the
    /// expectations that need no other case. Keeps all if `names` is empty.
    ///
    /// # Errors
    /// [`Error::Case`] if one of the names is not that of a case.
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
        for sweep in &mut self.sweeps {
            keep_keys(sweep, &self.cases, names);
        }
        self.cases.retain(|case| names.contains(&case.name));
        self.sweeps.retain(|sweep| !sweep.set.is_empty());
        let sweeps = &self.sweeps;
        let is_axis = |name: &String| sweeps.iter().any(|sweep| sweep.name == *name);
        self.expects.retain_mut(|expect| {
            expect.at.retain(|axis, _| is_axis(axis));
            let mut axes = expect.along.iter().chain(&expect.over);
            needs_only(&expect.measure, names) && axes.all(is_axis)
        });
        Ok(())
    }
}

/// Removes the keys of an axis that set cases not in `names`. Remaining keys that give a case by number give it by name
/// from here on, since numbers change; the labels stay unchanged.
fn keep_keys(sweep: &mut Sweep, cases: &[Case], names: &[String]) {
    sweep.labels = Some(sweep.all_labels());
    let set = std::mem::take(&mut sweep.set).into_iter();
    let kept = set.filter_map(|(key, values)| {
        let parts = parts(&key);
        let ["case", case, rest @ ..] = &parts[..] else {
            return Some((key, values));
        };
        let by_name = cases.iter().find(|other| other.name == **case);
        let by_number = || case.parse::<usize>().ok().and_then(|n| cases.get(n));
        let name = &by_name.or_else(by_number)?.name;
        let key = format!("case.{name}.{}", rest.join("."));
        names.contains(name).then_some((key, values))
    });
    sweep.set = kept.collect();
}

fn needs_only(measure: &Measure, names: &[String]) -> bool {
    let mut cases = measure.cases().into_iter();
    cases.all(|case| names.iter().any(|name| name == case))
}
