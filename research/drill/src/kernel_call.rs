//! A call as a kernel takes it: numbers, and memory.

/// Least length of the memory of options and events; a call that names a longer one is refused.
pub(crate) const VALUE_BYTES: usize = 128;

/// Memory that a call reads or writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The bytes, before the call or after it.
    pub bytes: Vec<u8>,
    /// Pointers in the bytes: where they are, and what they point to.
    pub pointers: Vec<(usize, Argument)>,
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A number.
    Number(i64),
    /// A pointer to memory.
    Memory(Memory),
    /// The address of the peer; its length is the next argument.
    Peer,
    /// The length of an address.
    AddressLength,
}

impl Argument {
    /// Returns whether the kernel finds the peer's address through it.
    pub fn names_peer(&self) -> bool {
        match self {
            Argument::Peer => true,
            Argument::Memory(memory) => memory.pointers.iter().any(|(_, to)| to.names_peer()),
            Argument::Number(_) | Argument::AddressLength => false,
        }
    }
}

/// A call for a kernel, with the target's file descriptors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelCall {
    /// The name of the system call.
    pub name: String,
    /// Arguments in the order of the C library's function.
    pub arguments: Vec<Argument>,
    /// Whether the script expects it to block.
    pub blocks: bool,
}

impl Memory {
    pub(crate) fn zeros(bytes: usize) -> Memory {
        Memory {
            bytes: vec![0; bytes],
            pointers: Vec::new(),
        }
    }

    /// Returns the memory with zeros after it, up to the length that every option has room in.
    pub(crate) fn padded(mut self) -> Memory {
        let bytes = self.bytes.len().max(VALUE_BYTES);
        self.bytes.resize(bytes, 0);
        self
    }

    pub(crate) fn push<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes.extend(bytes);
    }

    pub(crate) fn pointer(&mut self, to: Argument) {
        self.pointers.push((self.bytes.len(), to));
        self.push([0; 8]);
    }

    /// Returns the number of `N` bytes at an offset.
    pub(crate) fn at<const N: usize>(&self, offset: usize) -> i64 {
        let mut wide = [0; 8];
        if let Some(bytes) = self.bytes.get(offset..offset + N) {
            wide[..N].copy_from_slice(bytes);
        }
        i64::from_le_bytes(wide)
    }
}
