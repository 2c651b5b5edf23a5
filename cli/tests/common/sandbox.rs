//! A private mount namespace with its own BPF file system: pins of `uc` in it are private and end
//! with it.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use uc_lab::netns::Namespace;

/// A process that holds the mount namespace until its standard input closes.
pub struct Sandbox {
    holder: Child,
}

impl Sandbox {
    /// Creates a sandbox with an empty bpffs at /sys/fs/bpf.
    pub fn new() -> Self {
        Self::with("mount -t bpf -o mode=755 bpf /sys/fs/bpf")
    }

    /// Creates a sandbox with an empty /run/undercurrent and an empty /var/lib/undercurrent.
    pub fn with_run() -> Self {
        Self::with(
            "mount -t bpf -o mode=755 bpf /sys/fs/bpf\n\
             for folder in /run /var/lib; do\n\
             mkdir -p $folder/undercurrent\n\
             mount -t tmpfs -o mode=700 tmpfs $folder/undercurrent\n\
             done",
        )
    }

    /// Returns the outside path of a path inside.
    pub fn path(&self, inside: &str) -> std::path::PathBuf {
        format!("/proc/{}/root{inside}", self.holder.id()).into()
    }

    /// Creates a sandbox without any bpffs.
    pub fn without_bpffs() -> Self {
        Self::with("while mountpoint -q /sys/fs/bpf; do umount /sys/fs/bpf || exit 1; done")
    }

    fn with(setup: &str) -> Self {
        let script = format!("{setup}\necho ready\nexec cat");
        let mut holder = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-ec", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let first = BufReader::new(holder.stdout.take().unwrap()).lines().next();
        assert_eq!(first.unwrap().unwrap(), "ready");
        Self { holder }
    }

    /// Returns a command that runs a program in the sandbox, in the given network namespace.
    pub fn command(&self, namespace: &Namespace, program: &str) -> Command {
        let mut command = namespace.command("nsenter");
        self.enter(&mut command).arg(program);
        command
    }

    /// Returns `uc` inside, in the given network namespace.
    pub fn uc(&self, namespace: &Namespace, arguments: &[&str]) -> Command {
        let mut command = namespace.command("nsenter");
        self.enter(&mut command)
            .arg(env!("CARGO_BIN_EXE_uc"))
            .args(arguments);
        command
    }

    /// Returns `uc` inside, in the given network namespace, as a user without any capability.
    pub fn uc_as_nobody(&self, namespace: &Namespace, arguments: &[&str]) -> Command {
        let mut command = namespace.command("nsenter");
        self.enter(&mut command).args(super::uc::AS_NOBODY);
        command.arg(super::uc::for_everybody()).args(arguments);
        command
    }

    /// Returns `uc` inside, on a kernel that seems to lack bpf(2).
    pub fn uc_without_bpf(&self, namespace: &Namespace, arguments: &[&str]) -> Command {
        let mut command = self.uc(namespace, arguments);
        let filter = uc_live::seccomp::without_bpf();
        // SAFETY: two system calls between fork and exec, which allocate nothing.
        unsafe { command.pre_exec(move || filter.install()) };
        command
    }

    /// Returns the words that must precede a command so that it runs in the sandbox, in the given network namespace.
    pub fn entrance(&self, namespace: &Namespace) -> String {
        let (net, holder) = (namespace.path(), self.holder.id());
        format!(
            "nsenter --net={} --mount=/proc/{holder}/ns/mnt --",
            net.display()
        )
    }

    fn enter<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .arg(format!("--mount=/proc/{}/ns/mnt", self.holder.id()))
            .arg("--")
    }

    /// Returns the names of everything in /sys/fs/bpf/undercurrent.
    pub fn pins(&self) -> Vec<String> {
        let folder = format!("/proc/{}/root/sys/fs/bpf/undercurrent", self.holder.id());
        let Ok(entries) = std::fs::read_dir(folder) else {
            return Vec::new();
        };
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
        entries
            .map(|entry| name(entry).into_string().unwrap())
            .collect()
    }

    /// Removes the pin with this name, in /sys/fs/bpf/undercurrent or in a version's folder there.
    pub fn unpin(&self, name: &str) {
        let top = format!("/proc/{}/root/sys/fs/bpf/undercurrent", self.holder.id());
        let top = std::path::Path::new(&top);
        let folders = self.pins().into_iter().map(|pin| top.join(pin));
        let mut places = std::iter::once(top.to_owned()).chain(folders);
        let pin = places.find_map(|folder| {
            let pin = folder.join(name);
            pin.exists().then_some(pin)
        });
        std::fs::remove_file(pin.expect(name)).unwrap();
    }

    /// Renames the pins in /sys/fs/bpf/undercurrent as if a version with another map layout had
    /// left them.
    pub fn relay(&self) {
        relay(&self.path("/sys/fs/bpf/undercurrent"));
    }

    /// Makes /sys/fs/bpf accessible to root only, as many distributions mount it.
    pub fn close(&self) {
        use std::os::unix::fs::PermissionsExt;
        let folder = format!("/proc/{}/root/sys/fs/bpf", self.holder.id());
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    }

    /// Returns `true` if /sys/fs/bpf has no pins of Undercurrent. Some kernels have files of their own there.
    pub fn is_clean(&self) -> bool {
        let folder = format!("/proc/{}/root/sys/fs/bpf", self.holder.id());
        let mut entries = std::fs::read_dir(folder).unwrap();
        entries.all(|entry| {
            entry
                .unwrap()
                .file_name()
                .to_string_lossy()
                .ends_with(".debug")
        })
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        self.holder.wait().unwrap();
    }
}

/// Renames the pins in a folder as if a version with another layout of the maps had left them.
pub fn relay(folder: &std::path::Path) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let mut parts: Vec<&str> = name.split('-').collect();
        let layout = match parts[0] {
            "maps" => 1,
            "programs" => 2,
            _ => continue,
        };
        parts[layout] = "00000000000000aa";
        std::fs::rename(entry.path(), folder.join(parts.join("-"))).unwrap();
    }
}
