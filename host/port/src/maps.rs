//! The maps with the programs' state and settings. They outlive the programs: the next version
//! continues with them.

use libbpf_rs::MapHandle;

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

            /// Returns all maps with their names.
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
