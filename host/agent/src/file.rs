//! When the configuration file changes. Editors and Kubernetes replace a file, or a link above it,
//! rather than write into it; so it is the folder that is watched, and what counts is whether the
//! text is another one: that the engine sees for itself. What changes in another folder, where a link
//! leads to, it finds when it looks at everything.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent};
use uc_client::AgentError;

/// Who replaces a file does several things to its folder.
const SETTLE: Duration = Duration::from_millis(50);

/// A folder that is watched.
pub struct Folder {
    inotify: Inotify,
    /// The file that counts; none: all.
    file: Option<OsString>,
    name: String,
}

impl Folder {
    /// Watches the folder that this file is in, from now on. What is written into others there
    /// doesn't count; but any name that is moved may be a link above it.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn of(path: &Path) -> Result<Self, AgentError> {
        let absolute = std::path::absolute(path)
            .map_err(|error| AgentError::io(format!("find {}", path.display()), error))?;
        let folder = absolute.parent().unwrap_or(&absolute);
        Self::open(folder, path.file_name().map(OsStr::to_owned))
    }

    /// Watches all files of this folder, from now on.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn all(folder: &Path) -> Result<Self, AgentError> {
        Self::open(folder, None)
    }

    fn open(folder: &Path, file: Option<OsString>) -> Result<Self, AgentError> {
        let failed = |errno| AgentError::io(format!("watch {}", folder.display()), errno);
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC).map_err(failed)?;
        // Not what is created: it is empty still.
        let flags = AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_ATTRIB;
        inotify.add_watch(folder, flags).map_err(failed)?;
        Ok(Self {
            inotify,
            file,
            name: folder.display().to_string(),
        })
    }

    fn counts(&self, event: &InotifyEvent) -> bool {
        // Events were lost: anything may have changed.
        let any = AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_Q_OVERFLOW;
        self.file.is_none() || self.file == event.name || event.mask.intersects(any)
    }

    /// Tells of each change until `tell` answers that nobody listens: on a thread of its own, which
    /// ends with the process at the latest.
    ///
    /// # Errors
    /// Where there can be no thread.
    pub fn follow(self, tell: impl Fn() -> bool + Send + 'static) -> Result<(), AgentError> {
        let body = move || {
            loop {
                match self.inotify.read_events() {
                    Ok(events) if events.iter().any(|event| self.counts(event)) => {}
                    Ok(_) | Err(nix::errno::Errno::EINTR) => continue,
                    Err(error) => {
                        let name = &self.name;
                        tracing::warn!(%error, "{name} is not watched any more; SIGHUP reads it");
                        return;
                    }
                }
                // What comes meanwhile is told together.
                std::thread::sleep(SETTLE);
                if !tell() {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("agent-files".to_owned())
            .spawn(body)
            .map(drop)
            .map_err(|error| AgentError::io("start a thread", error))
    }
}
