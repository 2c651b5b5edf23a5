//! The maps with the programs' state and settings. They outlive the programs: the next version
//! continues with them.

use std::ffi::OsStr;
use std::os::fd::AsFd;

use libbpf_rs::{MapHandle, OpenMapMut};

macro_rules! maps {
    ($($name:ident),* $(,)?) => {
        /// The maps, by their names in the object and in bpffs.
        #[derive(Debug)]
        pub(crate) struct Maps {
            $(pub(crate) $name: MapHandle,)*
        }

        impl Maps {
            pub(crate) const NAMES: &[&str] = &[$(stringify!($name)),*];

            /// Opens each map by its name with `map`.
            pub(crate) fn from_each<E>(
                mut map: impl FnMut(&str) -> Result<MapHandle, E>,
            ) -> Result<Maps, E> {
                Ok(Maps { $($name: map(stringify!($name))?,)* })
            }

            /// Returns all maps of the programs, each with its name.
            pub(crate) fn each(&self) -> Vec<(&'static str, &MapHandle)> {
                vec![$((stringify!($name), &self.$name)),*]
            }
        }
    };
}

maps!(
    flows,
    buckets,
    secrets,
    vacant,
    cursors,
    asked,
    marked,
    turns,
    ports,
    counts,
    hooks,
    remotes,
    plan,
    plan_a,
    plan_b,
    couplings,
    priorities,
    groups,
    guests,
    members,
    events,
    passed,
    passed_count,
);

impl Maps {
    /// Lets an object that is about to be loaded use the map of the same name, if there is one.
    pub(crate) fn lend(&self, map: &mut OpenMapMut<'_>) -> libbpf_rs::Result<()> {
        let mut each = self.each().into_iter();
        let own = each.find(|(name, _)| map.name() == OsStr::new(name));
        own.map_or(Ok(()), |(_, own)| map.reuse_fd(own.as_fd()))
    }
}
