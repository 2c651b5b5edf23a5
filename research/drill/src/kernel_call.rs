//! A call as a kernel takes it: numbers, and memory.

/// Minimum size of the memory for a socket option or a list of events, in bytes. A call whose script names a larger
/// size is refused.
pub(crate) const VALUE_BYTES: usize = 128;

/// Memory that a call reads or writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The bytes, before the call or after it.
    pub bytes: Vec<u8>,
    /// Pointers in `bytes`: the offset of each, and the argument to which the call will make the 8 bytes there point.
    pub pointers: Vec<(usize, Argument)>,
}

/// An argument of a system call, as it is passed to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A number that is passed by value.
    Number(i64),
    /// A pointer to memory that is laid out for the call.
    Memory(Memory),
    /// The address of the peer; its length is the next argument.
    Peer,
    /// A pointer to the length of a socket address.
    AddressLength,
}

impl Argument {
    /// Returns whether the argument is the peer's address or memory with a pointer to it.
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
    /// Whether the script expects the call to block.
    pub blocks: bool,
}

impl Memory {
    pub(crate) fn zeros(bytes: usize) -> Memory {
        Memory {
            bytes: vec![0; bytes],
            pointers: Vec::new(),
        }
    }

    /// Returns the memory, extended with zeros to `VALUE_BYTES` if it is shorter.
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

    /// Returns the little-endian number of `N` bytes (at most 8) at an offset; 0 if the memory ends before it.
    pub(crate) fn at<const N: usize>(&self, offset: usize) -> i64 {
        let mut wide = [0; 8];
        if let Some(bytes) = self.bytes.get(offset..offset + N) {
            wide[..N].copy_from_slice(bytes);
        }
        i64::from_le_bytes(wide)
    }
}
