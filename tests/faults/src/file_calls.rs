//! System calls on files, folders and pins.

use crate::files::{BPFFS, Found, Inode, device, parent};
use crate::world::{Answer, Fd, World};

/// Beginning of the paths of the lock files for pins (`host/port/src/locks.rs`).
const PINS_LOCK: &str = "/run/undercurrent/pins-";
/// Kinds of file systems (linux/magic.h).
const BPF_FS_MAGIC: i64 = 0xcafe_4a11;
const EXT4_MAGIC: i64 = 0xef53;

impl World {
    fn inode(&self, path: &str) -> Answer<usize> {
        let path = if path.len() > 1 {
            path.trim_end_matches('/')
        } else {
            path
        };
        self.files.paths.get(path).copied().ok_or(libc::ENOENT)
    }

    pub(crate) fn open(&mut self, path: &str, flags: i32, mode: u32) -> Answer {
        let errors = [libc::EMFILE, libc::EACCES, libc::ENOSPC];
        self.may(
            "open",
            &errors[..if flags & libc::O_CREAT != 0 { 3 } else { 2 }],
        )?;
        let inode = match self.inode(path) {
            Err(libc::ENOENT) if flags & libc::O_CREAT != 0 => {
                self.inode(parent(path))?;
                let file = Inode {
                    mode: libc::S_IFREG | mode & 0o777,
                    ..Inode::default()
                };
                self.files.add(path, file)
            }
            inode => inode?,
        };
        if self.files.inodes[inode].is_folder {
            return Ok(self.enter(Fd::Folder(path.to_owned())));
        }
        if flags & libc::O_TRUNC != 0 {
            self.files.inodes[inode].bytes.clear();
        }
        Ok(self.enter(Fd::File { inode, at: 0 }))
    }

    pub(crate) fn read(&mut self, fd: i32, room: usize) -> Answer<Vec<u8>> {
        self.may("read", &[])?;
        let Fd::File { inode, at } = self.fd(fd)?.clone() else {
            return Err(libc::EISDIR);
        };
        let bytes = &self.files.inodes[inode].bytes;
        let found = bytes[at.min(bytes.len())..].to_vec();
        let length = self.part(found.len().min(room));
        if let Fd::File { at, .. } = self.fd(fd)? {
            *at += length;
        }
        Ok(found[..length].to_vec())
    }

    pub(crate) fn write(&mut self, fd: i32, bytes: &[u8], place: Option<usize>) -> Answer {
        self.may("write", &[libc::ENOSPC, libc::EDQUOT])?;
        let length = self.part(bytes.len());
        let Fd::File { inode, at } = self.fd(fd)? else {
            return Err(libc::EISDIR);
        };
        let (inode, from) = (*inode, place.unwrap_or(*at));
        if place.is_none() {
            *at += length;
        }
        let file = &mut self.files.inodes[inode].bytes;
        file.resize(file.len().max(from + length), 0);
        file[from..from + length].copy_from_slice(&bytes[..length]);
        Ok(length as i64)
    }

    pub(crate) fn truncate(&mut self, fd: i32, length: usize) -> Answer {
        self.may("ftruncate", &[])?;
        let Fd::File { inode, .. } = *self.fd(fd)? else {
            return Err(libc::EINVAL);
        };
        self.files.inodes[inode].bytes.resize(length, 0);
        Ok(0)
    }

    pub(crate) fn sync(&mut self, fd: i32) -> Answer {
        self.may("fsync", &[libc::ENOSPC])?;
        match self.fd(fd)?.clone() {
            Fd::File { inode, .. } => {
                let file = &mut self.files.inodes[inode];
                file.synced.clone_from(&file.bytes);
            }
            Fd::Folder(folder) => {
                let is_in = |path: &String| parent(path) == folder;
                self.files.synced.retain(|path, _| !is_in(path));
                let now = self.files.paths.iter().filter(|(path, _)| is_in(path));
                let now: Vec<_> = now.map(|(path, inode)| (path.clone(), *inode)).collect();
                self.files.synced.extend(now);
            }
            _ => return Err(libc::EINVAL),
        }
        Ok(0)
    }

    pub(crate) fn rename(&mut self, from: &str, to: &str) -> Answer {
        self.may("rename", &[libc::ENOSPC])?;
        let inode = self.inode(from)?;
        self.files.paths.remove(from);
        self.files.paths.insert(to.to_owned(), inode);
        Ok(0)
    }

    pub(crate) fn unlink(&mut self, path: &str) -> Answer {
        self.may("unlink", &[libc::EBUSY])?;
        let inode = self.inode(path)?;
        if self.files.inodes[inode].is_folder {
            return Err(libc::EISDIR);
        }
        self.note(|| format!("{path} is removed"));
        self.files.paths.remove(path);
        if let Some(object) = self.files.inodes[inode].object
            && self.bpf.drop_user(object)
        {
            self.check();
        }
        Ok(0)
    }

    pub(crate) fn mkdir(&mut self, path: &str, mode: u32) -> Answer {
        self.may("mkdir", &[libc::ENOSPC])?;
        if self.inode(path).is_ok() {
            return Err(libc::EEXIST);
        }
        self.inode(parent(path))?;
        self.files.make_folder(path, mode & 0o755);
        Ok(0)
    }

    pub(crate) fn rmdir(&mut self, path: &str) -> Answer {
        self.may("rmdir", &[libc::EBUSY])?;
        let inode = self.inode(path)?;
        if !self.files.inodes[inode].is_folder {
            return Err(libc::ENOTDIR);
        }
        if self
            .files
            .names(path)
            .is_some_and(|names| !names.is_empty())
        {
            return Err(libc::ENOTEMPTY);
        }
        self.files.paths.remove(path);
        Ok(0)
    }

    pub(crate) fn list(&mut self, path: &str) -> Answer<Vec<String>> {
        self.may("opendir", &[libc::EMFILE])?;
        self.files.names(path).ok_or(libc::ENOENT)
    }

    pub(crate) fn may_list(&mut self) -> Answer<()> {
        self.may("readdir", &[])
    }

    pub(crate) fn flock(&mut self, fd: i32, operation: i32) -> Answer {
        if operation & libc::LOCK_UN == 0 {
            self.may("flock", &[libc::ENOLCK])?;
        } else if self.end.is_some() {
            return Ok(0);
        }
        let Fd::File { inode, .. } = *self.fd(fd)? else {
            return Err(libc::EBADF);
        };
        if operation & libc::LOCK_UN != 0 {
            self.files.unlock(inode, fd);
            return Ok(0);
        }
        let mut paths = self.files.paths.iter();
        let is_of_pins = paths.any(|(path, at)| *at == inode && path.starts_with(PINS_LOCK));
        let by_other = is_of_pins && self.time_ns(libc::CLOCK_MONOTONIC) < self.locked_until_ns;
        if self.files.inodes[inode].locked_by.is_some() || by_other {
            return Err(libc::EWOULDBLOCK);
        }
        self.files.inodes[inode].locked_by = Some(fd);
        Ok(0)
    }

    pub(crate) fn readlink(&mut self, path: &str) -> Answer<String> {
        self.may("readlink", &[])?;
        let number = path
            .strip_prefix("/proc/self/fd/")
            .and_then(|fd| fd.parse().ok());
        match number.and_then(|fd: i32| self.fd(fd).ok().cloned()) {
            Some(Fd::Object(object)) => Ok(format!("anon_inode:bpf-{}", self.bpf.kind(object))),
            _ => Err(libc::ENOENT),
        }
    }

    pub(crate) fn stat(&mut self, path: &str) -> Answer<Found> {
        self.may("stat", &[])?;
        let inode = self.inode(path)?;
        Ok(self.found(inode, device(path)))
    }

    pub(crate) fn fstat(&mut self, fd: i32) -> Answer<Found> {
        self.may("fstat", &[])?;
        match self.fd(fd)?.clone() {
            Fd::File { inode, .. } => Ok(self.found(inode, 1)),
            Fd::Folder(path) => self
                .inode(&path)
                .map(|inode| self.found(inode, device(&path))),
            _ => Err(libc::EBADF),
        }
    }

    fn found(&self, number: usize, device: u64) -> Found {
        let inode = &self.files.inodes[number];
        Found {
            mode: inode.mode,
            size: inode.bytes.len() as u64,
            inode: number as u64 + 1,
            device,
        }
    }

    pub(crate) fn statfs(&mut self, path: &str) -> Answer<i64> {
        self.may("statfs", &[])?;
        self.inode(path)?;
        Ok(if path.starts_with(BPFFS) {
            BPF_FS_MAGIC
        } else {
            EXT4_MAGIC
        })
    }

    /// Pins a BPF object at a path.
    pub(crate) fn pin(&mut self, path: &str, object: usize) -> Answer {
        self.inode(parent(path))?;
        if self.inode(path).is_ok() {
            return Err(libc::EEXIST);
        }
        self.note(|| format!("{path} is pinned"));
        let pin = Inode {
            object: Some(object),
            mode: libc::S_IFREG | 0o600,
            ..Inode::default()
        };
        self.files.add(path, pin);
        self.bpf.add_user(object);
        Ok(0)
    }

    /// Opens the BPF object that is pinned at a path, and returns a descriptor.
    pub(crate) fn open_pin(&mut self, path: &str) -> Answer {
        let inode = self.inode(path)?;
        let object = self.files.inodes[inode].object.ok_or(libc::EACCES)?;
        Ok(self.enter(Fd::Object(object)))
    }
}
