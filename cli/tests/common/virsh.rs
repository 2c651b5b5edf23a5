//! A `virsh` for `packaging/virsh-migrate`: it has one guest with one interface, whose migration the test makes.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::uc::UC;

/// Path of the script.
pub const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/virsh-migrate");
/// What it answers, by the files that the test makes. The guest's state is asked for with `--reason` on the new
/// host alone.
const VIRSH: &str = r#"#!/bin/sh
wait_for() { until [ -e "FOLDER/$1" ]; do sleep 0.01; done; }
case "$*" in
"domstate --reason guest") [ -e FOLDER/arrived ] && echo 'paused (user)' || echo 'paused (migrating)' ;;
domstate*) [ -e FOLDER/off ] && echo 'shut off' || echo running ;;
domiflist*)
    echo ' Interface   Type     Source   Model    MAC'
    echo '-----------------------------------------------------------'
    echo ' tap0        bridge   br0      virtio   02:75:63:ff:ff:ff'
    echo
    ;;
event*) wait_for paused ;;
migrate*)
    echo "$@" >FOLDER/asked
    wait_for ended
    [ ! -e FOLDER/failed ]
    ;;
resume*) touch FOLDER/resumed ;;
esac
"#;

/// The program, in a folder of its own.
pub struct Virsh {
    folder: tempfile::TempDir,
}

impl Virsh {
    /// Makes the program.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let virsh = Self { folder };
        let (program, own) = (virsh.file("virsh"), virsh.file(""));
        fs::write(&program, VIRSH.replace("FOLDER/", own.to_str().unwrap())).unwrap();
        fs::set_permissions(program, Permissions::from_mode(0o755)).unwrap();
        virsh
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a PATH on which it is, and this build's `uc`.
    pub fn path(&self) -> String {
        let uc = Path::new(UC).parent().unwrap().display();
        let path = std::env::var("PATH").unwrap();
        format!("{}:{uc}:{path}", self.folder.path().display())
    }

    /// Tells it what has happened: the guest is `off`, has `paused` or `arrived`; the migration has `failed` or
    /// `ended`.
    pub fn tell(&self, what: &str) {
        fs::write(self.file(what), "").unwrap();
    }

    /// Returns whether it was told so, or the guest was `resumed`.
    pub fn was(&self, what: &str) -> bool {
        self.file(what).exists()
    }

    /// Returns the arguments with which it was to migrate the guest.
    pub fn asked(&self) -> String {
        fs::read_to_string(self.file("asked")).unwrap_or_default()
    }
}
