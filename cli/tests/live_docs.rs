//! Runs the commands of the documents that act on a host's ports, page by page and in their order, as
//! an operator types them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use uc_lab::netns::Namespace;

use crate::common::by_hand::TOOLS;
use crate::common::live_with;
use crate::common::pages::{Command, blocks, commands, documents, read};
use crate::common::sandbox::Sandbox;
use crate::common::uc::{outcome, success};

/// The ports that the pages name.
const PORTS: [&str; 12] = [
    "tap0", "tap1", "tap2", "tap3", "tap4", "tap5", "tap6", "tap7", "vnet0", "vnet1", "vnet2",
    "vnet3",
];
const POLICY: &str = "/etc/undercurrent/undercurrent.toml";

/// Creates a host with the ports.
fn host() -> Namespace {
    let namespace = Namespace::new("the tests").unwrap();
    for port in PORTS {
        let mut add = namespace.command("ip");
        let peer = format!("{port}-guest");
        add.args(["link", "add", port, "type", "veth", "peer", "name", &peer]);
        success(add);
    }
    namespace
}

/// Returns the page's policy, or the package's.
fn policy(page: &str) -> String {
    let mut policies = blocks(page, "toml").into_iter();
    let own = policies.find(|block| block.contains("[[tenant]]"));
    own.unwrap_or_else(|| read("packaging/undercurrent.toml"))
}

/// Gives a sandbox a copy of /etc of its own, with the page's policy.
fn make_etc(sandbox: &Sandbox, namespace: &Namespace, page: &str) {
    let mut copy = sandbox.command(namespace, "sh");
    copy.args([
        "-ec",
        "mount -t tmpfs -o mode=755 tmpfs /mnt; cp -a /etc/. /mnt; mount --move /mnt /etc; \
         mkdir -p /etc/undercurrent",
    ]);
    success(copy);
    let path = sandbox.path(POLICY);
    fs::write(&path, policy(page)).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
}

/// Runs a command of a page, with `uc` as the one that is tested. Returns what went wrong.
fn run(sandbox: &Sandbox, namespace: &Namespace, command: &Command) -> Option<String> {
    let Command {
        place, text, words, ..
    } = command;
    let is_agent = words[1] == "agent";
    // it would stay in the foreground
    let once = if is_agent { "--once" } else { "" };
    let uc = Path::new(env!("CARGO_BIN_EXE_uc")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut shell = sandbox.command(namespace, "sh");
    shell
        .env("PATH", format!("{}:{path}", uc.display()))
        .args(["-ec", &format!("cd /etc/undercurrent; {text} {once}")]);
    let told = outcome(shell);
    // no flow is there, and on some pages no port any more: that is an answer
    let is_question = ["explain", "flows", "status"].contains(&words[1].as_str());
    let is_answer = told.status == Some(0) || is_question && told.status == Some(1);
    let is_quiet = told.stderr.is_empty() || is_agent;
    (!is_answer || !is_quiet).then(|| format!("{place}: {text}: {told:?}"))
}

#[test]
fn live_commands_of_every_page_do_what_they_ask_on_a_host_with_their_ports() {
    if !live_with(&TOOLS) || !live_with(&["ip", "cp"]) {
        return;
    }
    let (mut count, mut failed) = (0, Vec::new());
    for page in documents() {
        let mut commands = commands(&page);
        commands.retain(Command::is_for_a_host);
        if commands.is_empty() {
            continue;
        }
        let (sandbox, namespace) = (Sandbox::with_run(), host());
        make_etc(&sandbox, &namespace, &page);
        let run = |command| run(&sandbox, &namespace, command);
        failed.extend(commands.iter().filter_map(run));
        println!("{page}: {} commands", commands.len());
        count += commands.len();
    }
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(
        count >= 40,
        "only {count} commands: has their form changed?"
    );
}
