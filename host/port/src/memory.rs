//! The memory that control groups, of version 1 and 2, leave to this process.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// A version of control groups: the beginning of its line in /proc/self/cgroup, where it is mounted, and
/// its files with the limit and the use in bytes.
struct Version {
    line: fn(&str) -> Option<&str>,
    root: &'static str,
    limit: &'static str,
    used: &'static str,
}

const VERSIONS: [Version; 2] = [
    Version {
        line: |line| line.strip_prefix("0::/"),
        root: "/sys/fs/cgroup",
        limit: "memory.max",
        used: "memory.current",
    },
    Version {
        line: |line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(":/")?;
            controllers
                .split(',')
                .any(|controller| controller == "memory")
                .then_some(path)
        },
        root: "/sys/fs/cgroup/memory",
        limit: "memory.limit_in_bytes",
        used: "memory.usage_in_bytes",
    },
];

/// Bytes. A limit of this size or larger counts as no limit: version 1 of control groups reports a number near 2^63 if
/// there is none.
const UNLIMITED: u64 = 1 << 60;

/// The memory limit of a control group that this process is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// Path of the file that has the limit.
    pub file: PathBuf,
    /// The limit of memory in bytes.
    pub bytes: u64,
    /// Memory that the group may still take, in bytes. Pages of files count as free, because the kernel can drop them.
    pub left_bytes: u64,
}

impl MemoryLimit {
    /// Returns the limit that leaves this process the least, of its groups and those above them; `None` if
    /// no group has a limit.
    pub fn tightest() -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        Self::tightest_of(&groups, Path::new("/"))
    }

    /// Returns the tightest limit of the groups in the text of /proc/self/cgroup, in the file system
    /// below `root`.
    fn tightest_of(groups: &str, root: &Path) -> Option<Self> {
        let limits = VERSIONS.iter().flat_map(|version| {
            let mount = root.join(&version.root[1..]);
            let path = groups.lines().find_map(version.line);
            let group = path.map(|path| mount.join(path));
            let above = group.iter().flat_map(|group| group.ancestors());
            let above = above.take_while(|above| above.starts_with(&mount));
            let limits = above.filter_map(|group| Self::of(group, version));
            limits.collect::<Vec<Self>>()
        });
        limits.min_by_key(|limit| limit.left_bytes)
    }

    fn of(group: &Path, version: &Version) -> Option<Self> {
        let read = |name| fs::read_to_string(group.join(name)).ok();
        let number = |name| read(name)?.trim().parse::<u64>().ok();
        let bytes = number(version.limit).filter(|bytes| *bytes < UNLIMITED)?;
        let pages = read("memory.stat").map_or(0, |text| pages_of_files(&text));
        let used = number(version.used)?.saturating_sub(pages);
        Some(Self {
            file: group.join(version.limit),
            bytes,
            left_bytes: bytes.saturating_sub(used),
        })
    }
}

/// Returns the bytes of pages of files in the text of a group's memory.stat. In version 1, the counts that include
/// groups below it have names that begin with `total_`.
fn pages_of_files(text: &str) -> u64 {
    let value = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(key, _)| *key == name)?.1.parse::<u64>().ok()
    };
    let both = |prefix: &str| {
        Some(value(&format!("{prefix}inactive_file"))? + value(&format!("{prefix}active_file"))?)
    };
    both("total_").or_else(|| both("")).unwrap_or(0)
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            bytes,
            left_bytes,
        } = self;
        let mb = |bytes: &u64| bytes >> 20;
        let (bytes, left) = (mb(bytes), mb(left_bytes));
        write!(f, "{} is {bytes} MB and leaves {left} MB", file.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder in place of /, with these files.
    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_tightest_limit_of_either_version_is_found_among_the_groups_above() {
        let root = root(&[
            ("sys/fs/cgroup/system.slice/memory.max", "900000000\n"),
            ("sys/fs/cgroup/system.slice/memory.current", "100000000\n"),
            ("sys/fs/cgroup/system.slice/a.service/memory.max", "max\n"),
            ("sys/fs/cgroup/system.slice/a.service/memory.current", "1\n"),
            (
                "sys/fs/cgroup/memory/box/memory.limit_in_bytes",
                "209715200\n",
            ),
            (
                "sys/fs/cgroup/memory/box/memory.usage_in_bytes",
                "104857600\n",
            ),
            (
                "sys/fs/cgroup/memory/box/memory.stat",
                "inactive_file 1\nactive_file 1\ntotal_inactive_file 10485760\ntotal_active_file 10485760\n",
            ),
            (
                "sys/fs/cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "5\n"),
        ]);
        let second = "1:name=systemd:/\n0::/system.slice/a.service\n";
        let limit = MemoryLimit::tightest_of(second, root.path()).unwrap();
        assert_eq!(limit.left_bytes, 800_000_000);
        assert!(limit.file.ends_with("system.slice/memory.max"), "{limit:?}");
        let both = "4:cpu,memory:/box/inner\n0::/system.slice/a.service\n";
        let told = MemoryLimit::tightest_of(both, root.path())
            .unwrap()
            .to_string();
        let ends = "memory/box/memory.limit_in_bytes is 200 MB and leaves 120 MB";
        assert!(told.ends_with(ends), "{told}");
        let first = "4:cpu,memory:/\n3:memory-like:/box\n";
        assert_eq!(MemoryLimit::tightest_of(first, root.path()), None);
    }

    #[test]
    fn pages_of_files_count_once() {
        assert_eq!(pages_of_files("inactive_file 3\nactive_file 4\n"), 7);
        assert_eq!(pages_of_files("anon 3\n"), 0);
    }
}
