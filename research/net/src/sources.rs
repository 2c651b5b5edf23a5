//! Finds the links that packets enter only from one other link, given the pairs of hosts that exchange packets.

use crate::routes::Routes;
use crate::topology::{HostId, LinkId};

/// The sources of the packets that enter a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// No packet enters the link.
    Nothing,
    /// All packets come from this one other link.
    Link(LinkId),
    /// The packets come from a host, or from several links.
    Several,
}

/// Returns for each link what its packets come from, if packets go only between `pairs`, on any of the paths from a
/// pair's first host to its second. `ends` has the node at each link's far end.
pub(crate) fn sources(
    routes: &Routes,
    ends: &[usize],
    pairs: impl IntoIterator<Item = (HostId, HostId)>,
) -> Vec<Source> {
    let mut sources = vec![Source::Nothing; ends.len()];
    let mut pairs: Vec<(HostId, HostId)> = pairs.into_iter().collect();
    pairs.sort_unstable_by_key(|&(from, to)| (to, from));
    // The last host towards which the links of a node were followed.
    let nodes = ends.iter().max().map_or(0, |&node| node + 1);
    let mut followed: Vec<Option<HostId>> = vec![None; nodes];
    let mut steps = Vec::new();
    for (from, to) in pairs {
        steps.push((from.0 as usize, Source::Several));
        while let Some((node, source)) = steps.pop() {
            let last = followed.get_mut(node);
            let is_known = last.is_some_and(|last| last.replace(to) == Some(to));
            for link in routes.all_next(node, to) {
                let known = &mut sources[link.0 as usize];
                *known = match *known {
                    Source::Nothing => source,
                    same if same == source => source,
                    _ => Source::Several,
                };
                let end = ends[link.0 as usize];
                // The links behind have been followed if the node's have.
                if end != to.0 as usize && !is_known {
                    steps.push((end, Source::Link(link)));
                }
            }
        }
    }
    sources
}
