//! Notifications about changes of the configuration file. Editors and Kubernetes replace a file, or a link above it,
//! rather than write into it. So the folder is watched, and the engine compares texts itself. A change in another
//! folder, to which a link leads, causes no notification; the engine's periodic comparison finds it.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent};
use uc_client::AgentError;

/// Time to wait for further changes: replacing a file changes its folder several times.
const SETTLE: Duration = Duration::from_millis(50);

/// A folder whose changes the agent watches (inotify).
pub struct Folder {
    inotify: Inotify,
    /// The file whose changes count; `None`: all files.
    file: Option<OsString>,
    name: String,
}

impl Folder {
    /// Watches the folder of this file, from now on. Writes to other files in the folder don't count, but any renamed
    /// entry does: it may be a link above the file.
    pub fn of(path: &Path) -> Result<Self, AgentError> {
        let absolute = std::path::absolute(path)
            .map_err(|error| AgentError::io(format!("find {}", path.display()), error))?;
        let folder = absolute.parent().unwrap_or(&absolute);
        Self::open(folder, path.file_name().map(OsStr::to_owned))
    }

    /// Watches all files of this folder, from now on.
    pub fn all(folder: &Path) -> Result<Self, AgentError> {
        Self::open(folder, None)
    }

    fn open(folder: &Path, file: Option<OsString>) -> Result<Self, AgentError> {
        let failed = |errno| AgentError::io(format!("watch {}", folder.display()), errno);
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC).map_err(failed)?;
        // A created file is still empty, so its creation doesn't count.
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

    /// Starts a thread that calls `tell` for each change until `tell` returns false.
    ///
    /// # Errors
    /// If no thread can be started.
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
                // Changes meanwhile are reported together.
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
            .map_err(|error| AgentError::io("start the thread that watches a folder", error))
    }
}
