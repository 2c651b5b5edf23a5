//! Loads advance.bpf.c, the walking program, which lets flows advance.

use std::error::Error;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder};
use uc_port::PacketContext;
use uc_port::cost::Case;
use zerocopy::{Immutable, IntoBytes};

use crate::frames::Kind;

/// The loopback interface, which every network namespace has.
pub const IFINDEX: u32 = 1;

impl Walk {
    /// Returns the walk with the same ACK number in all packets of a flow, so that they acknowledge nothing new.
    pub fn repeating(self) -> Self {
        Self {
            number: Kind::Ack.first_number(0),
            step_bytes: 0,
            ..self
        }
    }
}

/// Bytes of the headers over IPv6, without options.
const HEADERS_MAX: usize = 74;

/// The arguments of the walking program, as its `struct walk`.
#[repr(C)]
#[derive(Clone, Copy, IntoBytes, Immutable)]
pub struct Walk {
    runs: u64,
    flows: u32,
    flow_shift: u32,
    address_at: u32,
    address: u32,
    number_at: u32,
    number: u32,
    step_bytes: u32,
    target: u32,
    headers: [u8; HEADERS_MAX],
    padding: [u8; 6],
}

/// Flows whose peers have consecutive addresses.
pub struct Flows {
    /// Base-2 logarithm of the number of flows.
    pub shift: u32,
    /// The last four bytes of the first peer's address.
    pub address: u32,
    pub ipv6: bool,
    /// Kind of data packets that the guest sends.
    pub data: Kind,
    /// Number of packets so far in each direction.
    pub runs: u64,
}

impl Flows {
    /// Returns the walk of the next packets of a kind. `target`: index of the program that gets them.
    pub fn walk(&self, kind: Kind, target: u32) -> Result<Walk, Box<dyn Error>> {
        let mut headers = kind.frame(self.ipv6)?;
        headers.resize(HEADERS_MAX, 0);
        let (address_at, number_at) = kind.offsets(self.ipv6);
        let step_bytes = match kind {
            Kind::Syn | Kind::SynAck => 0,
            _ => self.data.step_bytes(),
        };
        Ok(Walk {
            runs: self.runs,
            flows: 1 << self.shift,
            flow_shift: self.shift,
            address_at,
            address: self.address,
            number_at,
            number: kind.first_number(step_bytes),
            step_bytes,
            target,
            headers: headers.try_into().map_err(|_| "long headers")?,
            padding: [0; 6],
        })
    }
}

/// The program that walks over flows, and the programs that it calls.
pub struct Walker(Object);

impl Walker {
    /// Compiles and loads the walking program.
    pub fn load() -> Result<Self, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let object = folder.path().join("advance.o");
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        uc_clang::bpf(root, Path::new("examples/cost/advance.bpf.c"), &object, &[])?;
        let open = ObjectBuilder::default().open_file(&object)?;
        Ok(Self(open.load()?))
    }

    /// Makes a program the target of this index.
    pub fn aim(&self, index: u32, program: BorrowedFd<'_>) -> Result<(), Box<dyn Error>> {
        let number = program.as_raw_fd().to_ne_bytes();
        let (key, any) = (index.to_ne_bytes(), MapFlags::ANY);
        Ok(self.map("targets")?.update(&key, &number, any)?)
    }

    /// Sets the walk of each processor; those without one get the first.
    pub fn set(&self, walks: &[Walk]) -> Result<(), Box<dyn Error>> {
        let walk = |cpu: usize| walks.get(cpu).unwrap_or(&walks[0]).as_bytes().to_vec();
        let values: Vec<_> = (0..libbpf_rs::num_possible_cpus()?).map(walk).collect();
        let key = 0u32.to_ne_bytes();
        Ok(self
            .map("walks")?
            .update_percpu(&key, &values, MapFlags::ANY)?)
    }

    /// Returns the case that runs the program `repeat` times on frames of a kind.
    pub fn case(&self, kind: Kind, ipv6: bool, repeat: u32) -> Result<Case<'_>, Box<dyn Error>> {
        let program = self.0.progs().next().ok_or("the object has no program")?;
        // SAFETY: the object holds the descriptor for as long as the case lives.
        let program = unsafe { BorrowedFd::borrow_raw(program.as_fd().as_raw_fd()) };
        Ok(Case {
            name: "advancing",
            program,
            packet: kind.frame(ipv6)?,
            context: PacketContext {
                ifindex: IFINDEX,
                gso_segs: kind.gso_segs(),
                gso_size: if kind.gso_segs() == 0 {
                    0
                } else {
                    crate::frames::SEGMENT_BYTES
                },
                repeat,
            },
        })
    }

    fn map(&self, name: &str) -> Result<libbpf_rs::Map<'_>, Box<dyn Error>> {
        let found = self.0.maps().find(|map| map.name() == name);
        Ok(found.ok_or("the object has no map of this name")?)
    }
}
