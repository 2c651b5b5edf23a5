//! The Debian package: its content, its service's capabilities, and that they suffice.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use uc_client::Client;
use uc_lab::netns::Namespace;
use uc_live::seccomp::Filter;

use crate::common::agent::ip;
use crate::common::bench::wait_until;
use crate::common::confined::confined_child;
use crate::common::live_with;
use crate::common::process::Process;
use crate::common::sandbox::Sandbox;
use crate::common::uc::{UC, bench, outcome, success};

const TOOLS: [&str; 5] = ["dpkg-deb", "strip", "setpriv", "ip", "unshare"];

/// Capabilities of the service: each of them is needed.
const CAPABILITIES: [&str; 3] = ["bpf", "net_admin", "perfmon"];
/// Capability of `uc couple`'s service: it opens others' sockets.
const COUPLE: [&str; 1] = ["dac_override"];
/// Capabilities of `uc watch`'s service.
const WATCH: [&str; 4] = ["bpf", "net_admin", "net_raw", "perfmon"];

const POLICY: &str = "[agent]\nmetrics = \"none\"\n[[rule]]\nport = \"port*\"\nlaw = \"ecn\"\n";

struct Package {
    _folder: tempfile::TempDir,
    deb: PathBuf,
    root: PathBuf,
    bench: PathBuf,
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Builds the packages of this build into a folder; returns their paths, that of `uc-bench` last.
fn build(folder: &Path) -> [PathBuf; 2] {
    let mut build = Command::new(source().join("scripts/deb"));
    build
        .arg(folder)
        .env("UC_BINARY", UC)
        .env("UC_BENCH_BINARY", bench())
        // a build without optimisation is large, and how small the package is isn't asked here
        .env("DPKG_DEB_COMPRESSOR_LEVEL", "0");
    let told = success(build);
    let paths: Vec<PathBuf> = told.lines().map(PathBuf::from).collect();
    paths.try_into().expect("two packages")
}

/// The packages of this build, with the operator's content unpacked.
fn package() -> &'static Package {
    static PACKAGE: OnceLock<Package> = OnceLock::new();
    PACKAGE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let [deb, bench] = build(folder.path());
        let root = folder.path().join("root");
        let mut unpack = Command::new("dpkg-deb");
        unpack.arg("--extract").arg(&deb).arg(&root);
        success(unpack);
        Package {
            _folder: folder,
            deb,
            root,
            bench,
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
        "lib/systemd/system/undercurrent-couple.service",
        "lib/systemd/system/undercurrent-watch.service",
        "usr/share/undercurrent/virsh-migrate",
        "usr/share/undercurrent/criu-handover",
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
    let [deb, bench] = build(again.path());
    for (first, second) in [(&package().deb, deb), (&package().bench, bench)] {
        assert!(fs::read(first).unwrap() == fs::read(second).unwrap());
    }
}

#[test]
fn live_the_package_for_experiments_contains_program_manual_completions_and_experiments() {
    if !live_with(&TOOLS) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut unpack = Command::new("dpkg-deb");
    unpack
        .arg("--extract")
        .arg(&package().bench)
        .arg(folder.path());
    success(unpack);
    for file in [
        "usr/bin/uc-bench",
        "usr/share/man/man1/uc-bench.1.gz",
        "usr/share/man/man1/uc-bench-run.1.gz",
        "usr/share/bash-completion/completions/uc-bench",
        "usr/share/zsh/vendor-completions/_uc-bench",
        "usr/share/fish/vendor_completions.d/uc-bench.fish",
        "usr/share/doc/undercurrent-bench/copyright",
        "usr/share/undercurrent-bench/experiments/demo.toml",
    ] {
        assert!(folder.path().join(file).is_file(), "{file}");
    }
    let mut names = Command::new("dpkg-deb");
    names.arg("--contents").arg(&package().bench);
    let names = success(names);
    assert!(
        !names.contains("usr/bin/uc\n") && !names.contains(".service"),
        "{names}"
    );
    // dpkg refuses two packages with the same file
    let mut other = Command::new("dpkg-deb");
    other.arg("--contents").arg(&package().deb);
    let files = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.ends_with('/'));
        lines
            .map(|line| line.split_whitespace().last().unwrap().to_owned())
            .collect()
    };
    let other = files(&success(other));
    for file in files(&names) {
        assert!(!other.contains(&file), "{file} is in both packages");
    }
}

/// Returns the text of a unit.
fn unit(name: &str) -> String {
    let folder = package().root.join("lib/systemd/system");
    fs::read_to_string(folder.join(format!("{name}.service"))).unwrap()
}

#[test]
fn live_systemd_accepts_the_services_and_rates_their_exposure_low() {
    if !live_with(&[&TOOLS[..], &["systemd-analyze"]].concat()) {
        return;
    }
    // Out of 100; a service without any setting has 96.
    for (name, capabilities, exposure) in [
        ("undercurrent", &CAPABILITIES[..], 25),
        ("undercurrent-couple", &COUPLE, 15),
        ("undercurrent-watch", &WATCH, 25),
    ] {
        let text = unit(name);
        let capabilities: Vec<String> = capabilities
            .iter()
            .map(|name| format!("CAP_{}", name.to_uppercase()))
            .collect();
        let bounded = format!("\nCapabilityBoundingSet={}\n", capabilities.join(" "));
        assert!(text.contains(&bounded), "{name}");
        for line in ["StartLimitIntervalSec=0", "Restart=always", "RestartSec=1s"] {
            assert!(text.contains(&format!("\n{line}\n")), "{name}: {line}");
        }
        assert!(!text.contains("Assert"), "a failed assertion is final");
        let keeps_locks = text.contains("\nRuntimeDirectoryPreserve=yes\n");
        assert_eq!(keeps_locks, name != "undercurrent-couple");
        // It is not installed: the program is where it was unpacked.
        let program = package().root.join("usr/bin/uc");
        let text = text.replace("/usr/bin/uc", program.to_str().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let unit = folder.path().join(format!("{name}.service"));
        fs::write(&unit, text).unwrap();
        let mut verify = Command::new("systemd-analyze");
        verify.args(["verify", "--man=no"]).arg(&unit);
        success(verify);
        let mut security = Command::new("systemd-analyze");
        security
            .args(["security", "--offline=true"])
            .arg(format!("--threshold={exposure}"))
            .arg(&unit);
        success(security);
    }
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

/// Returns the arguments by which setpriv(1) leaves a command these capabilities only.
fn setpriv(capabilities: &[&str]) -> [String; 3] {
    let bounds: Vec<String> = capabilities.iter().map(|name| format!("+{name}")).collect();
    let bounds = format!("--bounding-set=-all,{}", bounds.join(","));
    [bounds.as_str(), "--no-new-privs", "--"].map(str::to_owned)
}

/// Returns the unpacked `uc` in the sandbox with these capabilities only, as a process of root that
/// can gain none.
fn uc_with(
    capabilities: &[&str],
    sandbox: &Sandbox,
    namespace: &Namespace,
    arguments: &[&str],
) -> Command {
    let mut command = sandbox.command(namespace, "setpriv");
    command
        .args(setpriv(capabilities))
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
    assert!(uc(&["detach", "--all", "--now"]).contains("port0: detached"));
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
    assert!(uc(&["detach", "--all", "--now"]).contains("port0: detached"));
    assert!(sandbox.is_clean(), "{:?}", sandbox.pins());
}

#[test]
fn live_the_services_system_calls_suffice_for_an_agent() {
    if !live_with(&[&TOOLS[..], &["systemd-analyze"]].concat()) {
        return;
    }
    let Some(filter) = Filter::of_unit(&unit("undercurrent")) else {
        return uc_live::skip("the numbers of this machine's system calls are not known");
    };
    let namespace = host_with_a_port();
    let sandbox = Sandbox::with_run();
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("undercurrent.toml");
    // Its requests are parsed by a process without rights.
    let with_metrics = POLICY.replace("none", "127.0.0.1:9464");
    fs::write(&policy, &with_metrics).unwrap();
    ip(&namespace, "link set lo up");
    let filtered = |program: &str, arguments: &[&str]| {
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
    let limits = setpriv(&CAPABILITIES);
    let limits: Vec<&str> = limits.iter().map(String::as_str).collect();
    let started = [&limits[..], &[program, "agent", "--config", config]].concat();
    let agent = Process::start(filtered("setpriv", &started));
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
    // What parses requests for metrics stays user 0, without a capability.
    confined_child(agent.id(), &["agent", "--confined", "metrics"], 0);
    agent.end();
    success(filtered(program, &["detach", "--all", "--now"]));
    assert!(sandbox.is_clean(), "{:?}", sandbox.pins());
}

/// Runs `uc` with the capabilities of a service, under its filter of system calls, and has `check` look
/// at it.
fn under_limits(
    name: &str,
    capabilities: &[&str],
    namespace: &Namespace,
    arguments: &[&str],
    check: impl Fn(&mut Process),
) {
    // setpriv(1) needs one call more than the service.
    let text = format!("{}\nSystemCallFilter=capset\n", unit(name));
    let Some(filter) = Filter::of_unit(&text) else {
        return uc_live::skip("the numbers of this machine's system calls are not known");
    };
    let sandbox = Sandbox::with_run();
    let mut command = uc_with(capabilities, &sandbox, namespace, arguments);
    // SAFETY: two system calls between fork and exec, which allocate nothing.
    unsafe { command.pre_exec(move || filter.install()) };
    let mut process = Process::start(command);
    check(&mut process);
    process.end();
}

#[test]
fn live_watching_and_coupling_work_within_their_services_limits() {
    if !live_with(&[&TOOLS[..], &["systemd-analyze"]].concat()) {
        return;
    }
    let namespace = host_with_a_port();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let mut key = Command::new(package().root.join("usr/bin/uc"));
    key.args(["watch", "--make-key", &path("key")]);
    success(key);
    let watch = [
        "watch",
        "port0",
        "--peer",
        "10.0.0.0/8",
        "--key-file",
        &path("key"),
    ];
    under_limits(
        "undercurrent-watch",
        &WATCH,
        &namespace,
        &watch,
        |process| {
            process.says("port0: watched");
        },
    );

    // A socket of another user, as QEMU's is, in a folder that is closed to others.
    let qemu = folder.path().join("qemu");
    fs::create_dir(&qemu).unwrap();
    let listener = UnixListener::bind(qemu.join("red")).unwrap();
    listener.set_nonblocking(true).unwrap();
    for owned in [qemu.join("red"), qemu.clone()] {
        fs::set_permissions(&owned, fs::Permissions::from_mode(0o700)).unwrap();
        chown(&owned, Some(12_345), Some(12_345)).unwrap();
    }
    let guest = format!("red={}", qemu.join("red").display());
    let couple = ["couple", "--guest", &guest];
    under_limits(
        "undercurrent-couple",
        &COUPLE,
        &namespace,
        &couple,
        |process| {
            confined_child(process.id(), &["couple", "--confined"], 0);
            let mut red = None;
            wait_until("red is connected to", || {
                red = listener.accept().ok();
                red.is_some()
            });
        },
    );
}
