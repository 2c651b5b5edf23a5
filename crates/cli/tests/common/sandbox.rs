//! A private mount namespace with a BPF file system of its own: what `uc` pins there is nobody
//! else's, and goes with it.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use uc_lab::netns::Namespace;

/// A process that holds the mount namespace until its standard input closes.
pub struct Sandbox {
    holder: Child,
}

impl Sandbox {
    /// With an empty bpffs at /sys/fs/bpf.
    pub fn new() -> Self {
        Self::with("mount -t bpf -o mode=1777 bpf /sys/fs/bpf")
    }

    /// Without any bpffs.
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

    /// `uc` inside, in the network namespace given.
    pub fn uc(&self, namespace: &Namespace, arguments: &[&str]) -> Command {
        let mut command = namespace.command("nsenter");
        self.enter(&mut command)
            .arg(env!("CARGO_BIN_EXE_uc"))
            .args(arguments);
        command
    }

    /// `uc` inside, in the network namespace given, as somebody without any right.
    pub fn uc_as_nobody(&self, namespace: &Namespace, arguments: &[&str]) -> Command {
        let mut command = namespace.command("nsenter");
        self.enter(&mut command).args(super::uc::AS_NOBODY);
        command.arg(super::uc::for_everybody()).args(arguments);
        command
    }

    /// `uc` inside, where bpf(2) does not exist.
    pub fn uc_without_bpf(&self, namespace: &Namespace, arguments: &[&str]) -> Command {
        let mut command = self.uc(namespace, arguments);
        // SAFETY: two system calls between fork and exec, which allocate nothing.
        unsafe { command.pre_exec(super::uc::forbid_bpf) };
        command
    }

    fn enter<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .arg(format!("--mount=/proc/{}/ns/mnt", self.holder.id()))
            .arg("--")
    }

    /// Names of everything in /sys/fs/bpf/undercurrent.
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

    /// Removes one of them.
    pub fn unpin(&self, name: &str) {
        let folder = format!("/proc/{}/root/sys/fs/bpf/undercurrent", self.holder.id());
        std::fs::remove_file(std::path::Path::new(&folder).join(name)).unwrap();
    }

    /// Closes /sys/fs/bpf to everybody but root, as many distributions mount it.
    pub fn close(&self) {
        use std::os::unix::fs::PermissionsExt;
        let folder = format!("/proc/{}/root/sys/fs/bpf", self.holder.id());
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    }

    /// Whether nothing of ours is left in /sys/fs/bpf. Some kernels have files of their own there.
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
