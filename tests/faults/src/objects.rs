//! Maps, programs and links of the simulated kernel. Each lives while a process, a pin, a link or another object refers
//! to it. Of all programs only [`COLLECT`] has an effect when it is run.

use std::collections::{BTreeMap, BTreeSet};

use libbpf_rs::libbpf_sys as sys;

/// Name of the map of flows, an array by place. A value has the flow's key, which begins with the interface's index.
const FLOWS: &str = "flows";
const KEY_AT: usize = 8;
/// Name of the map of SYNs from peers that the guest has not answered, by flow key.
const ASKED: &str = "asked";
/// Name of the map of ports, by interface index. A value ends with the time until which the port's flows are forgotten;
/// 0: they are kept.
const PORTS: &str = "ports";
/// Name of the map with the flow table's cursor, and offset in its value of the number of places that were ever taken.
const CURSORS: &str = "cursors";
const FRESH_AT: usize = 12;
/// Name of the program that removes stale flows.
const COLLECT: &str = "uc_collect_idle";

/// A BPF map.
#[derive(Clone, Debug, Default)]
pub(crate) struct Map {
    pub(crate) kind: u32,
    pub(crate) name: String,
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
    pub(crate) entries_max: u32,
    pub(crate) data: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Kind of a BPF object, with its content.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Map(Map),
    Program {
        name: String,
        maps: Vec<usize>,
    },
    /// A TCX link and its hook; `None`: the link is detached.
    Link {
        program: usize,
        hook: Option<Hook>,
    },
    Types,
}

/// An interface and a direction's attach type.
type Hook = (u32, u32);

/// A BPF object, and the number of its users.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) what: What,
    /// Number of descriptors, pins and other objects that refer to the object.
    users: usize,
}

/// All BPF objects of the kernel. The kernel's ID of an object is its index plus one.
#[derive(Debug, Default)]
pub struct Bpf {
    pub(crate) objects: Vec<Object>,
    pub(crate) hooks: BTreeMap<Hook, Vec<usize>>,
}

impl Bpf {
    pub(crate) fn add(&mut self, what: What) -> usize {
        self.objects.push(Object { what, users: 0 });
        self.objects.len() - 1
    }

    /// Counts one more user of an object.
    pub(crate) fn add_user(&mut self, object: usize) {
        self.objects[object].users += 1;
    }

    /// Removes one user of an object; returns whether it was the last. Without users a link is detached, and an array
    /// of programs empties itself.
    pub(crate) fn drop_user(&mut self, object: usize) -> bool {
        self.objects[object].users -= 1;
        if self.objects[object].users > 0 {
            return false;
        }
        match &mut self.objects[object].what {
            What::Link { .. } => self.detach(object),
            What::Map(map) if map.kind == sys::BPF_MAP_TYPE_PROG_ARRAY => map.data.clear(),
            _ => {}
        }
        true
    }

    pub(crate) fn detach(&mut self, link: usize) {
        if let What::Link { hook, .. } = &mut self.objects[link].what
            && let Some(hook) = hook.take()
            && let Some(at_hook) = self.hooks.get_mut(&hook)
        {
            at_hook.retain(|own| *own != link);
        }
    }

    /// Detaches the links of an interface that is gone.
    pub(crate) fn remove_interface(&mut self, ifindex: u32) {
        for kind in [sys::BPF_TCX_INGRESS, sys::BPF_TCX_EGRESS] {
            for link in self.hooks.remove(&(ifindex, kind)).unwrap_or_default() {
                if let What::Link { hook, .. } = &mut self.objects[link].what {
                    *hook = None;
                }
            }
        }
    }

    /// Returns the kind of an object, as `/proc/PID/fd` names it.
    pub(crate) fn kind(&self, object: usize) -> &'static str {
        match self.objects[object].what {
            What::Map(_) => "map",
            What::Program { .. } => "prog",
            What::Link { .. } => "link",
            What::Types => "btf",
        }
    }

    /// Returns the programs at the two hooks of an interface; `None` for a hook without a program.
    fn programs_at(&self, ifindex: u32) -> [Option<usize>; 2] {
        [sys::BPF_TCX_INGRESS, sys::BPF_TCX_EGRESS].map(|kind| {
            let link = *self.hooks.get(&(ifindex, kind))?.first()?;
            match self.objects[link].what {
                What::Link { program, .. } => Some(program),
                _ => None,
            }
        })
    }

    fn map_of(&self, program: usize, name: &str) -> Option<(usize, &Map)> {
        let What::Program { maps, .. } = &self.objects[program].what else {
            return None;
        };
        maps.iter().find_map(|map| match &self.objects[*map].what {
            What::Map(found) if found.name == name => Some((*map, found)),
            _ => None,
        })
    }

    /// Returns the interfaces that have programs at both hooks, and those that have one at a single hook.
    pub fn attached(&self) -> (BTreeSet<u32>, BTreeSet<u32>) {
        let used = self.hooks.iter().filter(|(_, links)| !links.is_empty());
        let some: BTreeSet<u32> = used.map(|((ifindex, _), _)| *ifindex).collect();
        some.into_iter()
            .partition(|ifindex| self.programs_at(*ifindex).iter().all(Option::is_some))
    }

    /// Returns what a port lacks: a program at a hook, the programs that it tail-calls, or one of these flows. `None`:
    /// nothing.
    pub fn fault_of(&self, ifindex: u32, flows: &[(u32, Vec<u8>)]) -> Option<String> {
        for program in self.programs_at(ifindex) {
            let Some(program) = program else {
                return Some("a hook has no program".to_owned());
            };
            let calls = self
                .map_of(program, "tail_calls")
                .map_or(0, |(_, map)| map.data.len());
            if calls == 0 {
                return Some("its programs have none to call".to_owned());
            }
            let (_, table) = self.map_of(program, FLOWS)?;
            let of_port = flows.iter().filter(|(of, _)| *of == ifindex);
            if of_port.clone().any(|(_, key)| {
                !table
                    .data
                    .values()
                    .any(|slot| slot[KEY_AT..].starts_with(key))
            }) {
                return Some("a flow's state is lost".to_owned());
            }
        }
        let [Some(from), Some(to)] = self
            .programs_at(ifindex)
            .map(|program| self.map_of(program?, FLOWS))
        else {
            return Some("a program has no flow table".to_owned());
        };
        (from.0 != to.0).then(|| "its programs have different flow tables".to_owned())
    }

    /// Adds a flow of a port with programs to the flow table, and an unanswered SYN of its peer; returns the flow's
    /// key. `None` if the port lacks a program or a map.
    pub fn open_flow(&mut self, ifindex: u32, number: u64) -> Option<Vec<u8>> {
        let program = self.programs_at(ifindex)[0]?;
        let (asked, map) = self.map_of(program, ASKED)?;
        let (mut key, syn) = (vec![0; map.key_bytes], vec![0; map.value_bytes]);
        key[..4].copy_from_slice(&ifindex.to_ne_bytes());
        key[4..12].copy_from_slice(&number.to_ne_bytes());
        let (flows, map) = self.map_of(program, FLOWS)?;
        let mut slot = vec![0; map.value_bytes];
        slot[KEY_AT..KEY_AT + key.len()].copy_from_slice(&key);
        let (cursors, _) = self.map_of(program, CURSORS)?;
        let fresh = self.data(cursors).values_mut().next()?;
        let place = number_at(fresh, FRESH_AT);
        fresh[FRESH_AT..FRESH_AT + 4].copy_from_slice(&(place + 1).to_ne_bytes());
        self.data(flows).insert(place.to_ne_bytes().to_vec(), slot);
        self.data(asked).insert(key.clone(), syn);
        Some(key)
    }

    /// Runs a program. If it is [`COLLECT`], removes the flows of ports that are gone or whose flows are to be
    /// forgotten; other programs do nothing.
    pub(crate) fn run(&mut self, program: usize) {
        if !matches!(&self.objects[program].what, What::Program { name, .. } if name == COLLECT) {
            return;
        }
        let maps = (self.map_of(program, FLOWS), self.map_of(program, PORTS));
        let (Some((flows, _)), Some((_, ports))) = maps else {
            return;
        };
        let keeps = |state: &Vec<u8>| state.ends_with(&[0; 8]);
        let kept = ports.data.iter().filter(|(_, state)| keeps(state));
        let kept: BTreeSet<u32> = kept.map(|(key, _)| number_at(key, 0)).collect();
        self.data(flows)
            .retain(|_, slot| kept.contains(&number_at(slot, KEY_AT)));
    }

    /// Returns the interface indices for which a map has entries.
    pub fn ports_in(&self, map: usize) -> BTreeSet<u32> {
        match &self.objects[map].what {
            What::Map(map) if map.name == FLOWS => {
                let slots = map.data.values();
                slots.map(|slot| number_at(slot, KEY_AT)).collect()
            }
            What::Map(map) => map.data.keys().map(|key| number_at(key, 0)).collect(),
            _ => BTreeSet::new(),
        }
    }
}

/// Returns the 32-bit number at this offset of a key or value.
fn number_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

impl What {
    /// Returns a copy; of a map, without its name and entries.
    pub(crate) fn clone_head(&self) -> What {
        match self {
            What::Map(map) => What::Map(Map {
                name: String::new(),
                data: BTreeMap::new(),
                ..*map
            }),
            other => other.clone(),
        }
    }
}

impl Bpf {
    pub(crate) fn data(&mut self, map: usize) -> &mut BTreeMap<Vec<u8>, Vec<u8>> {
        match &mut self.objects[map].what {
            What::Map(map) => &mut map.data,
            _ => panic!("object {map} is a map"),
        }
    }

    /// Returns the key after `key` in a map; the first key if the map lacks `key`, as in the kernel. `None` after the
    /// last.
    pub(crate) fn next_key(&mut self, map: usize, key: &Vec<u8>) -> Option<Vec<u8>> {
        use std::ops::Bound::{Excluded, Unbounded};
        let data = self.data(map);
        match data.contains_key(key) {
            true => data.range::<Vec<u8>, _>((Excluded(key), Unbounded)).next(),
            false => data.iter().next(),
        }
        .map(|(key, _)| key.clone())
    }
}
