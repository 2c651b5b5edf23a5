//! A host of a test's own: interfaces, and a store of pins.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use nix::sched::CloneFlags;
use uc_port::{AttachVia, Programs, Store};

use super::policy;

/// Gone with the thread: network, and BPF file system.
pub struct Host {
    pub store: Store,
    pub folder: PathBuf,
}

/// `ip` there, with words that are parted by single spaces.
pub fn ip(arguments: &str) {
    let output = Command::new("ip")
        .args(arguments.split(' '))
        .output()
        .unwrap();
    assert!(output.status.success(), "ip {arguments}: {output:?}");
}

impl Host {
    pub fn new() -> Option<Host> {
        // says why if the machine can't load the programs at all
        super::programs(1)?;
        let folder = super::own_bpffs(CloneFlags::CLONE_NEWNET);
        let store = Store::at(&folder);
        Some(Host { store, folder })
    }

    pub fn open(&self) -> Programs {
        self.store.open().unwrap().expect("something is pinned")
    }

    pub fn attach(&self, names: &[&str], via: AttachVia) {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        self.store
            .attach_all(&names, &policy().into(), via, 64)
            .unwrap();
    }

    pub fn attached(&self) -> Vec<u32> {
        let attached = self.store.attached(&self.open()).unwrap();
        attached.iter().map(|port| port.ifindex).collect()
    }

    /// Names of what is pinned beside links.
    pub fn versions(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| !name.starts_with("port-")).collect()
    }

    /// What is pinned is as if a build with other maps had left it.
    pub fn relay(&self) {
        for name in self.versions() {
            let mut parts: Vec<&str> = name.split('-').collect();
            let layout = if parts[0] == "maps" { 1 } else { 2 };
            parts[layout] = "00000000000000aa";
            let other = self.folder.join(parts.join("-"));
            fs::rename(self.folder.join(&name), other).unwrap();
        }
    }
}

/// How many clsact filters of ours an interface has, as `tc` sees it.
pub fn clsact_filters(name: &str) -> usize {
    let filters = |hook: &str| {
        let output = Command::new("tc")
            .args(["filter", "show", "dev", name, hook])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.matches("handle 0x1").count()
    };
    filters("ingress") + filters("egress")
}
