//! One experiment at many settings: `[[sweep]]`, and the points that it spans.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use toml::Value;

use crate::error::Error;
use crate::overrides;
use crate::place::Changed;
use crate::schema::Experiment;

/// Maximum number of points of a sweep; a file with more is more often a mistake than intended.
const POINTS_MAX: usize = 1_000;

/// `[[sweep]]`: one axis. Several axes are crossed: every setting of one with every setting of the
/// others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// Name of the axis, unique in the file.
    pub name: String,
    /// Labels of the settings. If absent, the values of the key in `set`; with several keys, of the
    /// alphabetically first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<String>>,
    /// Keys as in `--set`, each with a value for every setting: the first setting has the first
    /// value of each, and so on.
    #[serde(deserialize_with = "lists")]
    pub set: BTreeMap<String, Vec<Value>>,
}

fn lists<'de, D: Deserializer<'de>>(source: D) -> Result<BTreeMap<String, Vec<Value>>, D::Error> {
    let list = |(key, value): (String, Value)| match value {
        Value::Array(values) => Ok((key, values)),
        Value::Table(_) => Err(D::Error::custom(format!(
            "`{key}` is a table; write the whole key in quotes: \"{key}.KEY\" = [VALUE, …]"
        ))),
        other => Err(D::Error::custom(format!(
            "`{key}` is {other}; give a list with a value for every setting"
        ))),
    };
    let written = BTreeMap::<String, Value>::deserialize(source)?;
    written.into_iter().map(list).collect()
}

impl Sweep {
    /// Returns the number of settings.
    pub fn settings(&self) -> usize {
        self.set.values().map(Vec::len).max().unwrap_or(0)
    }

    /// Returns the label of a setting.
    pub fn label(&self, setting: usize) -> String {
        let given = self.labels.as_ref().and_then(|labels| labels.get(setting));
        let value = || self.set.values().next().and_then(|list| list.get(setting));
        match (given, value()) {
            (Some(label), _) => label.clone(),
            (None, Some(Value::String(text))) => text.clone(),
            (None, value) => value.map_or_else(String::new, Value::to_string),
        }
    }

    /// Returns the labels of all settings, in their order.
    pub fn all_labels(&self) -> Vec<String> {
        (0..self.settings()).map(|n| self.label(n)).collect()
    }
}

/// Returns the number of points that axes span.
fn crossed(axes: &[Sweep]) -> usize {
    let settings = axes.iter().map(Sweep::settings);
    settings.fold(1, usize::saturating_mul)
}

/// One setting of every axis, and the experiment under it.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Number of the point, from 0; the last axis varies fastest.
    pub number: u32,
    /// Each axis with its label at this point, in the file's order; empty without a sweep.
    pub labels: Vec<(String, String)>,
    /// The experiment with the axes' keys set and without axes.
    pub experiment: Experiment,
}

impl Point {
    /// Returns the label of an axis at this point.
    pub fn label(&self, axis: &str) -> Option<&str> {
        let found = self.labels.iter().find(|(name, _)| name == axis);
        found.map(|(_, label)| label.as_str())
    }
}

impl Experiment {
    /// Returns the points of the sweep: every setting of each axis with every one of the others, or
    /// the experiment itself without axes.
    ///
    /// # Errors
    /// [`Error::Invalid`] at the place of a value that can't be set, or for more than 1,000 points; none after
    /// [`Experiment::validate`].
    pub fn points(&self) -> Result<Vec<Point>, Error> {
        let count = crossed(&self.sweeps);
        if count > POINTS_MAX {
            let message = format!("{count} points; cross fewer axes, or give at most {POINTS_MAX}");
            return Err(self.invalid(("sweep".into(), message)));
        }
        (0..count).map(|number| self.point(number)).collect()
    }

    /// Returns the point `number`, which must be below the product of the axes' numbers of settings.
    pub(crate) fn point(&self, number: usize) -> Result<Point, Error> {
        let mut experiment = Experiment {
            sweeps: Vec::new(),
            ..self.clone()
        };
        let mut labels = Vec::new();
        for (axis, sweep) in self.sweeps.iter().enumerate() {
            let turns = crossed(&self.sweeps[axis + 1..]);
            let setting = number / turns % sweep.settings();
            labels.push((sweep.name.clone(), sweep.label(setting)));
            for (key, values) in &sweep.set {
                let place = format!("sweep.{axis}.set.\"{key}\".{setting}");
                let Some(value) = values.get(setting) else {
                    continue;
                };
                experiment = self.with(&experiment, key, value, place)?;
            }
        }
        Ok(Point {
            // At most `POINTS_MAX`, which validation ensures.
            number: number as u32,
            labels,
            experiment,
        })
    }

    /// Returns `experiment` with `key` set to `value`, which the file has at the path `place`.
    fn with(
        &self,
        experiment: &Experiment,
        key: &str,
        value: &Value,
        place: String,
    ) -> Result<Experiment, Error> {
        let (mut changed, path) =
            overrides::replace_key(experiment, key, value.clone()).map_err(|message| {
                Error::Invalid {
                    place: self.origin.place(&place),
                    key: key.to_owned(),
                    message,
                }
            })?;
        changed.origin = experiment.origin.clone();
        changed.origin.changed.push((path, Changed::Sweep(place)));
        Ok(changed)
    }
}
