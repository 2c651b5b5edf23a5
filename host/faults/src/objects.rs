//! Maps, programs and links of the kernel, which live while a process, a pin, a link or another object
//! holds them. No program runs.

use std::collections::{BTreeMap, BTreeSet};

use libbpf_rs::libbpf_sys as sys;

/// Map of the flows, by a key that begins with the interface's index.
const FLOWS: &str = "flows";
/// Map of the peers' unanswered SYNs, by the same keys.
const ASKED: &str = "asked";

/// A map.
#[derive(Clone, Debug, Default)]
pub(crate) struct Map {
    pub(crate) kind: u32,
    pub(crate) name: String,
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
    pub(crate) entries_max: u32,
    pub(crate) data: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Kind of an object, with its content.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Map(Map),
    Program {
        name: String,
        maps: Vec<usize>,
    },
    /// A TCX link and its place; `None`: it is detached.
    Link {
        program: usize,
        hook: Option<Hook>,
    },
    Types,
}

/// An interface and a direction's attach type.
type Hook = (u32, u32);

/// An object, and the number of its users.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) what: What,
    /// Descriptors and pins.
    users: usize,
}

/// All objects of the kernel. An object's number in the kernel is its place plus one.
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

    /// Counts a descriptor or a pin of an object.
    pub(crate) fn add_user(&mut self, object: usize) {
        self.objects[object].users += 1;
    }

    /// Removes a descriptor or a pin; returns whether it was the last. Then a link is detached, and an
    /// array of programs empties itself.
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

    /// Returns the kind of an object, as `/proc` names it.
    pub(crate) fn kind(&self, object: usize) -> &'static str {
        match self.objects[object].what {
            What::Map(_) => "map",
            What::Program { .. } => "prog",
            What::Link { .. } => "link",
            What::Types => "btf",
        }
    }

    /// Returns the programs at both hooks of an interface; `None` for a hook without one.
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

    /// Returns the interfaces that have programs at both hooks, and at one only.
    pub fn attached(&self) -> (BTreeSet<u32>, BTreeSet<u32>) {
        let used = self.hooks.iter().filter(|(_, links)| !links.is_empty());
        let some: BTreeSet<u32> = used.map(|((ifindex, _), _)| *ifindex).collect();
        some.into_iter()
            .partition(|ifindex| self.programs_at(*ifindex).iter().all(Option::is_some))
    }

    /// Returns what a port lacks of programs, of those that they call, or of its flows.
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
            if of_port
                .clone()
                .any(|(_, key)| !table.data.contains_key(key))
            {
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

    /// Enters a flow of a port with programs, and a peer's SYN; returns the flow's key.
    pub fn open_flow(&mut self, ifindex: u32, number: u64) -> Option<Vec<u8>> {
        let program = self.programs_at(ifindex)[0]?;
        let mut key = Vec::new();
        for name in [ASKED, FLOWS] {
            let (table, map) = self.map_of(program, name)?;
            let (key_bytes, value_bytes) = (map.key_bytes, map.value_bytes);
            key = vec![0; key_bytes];
            key[..4].copy_from_slice(&ifindex.to_ne_bytes());
            key[4..12].copy_from_slice(&number.to_ne_bytes());
            self.data(table).insert(key.clone(), vec![0; value_bytes]);
        }
        Some(key)
    }

    /// Returns the keys of a pinned map that begin with an interface's index.
    pub fn ports_in(&self, map: usize) -> BTreeSet<u32> {
        let What::Map(map) = &self.objects[map].what else {
            return BTreeSet::new();
        };
        let first = |key: &Vec<u8>| u32::from_ne_bytes(key[..4].try_into().expect("four bytes"));
        map.data.keys().map(first).collect()
    }
}

impl What {
    /// Returns a copy without a map's entries.
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

    /// Returns the key after this one; the first, as the kernel does, if this one is gone.
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
