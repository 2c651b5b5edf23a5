//! The links that all their packets reach over one other link, by the pairs of hosts that exchange
//! packets.

use crate::routes::Routes;
use crate::topology::{HostId, LinkId};

/// What comes to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Nothing.
    Nothing,
    /// The packets of one other link alone.
    Link(LinkId),
    /// The packets of a host, or of several links.
    Several,
}

/// Returns what comes to each of `links` links if packets go between `pairs` alone, on any of the
/// paths that lead from the first host of a pair to its second. `ends` has the node at each link's far
/// end.
pub(crate) fn sources(
    routes: &Routes,
    ends: &[usize],
    pairs: impl IntoIterator<Item = (HostId, HostId)>,
) -> Vec<Source> {
    let mut sources = vec![Source::Nothing; ends.len()];
    let mut steps = Vec::new();
    for (from, to) in pairs {
        steps.push((from.0 as usize, Source::Several));
        while let Some((node, source)) = steps.pop() {
            for link in routes.all_next(node, to) {
                let known = &mut sources[link.0 as usize];
                *known = match *known {
                    Source::Nothing => source,
                    same if same == source => source,
                    _ => Source::Several,
                };
                let end = ends[link.0 as usize];
                if end != to.0 as usize {
                    steps.push((end, Source::Link(link)));
                }
            }
        }
    }
    sources
}
