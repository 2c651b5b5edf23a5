//! The BPF file system, in which pins live.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use uc_files::check_folder_owner;

use crate::error::PortError;
use crate::store::Store;

/// The `f_type` of a BPF file system (linux/magic.h).
const BPF_FS_MAGIC: i64 = 0xcafe_4a11;

impl Store {
    pub(crate) fn pin(&self, fd: BorrowedFd<'_>, path: &Path) -> Result<(), PortError> {
        let text = CString::new(path.as_os_str().as_bytes()).map_err(|_| PortError::NoBpffs {
            path: self.folder.clone(),
        })?;
        // SAFETY: a plain system call with a NUL-terminated path.
        let code = unsafe { libbpf_sys::bpf_obj_pin(fd.as_raw_fd(), text.as_ptr()) };
        if code < 0 {
            let error = io::Error::from_raw_os_error(-code);
            return Err(PortError::from_kernel(
                format!("pin {}", path.display()),
                error,
            ));
        }
        Ok(())
    }

    /// Checks that there is a BPF file system for the pins, and that only root can write it: whoever
    /// removes a pin takes its programs off the port.
    ///
    /// # Errors
    /// [`PortError::NoBpffs`]; [`PortError::File`].
    pub fn check_bpffs(&self) -> Result<(), PortError> {
        let parent = self.parent()?;
        let status = nix::sys::statfs::statfs(parent).map_err(|_| self.no_bpffs())?;
        if status.filesystem_type().0 != BPF_FS_MAGIC {
            return Err(self.no_bpffs());
        }
        check_folder_owner(parent)?;
        match self.folder.symlink_metadata() {
            Ok(_) => Ok(check_folder_owner(&self.folder)?),
            Err(_) => Ok(()),
        }
    }

    pub(crate) fn parent(&self) -> Result<&Path, PortError> {
        self.folder.parent().ok_or_else(|| self.no_bpffs())
    }

    pub(crate) fn no_bpffs(&self) -> PortError {
        PortError::NoBpffs {
            path: self.folder.clone(),
        }
    }
}
