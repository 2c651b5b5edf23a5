//! Simulated file systems: on a disk, in memory (`/run`), and the BPF file system with its pins.

use std::collections::{BTreeMap, BTreeSet};

use crate::dice::Dice;

/// Path of the BPF file system.
pub const BPFFS: &str = "/sys/fs/bpf";
/// Mount point of the file system in memory, which a power cut empties.
const MEMORY: &str = "/run";

/// A file, a folder or a pin.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inode {
    pub(crate) is_folder: bool,
    /// Number of the BPF object that is pinned here; `None` for a file or folder.
    pub(crate) object: Option<usize>,
    pub(crate) mode: u32,
    pub(crate) bytes: Vec<u8>,
    /// The content that is on the disk and survives a power cut.
    pub(crate) synced: Vec<u8>,
    /// Descriptor that holds the file's lock; `None`: it is not locked.
    pub(crate) locked_by: Option<i32>,
}

/// Answer of `stat(2)`.
pub(crate) struct Found {
    pub(crate) mode: u32,
    pub(crate) size: u64,
    pub(crate) inode: u64,
    pub(crate) device: u64,
}

impl Found {
    pub(crate) fn stat(&self) -> libc::stat64 {
        // SAFETY: all zeroes are a valid value of plain integers.
        let mut found: libc::stat64 = unsafe { std::mem::zeroed() };
        found.st_mode = self.mode;
        found.st_size = self.size as i64;
        found.st_ino = self.inode;
        found.st_dev = self.device;
        found
    }

    pub(crate) fn statx(&self) -> libc::statx {
        // SAFETY: all zeroes are a valid value of plain integers.
        let mut found: libc::statx = unsafe { std::mem::zeroed() };
        found.stx_mask = libc::STATX_BASIC_STATS;
        found.stx_mode = self.mode as u16;
        found.stx_size = self.size;
        found.stx_ino = self.inode;
        found.stx_dev_minor = self.device as u32;
        found
    }
}

/// All file systems of a host.
#[derive(Debug)]
pub struct Files {
    pub(crate) inodes: Vec<Inode>,
    /// Indices of inodes by path: here as processes see them, in `synced` as they are on the disk.
    pub(crate) paths: BTreeMap<String, usize>,
    pub(crate) synced: BTreeMap<String, usize>,
}

pub(crate) fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

fn is_on_disk(path: &str) -> bool {
    !path.starts_with(BPFFS) && !path.starts_with(MEMORY)
}

pub(crate) fn device(path: &str) -> u64 {
    match path {
        _ if path.starts_with(BPFFS) => 3,
        _ if path.starts_with(MEMORY) => 2,
        _ => 1,
    }
}

impl Files {
    /// Creates file systems with the folders that any host has.
    pub(crate) fn new() -> Self {
        let mut files = Self {
            inodes: Vec::new(),
            paths: BTreeMap::new(),
            synced: BTreeMap::new(),
        };
        for folder in [
            "/", "/etc", "/var", "/var/lib", "/sys", "/sys/fs", BPFFS, MEMORY,
        ] {
            let mode = if folder == BPFFS { 0o700 } else { 0o755 };
            files.make_folder(folder, mode);
        }
        for folder in [
            "/sys/devices",
            "/sys/devices/system",
            "/sys/devices/system/cpu",
        ] {
            files.make_folder(folder, 0o755);
        }
        files.synced = files.paths.clone();
        // which libbpf reads once
        files.save("/sys/devices/system/cpu/possible", "0\n");
        files
    }

    pub(crate) fn make_folder(&mut self, path: &str, mode: u32) {
        let folder = Inode {
            is_folder: true,
            mode: libc::S_IFDIR | mode,
            ..Inode::default()
        };
        self.add(path, folder);
    }

    pub(crate) fn add(&mut self, path: &str, inode: Inode) -> usize {
        self.inodes.push(inode);
        self.paths.insert(path.to_owned(), self.inodes.len() - 1);
        self.inodes.len() - 1
    }

    /// Replaces a file as an operator's editor does: as a whole, and written to the disk at once.
    pub fn save(&mut self, path: &str, text: &str) {
        let file = Inode {
            mode: libc::S_IFREG | 0o644,
            bytes: text.as_bytes().to_vec(),
            synced: text.as_bytes().to_vec(),
            ..Inode::default()
        };
        let inode = self.add(path, file);
        self.synced.insert(path.to_owned(), inode);
    }

    /// Returns the names in a folder; `None` if it does not exist.
    pub fn names(&self, folder: &str) -> Option<Vec<String>> {
        self.paths.get(folder)?;
        let first = format!("{folder}/");
        let below = self.paths.range(first.clone()..);
        let below = below.take_while(|(path, _)| path.starts_with(&first));
        let names = below.map(|(path, _)| path[first.len()..].to_owned());
        Some(names.filter(|name| !name.contains('/')).collect())
    }

    /// Releases the lock of a file if this descriptor holds it.
    pub(crate) fn unlock(&mut self, inode: usize, fd: i32) {
        let lock = &mut self.inodes[inode].locked_by;
        *lock = lock.filter(|holder| *holder != fd);
    }

    /// Returns whether a process holds the lock of any file.
    pub fn is_any_locked(&self) -> bool {
        self.inodes.iter().any(|inode| inode.locked_by.is_some())
    }

    /// Returns the paths of the pins, each with the number of its object.
    pub fn pins(&self) -> BTreeMap<String, usize> {
        let pin =
            |(path, inode): (&String, &usize)| Some((path.clone(), self.inodes[*inode].object?));
        self.paths.iter().filter_map(pin).collect()
    }

    /// Simulates a power cut: content that is not on the disk is lost; random parts of it may have reached the disk.
    pub(crate) fn lose_power(&mut self, dice: &mut Dice) {
        let all: BTreeSet<String> = self
            .paths
            .keys()
            .chain(self.synced.keys())
            .cloned()
            .collect();
        for path in all
            .into_iter()
            .filter(|path| *path != BPFFS && *path != MEMORY)
        {
            let kept = match (self.paths.get(&path), self.synced.get(&path)) {
                _ if !is_on_disk(&path) => None,
                (now, then) if now == then => now,
                (now, then) => {
                    if dice.once_in(2) {
                        now
                    } else {
                        then
                    }
                }
            };
            match kept.copied() {
                Some(inode) => self.paths.insert(path, inode),
                None => self.paths.remove(&path),
            };
        }
        self.synced = self.paths.clone();
        for inode in &mut self.inodes {
            inode.locked_by = None;
            if inode.bytes != inode.synced && dice.once_in(2) {
                let length = dice.below(inode.bytes.len() as u64 + 1) as usize;
                inode.bytes.truncate(length);
            } else if inode.bytes != inode.synced {
                inode.bytes.clone_from(&inode.synced);
            }
            inode.synced.clone_from(&inode.bytes);
        }
    }
}
