//! A host for one test: interfaces, and a store of pins.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use nix::sched::CloneFlags;
use uc_port::{AttachVia, Programs, Store, interface_index};

use super::policy;

/// A network namespace and a BPF file system, which end with the thread.
pub struct Host {
    pub store: Store,
    pub folder: PathBuf,
}

/// Runs `ip` in the namespace; `arguments` are separated by single spaces.
pub fn ip(arguments: &str) {
    let output = Command::new("ip")
        .args(arguments.split(' '))
        .output()
        .unwrap();
    assert!(output.status.success(), "ip {arguments}: {output:?}");
}

impl Host {
    pub fn new() -> Option<Host> {
        // Prints the reason if the machine can't load the programs at all.
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

    /// Creates a pair of interfaces, `one` and `two`, and attaches both; returns their indices.
    pub fn attach_pair(&self, via: AttachVia) -> [u32; 2] {
        ip("link add one type veth peer name two");
        let names = ["one", "two"];
        self.attach(&names, via);
        names.map(|name| interface_index(name).unwrap())
    }

    pub fn attached(&self) -> Vec<u32> {
        let attached = self.store.attached(&self.open()).unwrap();
        attached.iter().map(|port| port.ifindex).collect()
    }

    /// Returns the names of pins other than links.
    pub fn versions(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| !name.starts_with("port-")).collect()
    }

    /// Removes the pin of a map.
    pub fn remove_map(&self, name: &str) {
        let versions = self.versions();
        let mut maps = versions.iter().filter(|name| name.starts_with("maps-"));
        fs::remove_file(self.folder.join(maps.next().unwrap()).join(name)).unwrap();
    }

    /// Renames the pins as if a build with another map layout had left them.
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

/// Returns the number of our clsact filters on an interface, as `tc` shows them.
pub fn clsact_filters(name: &str) -> usize {
    let filters = |hook: &str| {
        let output = Command::new("tc")
            .args(["filter", "show", "dev", name, hook])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let handles = ["handle 0x1 ", "handle 0x7563 "];
        handles
            .map(|handle| text.matches(handle).count())
            .iter()
            .sum::<usize>()
    };
    filters("ingress") + filters("egress")
}
