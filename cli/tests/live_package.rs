//! The Debian package: its content, its service's capabilities, and that they suffice.

mod common;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use common::agent::ip;
use common::bench::wait_until;
use common::live_with;
use common::sandbox::Sandbox;
use common::seccomp::Filter;
use common::uc::{outcome, success};
use uc_client::Client;
use uc_lab::netns::Namespace;

const TOOLS: [&str; 5] = ["dpkg-deb", "strip", "setpriv", "ip", "unshare"];

/// Capabilities of the service: each of them is needed.
const CAPABILITIES: [&str; 3] = ["bpf", "net_admin", "perfmon"];

const POLICY: &str = "[agent]\nmetrics = \"none\"\n[[rule]]\nport = \"port*\"\nlaw = \"ecn\"\n";

struct Package {
    _folder: tempfile::TempDir,
    deb: PathBuf,
    root: PathBuf,
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The package of this build, with its content unpacked.
fn package() -> &'static Package {
    static PACKAGE: OnceLock<Package> = OnceLock::new();
    PACKAGE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let mut build = Command::new(source().join("scripts/deb"));
        build
            .arg(folder.path())
            .env("UC_BINARY", env!("CARGO_BIN_EXE_uc"))
            // a build without optimisation is large, and how small the package is isn't asked here
            .env("DPKG_DEB_COMPRESSOR_LEVEL", "0");
        let deb = PathBuf::from(success(build).trim());
        let root = folder.path().join("root");
        let mut unpack = Command::new("dpkg-deb");
        unpack.arg("--extract").arg(&deb).arg(&root);
        success(unpack);
        Package {
            _folder: folder,
            deb,
            root,
        }
    })
}

#[test]
fn live_the_package_contains_program_unit_manual_and_completions() {
    if !live_with(&TOOLS) {
        return;
    }
    let package = package();
    for file in [
        "usr/bin/uc",
        "lib/systemd/system/undercurrent.service",
        "usr/share/man/man1/uc.1.gz",
        "usr/share/man/man1/uc-check.1.gz",
        "usr/share/man/man1/uc-agent.1.gz",
        "usr/share/bash-completion/completions/uc",
        "usr/share/zsh/vendor-completions/_uc",
        "usr/share/fish/vendor_completions.d/uc.fish",
        "usr/share/doc/undercurrent/copyright",
        "usr/share/doc/undercurrent/policy.md",
        "usr/share/doc/undercurrent/undercurrent.toml",
    ] {
        assert!(package.root.join(file).is_file(), "{file}");
    }
    let mut info = Command::new("dpkg-deb");
    info.arg("--field").arg(&package.deb);
    let info = success(info);
    let version = format!("Version: {}", env!("CARGO_PKG_VERSION"));
    assert!(info.contains(&version), "{info}");
    assert!(
        !info.contains('@') || info.matches('@').count() == 1,
        "{info}"
    );
    for library in ["libc6", "libelf1", "zlib1g"] {
        assert!(info.contains(library), "{info}");
    }
    let mut names = Command::new("dpkg-deb");
    names.arg("--contents").arg(&package.deb);
    for line in success(names).lines() {
        assert!(line.contains(" root/root "), "{line}");
        assert!(!line.contains("manual.1"), "{line}");
    }
    let example = package
        .root
        .join("usr/share/doc/undercurrent/undercurrent.toml");
    let mut check = Command::new(package.root.join("usr/bin/uc"));
    check.arg("check").arg(example);
    assert!(success(check).contains("valid"));
}

#[test]
fn live_packaging_the_same_program_twice_gives_the_same_bytes() {
    if !live_with(&TOOLS) {
        return;
    }
    let again = tempfile::tempdir().unwrap();
    let mut build = Command::new(source().join("scripts/deb"));
    build
        .arg(again.path())
        .env("UC_BINARY", env!("CARGO_BIN_EXE_uc"))
        // a build without optimisation is large, and how small the package is isn't asked here
        .env("DPKG_DEB_COMPRESSOR_LEVEL", "0");
    let again = fs::read(success(build).trim()).unwrap();
    assert!(fs::read(&package().deb).unwrap() == again);
}

#[test]
fn live_systemd_accepts_the_service_and_rates_its_exposure_low() {
    if !live_with(&[&TOOLS[..], &["systemd-analyze"]].concat()) {
        return;
    }
    let package = package();
    let unit = package.root.join("lib/systemd/system/undercurrent.service");
    let text = fs::read_to_string(&unit).unwrap();
    let capabilities: Vec<String> = CAPABILITIES
        .iter()
        .map(|name| format!("CAP_{}", name.to_uppercase()))
        .collect();
    let bounded = format!("\nCapabilityBoundingSet={}\n", capabilities.join(" "));
    assert!(text.contains(&bounded));
    assert!(text.contains("\nRuntimeDirectoryPreserve=yes\n"), "locks");
    for line in ["StartLimitIntervalSec=0", "Restart=always", "RestartSec=1s"] {
        assert!(text.contains(&format!("\n{line}\n")), "{line}");
    }
    assert!(!text.contains("Assert"), "a failed assertion is final");
    // It is not installed: the program is where it was unpacked.
    let program = package.root.join("usr/bin/uc");
    let text = text.replace("/usr/bin/uc", program.to_str().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("undercurrent.service");
    fs::write(&unit, text).unwrap();
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no"]).arg(&unit);
    success(verify);
    // Out of 100; a service without any setting has 96.
    let mut security = Command::new("systemd-analyze");
    security
        .args(["security", "--offline=true", "--threshold=25"])
        .arg(&unit);
    success(security);
}

/// Returns a copy of this machine's root that vanishes when the script ends: writes go to memory.
/// Its /sys is empty, so there is no port in it; its dpkg is this machine's.
const INSTALL: &str = r#"
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
mount --rbind /proc /mnt/root/proc
mount -t tmpfs tmpfs /mnt/root/tmp
mount -t tmpfs tmpfs /mnt/root/sys
cp "$1" /mnt/root/tmp/undercurrent.deb
inside() { chroot /mnt/root "$@"; }
inside dpkg --install /tmp/undercurrent.deb
inside dpkg --verify undercurrent
inside uc check /usr/share/doc/undercurrent/undercurrent.toml --port vnet3
inside cp /usr/share/doc/undercurrent/undercurrent.toml /etc/undercurrent/
inside dpkg --install /tmp/undercurrent.deb
inside dpkg --remove undercurrent
inside sh -c 'test ! -e /usr/bin/uc && test -e /etc/undercurrent/undercurrent.toml'
mkdir -p /mnt/root/var/lib/undercurrent
inside dpkg --purge undercurrent
inside sh -c 'test ! -e /var/lib/undercurrent'
"#;

#[test]
fn live_the_package_is_installed_upgraded_and_removed() {
    if !live_with(&[&TOOLS[..], &["dpkg", "chroot"]].concat()) {
        return;
    }
    let mut install = Command::new("unshare");
    install
        .args(["--mount", "--propagation", "private", "sh", "-ec", INSTALL])
        .arg("sh")
        .arg(&package().deb);
    let done = outcome(install);
    assert_eq!(done.status, Some(0), "{done:?}");
    let told = "vnet3: tenant guests, weight 1, any number of flows";
    assert!(done.stdout.contains(told), "{}", done.stdout);
}

/// Returns the unpacked `uc` in the sandbox with these capabilities only, as a process of root that
/// can gain none.
fn uc_with(
    capabilities: &[&str],
    sandbox: &Sandbox,
    namespace: &Namespace,
    arguments: &[&str],
) -> Command {
    let bounds: Vec<String> = capabilities.iter().map(|name| format!("+{name}")).collect();
    let mut command = sandbox.command(namespace, "setpriv");
    command
        .arg(format!("--bounding-set=-all,{}", bounds.join(",")))
        .args(["--inh-caps=-all", "--no-new-privs", "--"])
        .arg(package().root.join("usr/bin/uc"))
        .args(arguments);
    command
}

fn host_with_a_port() -> Namespace {
    let namespace = Namespace::new("hosts").unwrap();
    ip(&namespace, "link add port0 type veth peer name guest0");
    namespace
}

#[test]
fn live_the_packaged_program_attaches_with_three_capabilities_and_not_with_fewer() {
    if !live_with(&TOOLS) {
        return;
    }
    let namespace = host_with_a_port();
    let sandbox = Sandbox::with_run();
    for missing in CAPABILITIES {
        let fewer: Vec<&str> = CAPABILITIES
            .into_iter()
            .filter(|name| *name != missing)
            .collect();
        let refused = outcome(uc_with(&fewer, &sandbox, &namespace, &["attach", "port0"]));
        assert_eq!(refused.status, Some(2), "without {missing}: {refused:?}");
        assert!(sandbox.is_clean(), "{:?}", sandbox.pins());
    }
    let uc = |arguments: &[&str]| success(uc_with(&CAPABILITIES, &sandbox, &namespace, arguments));
    assert!(uc(&["attach", "port0"]).contains("port0: attached"));
    assert!(!sandbox.is_clean());
    assert!(uc(&["detach", "--all"]).contains("port0: detached"));
    assert!(sandbox.is_clean(), "{:?}", sandbox.pins());

    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("undercurrent.toml");
    fs::write(&policy, POLICY).unwrap();
    let config = policy.to_str().unwrap();
    let once = uc_with(
        &CAPABILITIES,
        &sandbox,
        &namespace,
        &["agent", "--once", "--config", config],
    );
    let done = outcome(once);
    assert_eq!(done.status, Some(0), "{done:?}");
    assert!(!sandbox.is_clean());
    assert!(uc(&["detach", "--all"]).contains("port0: detached"));
    assert!(sandbox.is_clean(), "{:?}", sandbox.pins());
}

#[test]
fn live_the_services_system_calls_suffice_for_an_agent() {
    if !live_with(&[&TOOLS[..], &["systemd-analyze"]].concat()) {
        return;
    }
    let unit = package()
        .root
        .join("lib/systemd/system/undercurrent.service");
    let Some(filter) = Filter::of_unit(&fs::read_to_string(unit).unwrap()) else {
        return uc_live::skip("the numbers of this machine's system calls are not known");
    };
    let namespace = host_with_a_port();
    let sandbox = Sandbox::with_run();
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("undercurrent.toml");
    fs::write(&policy, POLICY).unwrap();
    let filtered = |program: &str, arguments: &[&str]| {
        // With root's capabilities: setpriv(1) needs a call that the filter refuses. The test above
        // checks the three capabilities.
        let mut command = sandbox.command(&namespace, program);
        command.args(arguments);
        let filter = filter.clone();
        // SAFETY: two system calls between fork and exec, which allocate nothing.
        unsafe { command.pre_exec(move || filter.install()) };
        command
    };
    // The filter is in force: this call is not among the service's.
    let refused = outcome(filtered("mount", &["-t", "tmpfs", "tmpfs", "/mnt"]));
    assert_ne!(refused.status, Some(0), "{refused:?}");
    let program = package().root.join("usr/bin/uc");
    let program = program.to_str().unwrap();
    let config = policy.to_str().unwrap();
    // As the service runs it: until a signal arrives, with its socket.
    let mut agent = filtered(program, &["agent", "--config", config])
        .spawn()
        .unwrap();
    let client = Client::at(sandbox.path("/run/undercurrent/agent.sock"));
    wait_until("the port is attached", || {
        client.status().is_ok_and(|state| state.is_in_force())
    });
    fs::write(&policy, POLICY.replace("ecn", "dctcp")).unwrap();
    wait_until("another policy is in force", || {
        client
            .status()
            .is_ok_and(|state| state.policy.generation == 2 && state.is_in_force())
    });
    let pid = nix::unistd::Pid::from_raw(agent.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert!(agent.wait().unwrap().success());
    success(filtered(program, &["detach", "--all"]));
    assert!(sandbox.is_clean(), "{:?}", sandbox.pins());
}
