//! `uc agent` in a network namespace, with its own BPF file system and /run/undercurrent.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use uc_client::{AgentState, Client};
use uc_lab::netns::Namespace;

use super::sandbox::Sandbox;

/// Timeout for anything that a test waits for; long, because the machine may be loaded.
const PATIENCE: Duration = Duration::from_secs(60);

/// A policy in which ports v* belong to tenant acme.
pub const POLICY: &str = "[[tenant]]\nname = \"acme\"\nports = [\"v*\"]\n\n[[rule]]\ntenant = \"acme\"\n\
     law = \"ecn\"\n";

/// An installation: pins, socket, policy file.
pub struct Installation {
    /// The sandbox with its pins.
    pub sandbox: Sandbox,
    /// The namespace with the host's ports.
    pub namespace: Namespace,
    folder: tempfile::TempDir,
    log: PathBuf,
}

/// The table `[agent]` of tests. It turns metrics off, because their address would be the same in all namespaces.
const OWN: &str = "[agent]\nmetrics = \"none\"\n";

impl Installation {
    /// Creates an installation with this policy; `more` is appended to the table `[agent]`.
    pub fn new(namespace: &Namespace, policy: &str, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let installation = Self {
            sandbox: Sandbox::with_run(),
            namespace: namespace.clone(),
            log: folder.path().join("log"),
            folder,
        };
        installation.write(&format!("{OWN}{more}\n{policy}"));
        installation
    }

    /// Returns the path of the policy file.
    pub fn config(&self) -> PathBuf {
        self.folder.path().join("undercurrent.toml")
    }

    /// Returns a folder for other files of a test.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Replaces the policy file as an editor does.
    pub fn write(&self, text: &str) {
        let beside = self.folder.path().join(".undercurrent.toml.new");
        fs::write(&beside, text).unwrap();
        fs::set_permissions(&beside, fs::Permissions::from_mode(0o644)).unwrap();
        fs::rename(&beside, self.config()).unwrap();
    }

    /// Writes the policy file: the usual `[agent]` table and then `policy`.
    pub fn write_policy(&self, policy: &str) {
        self.write(&format!("{OWN}\n{policy}"));
    }

    /// Returns a `uc` command that runs in the sandbox and in the hosts' namespace.
    pub fn uc(&self, arguments: &[&str]) -> Command {
        self.sandbox.uc(&self.namespace, arguments)
    }

    /// Returns a command that runs `uc agent` with the arguments that every test needs, then these.
    pub fn agent(&self, arguments: &[&str]) -> Command {
        let config = self.config();
        let mut command = self.uc(&["agent", "--config", config.to_str().unwrap()]);
        command.args(arguments);
        command
    }

    /// Starts an agent without waiting for anything.
    pub fn start(&self, arguments: &[&str]) -> Agent {
        self.start_with(arguments, &[])
    }

    /// Starts an agent with these arguments and these additional environment variables.
    pub fn start_with(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Agent {
        let mut command = self.agent(arguments);
        command.envs(environment.iter().copied());
        self.spawn(command)
    }

    /// Starts an agent of another build of `uc`.
    pub fn start_build(&self, uc: &str) -> Agent {
        let mut command = self.sandbox.command(&self.namespace, uc);
        command.args(["agent", "--config"]).arg(self.config());
        self.spawn(command)
    }

    fn spawn(&self, mut command: Command) -> Agent {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(&self.log)
            .unwrap();
        let child = command.stderr(log).stdin(Stdio::null()).spawn().unwrap();
        Agent { child }
    }

    /// Returns a client of the agent's socket.
    pub fn client(&self) -> Client {
        Client::at(self.sandbox.path("/run/undercurrent/agent.sock"))
    }

    /// Waits until the agent's state meets a condition.
    pub fn wait(&self, what: &str, holds: impl Fn(&AgentState) -> bool) -> AgentState {
        self.wait_within(PATIENCE, what, holds)
    }

    /// Waits until the agent's state meets the condition `holds`, at most for the time `patience`; panics with `what`
    /// otherwise.
    pub fn wait_within(
        &self,
        patience: Duration,
        what: &str,
        holds: impl Fn(&AgentState) -> bool,
    ) -> AgentState {
        let start = Instant::now();
        loop {
            let state = self.client().status();
            if let Ok(state) = &state
                && holds(state)
            {
                return state.clone();
            }
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            assert!(start.elapsed() < patience, "{what}: {state:#?}\n{log}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until these ports, and no others, are attached as the policy wants.
    pub fn wait_for(&self, ports: &[&str]) -> AgentState {
        self.wait(&format!("{ports:?} are attached"), |state| {
            let attached = state.ports.iter().filter(|port| port.attached);
            let mut names: Vec<&str> = attached.map(|port| port.name.as_str()).collect();
            names.sort_unstable();
            names == ports && state.error.is_none()
        })
    }

    /// Returns everything that the installation's agents have logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// A running agent.
pub struct Agent {
    child: Child,
}

impl Agent {
    /// Returns the agent's process id; nsenter has replaced itself by the agent.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Sends the agent a signal.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Kills the agent with SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks the agent to end, and waits for it.
    pub fn end(mut self) {
        self.signal(Signal::SIGTERM);
        assert!(self.child.wait().unwrap().success());
    }

    /// Waits until the agent ends by itself; returns its exit status, `None` after a signal.
    pub fn status(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Leaves no process if a test failed meanwhile; otherwise it has ended.
        let _ended_already = self.child.kill();
        let _ended_already = self.child.wait();
    }
}

/// Creates an installation with this policy, in a namespace of its own.
pub fn installation(policy: &str) -> (Namespace, Installation) {
    let namespace = Namespace::new("the tests").unwrap();
    let installation = Installation::new(&namespace, policy, "");
    (namespace, installation)
}

/// Creates the pair of interfaces NAME and xNAME.
pub fn pair(namespace: &Namespace, name: &str) {
    ip(
        namespace,
        &format!("link add {name} type veth peer name x{name}"),
    );
}

/// Runs `ip` in the namespace; `arguments` are separated by single spaces.
pub fn ip(namespace: &Namespace, arguments: &str) {
    let mut command = namespace.command("ip");
    command.args(arguments.split(' '));
    super::uc::success(command);
}
