//! The maps that hold the state: what a program learns and what it is told. They outlive the
//! programs, whose next version takes them over.

use libbpf_rs::MapHandle;

macro_rules! maps {
    ($($name:ident),* $(,)?) => {
        /// By the names that they have in the object and in bpffs.
        #[derive(Debug)]
        pub(crate) struct Maps {
            $(pub(crate) $name: MapHandle,)*
        }

        impl Maps {
            pub(crate) const NAMES: &[&str] = &[$(stringify!($name)),*];

            /// Makes each map by its name.
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
    places,
    cursors,
    ports,
    counts,
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
