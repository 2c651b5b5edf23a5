//! The programs and maps in the kernel.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle, ObjectBuilder, PrintLevel};
use uc_core::Policy;

use crate::attach::Direction;
use crate::error::PortError;
use crate::layout::uc_hand;

/// The flow table's size where none is asked for; about 300 bytes a flow, the kernel's own included.
pub const DEFAULT_FLOWS_MAX: u32 = 65536;

/// clang's output for `bpf/port.bpf.c`.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/port.bpf.o"));

/// The two programs and their maps, held by file descriptor. While any of them, a pin or a link
/// lives, so do they.
#[derive(Debug)]
pub struct Programs {
    from_guest: OwnedFd,
    to_guest: OwnedFd,
    pub(crate) flows: MapHandle,
    pub(crate) policies: MapHandle,
    pub(crate) reasons: MapHandle,
    places: MapHandle,
    hand: MapHandle,
    pub(crate) couplings: MapHandle,
    pub(crate) priorities: MapHandle,
    pub(crate) groups: MapHandle,
    pub(crate) guests: MapHandle,
    pub(crate) members: MapHandle,
    /// Empties itself when nobody holds it, neither a process nor a pin.
    endings: MapHandle,
}

/// Names of the maps in the object and in bpffs.
pub(crate) const MAPS: [&str; MAPS_COUNT] = [
    "flows",
    "policies",
    "reasons",
    "places",
    "hand",
    "couplings",
    "priorities",
    "groups",
    "guests",
    "members",
    "endings",
];
pub(crate) const MAPS_COUNT: usize = 11;

impl Programs {
    /// Loads both programs with room for `flows_max` flows. Takes about a second (the verifier).
    pub fn load(flows_max: u32) -> Result<Programs, PortError> {
        silence_libbpf();
        let action = "load the port programs";
        let failed = |error| PortError::from_libbpf(action, &error);
        let mut open = ObjectBuilder::default()
            .open_memory(OBJECT)
            .map_err(failed)?;
        for mut map in open.maps_mut() {
            if ["flows", "places", "members"]
                .map(OsStr::new)
                .contains(&map.name())
            {
                map.set_max_entries(flows_max.max(1)).map_err(failed)?;
            }
        }
        let object = open.load().map_err(failed)?;

        let missing = |name: &str| PortError::Kernel {
            action: action.to_owned(),
            source: std::io::Error::other(format!("the object has no '{name}'")),
        };
        let map = |name: &str| {
            let map = object.maps().find(|map| map.name() == OsStr::new(name));
            MapHandle::try_from(&map.ok_or_else(|| missing(name))?).map_err(failed)
        };
        let program = |name: &str| {
            let program = object
                .progs()
                .find(|program| program.name() == OsStr::new(name));
            program
                .ok_or_else(|| missing(name))?
                .as_fd()
                .try_clone_to_owned()
                .map_err(|source| PortError::from_kernel(action, source))
        };
        let programs = Programs {
            from_guest: program("uc_from_guest_port")?,
            to_guest: program("uc_to_guest_port")?,
            flows: map("flows")?,
            policies: map("policies")?,
            reasons: map("reasons")?,
            places: map("places")?,
            hand: map("hand")?,
            couplings: map("couplings")?,
            priorities: map("priorities")?,
            groups: map("groups")?,
            guests: map("guests")?,
            members: map("members")?,
            endings: map("endings")?,
        };
        programs.set_places(flows_max.max(1))?;
        let ending = program("uc_share_port")?;
        let number = ending.as_raw_fd().to_ne_bytes();
        programs
            .endings
            .update(&0u32.to_ne_bytes(), &number, MapFlags::ANY)
            .map_err(failed)?;
        Ok(programs)
    }

    /// Of parts that were opened by other means (pins).
    pub(crate) fn from_parts(
        from_guest: OwnedFd,
        to_guest: OwnedFd,
        maps: [MapHandle; MAPS_COUNT],
    ) -> Programs {
        let [
            flows,
            policies,
            reasons,
            places,
            hand,
            couplings,
            priorities,
            groups,
            guests,
            members,
            endings,
        ] = maps;
        Programs {
            from_guest,
            to_guest,
            flows,
            policies,
            reasons,
            places,
            hand,
            couplings,
            priorities,
            groups,
            guests,
            members,
            endings,
        }
    }

    /// The maps in the order of [`MAPS`].
    pub(crate) fn maps_mut(&mut self) -> [&mut MapHandle; MAPS_COUNT] {
        [
            &mut self.flows,
            &mut self.policies,
            &mut self.reasons,
            &mut self.places,
            &mut self.hand,
            &mut self.couplings,
            &mut self.priorities,
            &mut self.groups,
            &mut self.guests,
            &mut self.members,
            &mut self.endings,
        ]
    }

    /// Tells the programs how many places there are for flows.
    fn set_places(&self, places: u32) -> Result<(), PortError> {
        let hand = uc_hand { next: 0, places };
        let value = [hand.next, hand.places].map(u32::to_ne_bytes).concat();
        self.hand
            .update(&0u32.to_ne_bytes(), &value, MapFlags::ANY)
            .map_err(|error| PortError::from_libbpf("set up the flow table", &error))
    }

    /// The program for one direction.
    pub(crate) fn program(&self, direction: Direction) -> BorrowedFd<'_> {
        match direction {
            Direction::FromGuest => self.from_guest.as_fd(),
            Direction::ToGuest => self.to_guest.as_fd(),
        }
    }

    /// Sets the policy of a port; it holds for flows that begin from now on.
    pub fn set_policy(&self, ifindex: u32, policy: &Policy) -> Result<(), PortError> {
        // Every field by name: one that is added has to be added here.
        let Policy {
            law,
            profile,
            ecn_syns,
            initial_window_segments,
            gain_shift,
            initial_alpha_q7,
            beta_q7,
            minimum_window_segments,
            echo,
            guest_ecn,
            guard_segments,
            observe,
            target_us,
            target_range_us,
        } = *policy;
        let bytes = [
            law,
            profile,
            ecn_syns,
            initial_window_segments,
            gain_shift,
            initial_alpha_q7,
            beta_q7,
            minimum_window_segments,
            echo,
            guest_ecn,
            guard_segments,
            observe,
        ];
        let words = [target_us, target_range_us].map(u32::to_ne_bytes).concat();
        let value = [&bytes[..], &words].concat();
        self.policies
            .update(&ifindex.to_ne_bytes(), &value, MapFlags::ANY)
            .map_err(|error| PortError::from_libbpf(format!("set port {ifindex}'s policy"), &error))
    }

    /// Takes a port's policy away: its flows under way go on, new ones pass.
    pub fn clear_policy(&self, ifindex: u32) -> Result<(), PortError> {
        self.clear_coupling(ifindex)?;
        match self.policies.delete(&ifindex.to_ne_bytes()) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == libbpf_rs::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(PortError::from_libbpf(
                format!("clear port {ifindex}'s policy"),
                &error,
            )),
        }
    }
}

/// Keeps libbpf's own messages off standard error: they repeat the error that is returned, at
/// length, and where a query finds no clsact qdisc they complain about what is no error.
pub fn silence_libbpf() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, quiet)));
}

fn quiet(_level: PrintLevel, _message: String) {}
