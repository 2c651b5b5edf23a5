//! A part of an experiment's runs, for one of several machines.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One of `count` parts, as `--shard 2/7` names it. Neighbouring runs go to different parts, so that
/// each has its share of the slow points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Shard {
    /// Number of the part, from 0.
    pub index: u32,
    /// Number of parts into which the runs are divided.
    pub count: u32,
}

impl Shard {
    /// Returns whether the part has the run at this place in the list of all runs.
    pub fn has(self, place: usize) -> bool {
        place % self.count as usize == self.index as usize
    }

    /// Returns the part, of `count`, that has the run at this place in the list of all runs.
    pub fn of(place: usize, count: u32) -> Self {
        let index = place % count as usize;
        Self {
            index: index as u32,
            count,
        }
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/');
        let number = |text: &str| text.parse::<u32>().ok();
        let numbers = parts.and_then(|(index, count)| Some((number(index)?, number(count)?)));
        match numbers {
            Some((index, count)) if index < count => Ok(Self { index, count }),
            Some((_, count)) if count > 0 => Err(format!(
                "{count} shards are numbered from 0: 0/{count} to {}/{count}",
                count - 1
            )),
            _ => Err("write INDEX/COUNT, such as 0/4 for the first of four".to_owned()),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl TryFrom<String> for Shard {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> Self {
        shard.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_belongs_to_exactly_one_shard() {
        for count in [1, 2, 7] {
            for place in 0..20 {
                let owners = (0..count).filter(|&index| Shard { index, count }.has(place));
                let owners: Vec<u32> = owners.collect();
                assert_eq!(owners, [Shard::of(place, count).index]);
            }
        }
    }

    #[test]
    fn shard_out_of_range_is_refused_with_the_range() {
        assert_eq!("2/7".parse(), Ok(Shard { index: 2, count: 7 }));
        let refused = |text: &str| text.parse::<Shard>().expect_err("is no shard");
        assert!(refused("7/7").contains("0/7 to 6/7"));
        for text in ["", "3", "0/0", "-1/2", "a/b", "1/2/3"] {
            assert!(refused(text).contains("INDEX/COUNT"), "{text}");
        }
    }
}
