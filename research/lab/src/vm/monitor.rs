//! QEMU's monitor: the few commands of its protocol (QMP) that VMs need. Read first:
//! docs/interop/qmp-spec.rst of QEMU.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::vm::channel::Channel;
use crate::vm::error::VmError;

/// Time limit for a command.
const PATIENCE: Duration = Duration::from_secs(60);
/// Status of a migration whose VM is paused, before the rest of its state is written.
const PAUSED: &str = "pre-switchover";

/// A monitor whose greeting has been answered.
#[derive(Debug)]
pub(crate) struct Monitor<'a> {
    channel: &'a mut Channel,
    node: &'a str,
}

impl<'a> Monitor<'a> {
    /// Answers the greeting, once for each VM.
    pub fn open(channel: &'a mut Channel, node: &'a str) -> Result<Self, VmError> {
        let mut monitor = Self { channel, node };
        monitor.execute("qmp_capabilities", json!({}))?;
        Ok(monitor)
    }

    /// Writes the VM's memory to the path and waits for the end. Afterwards the VM is stopped; a VM restored from the
    /// file runs at once, as this one was running.
    pub fn save(&mut self, path: &str) -> Result<(), VmError> {
        self.begin_migration(&format!("exec:cat > {path}"))?;
        self.wait_migration("completed")
    }

    /// Writes the VM's memory to a QEMU process that waits at the socket, while the VM runs, and pauses the
    /// VM; then calls `at_switch_over`, lets the other process go on, and waits for the end.
    pub fn hand_over(
        &mut self,
        socket: &Path,
        at_switch_over: impl FnOnce(),
    ) -> Result<(), VmError> {
        let pause = json!([{ "capability": "pause-before-switchover", "state": true }]);
        let pause = json!({ "capabilities": pause });
        self.execute("migrate-set-capabilities", pause)?;
        self.begin_migration(&format!("unix:{}", socket.display()))?;
        self.wait_migration(PAUSED)?;
        at_switch_over();
        self.execute("migrate-continue", json!({ "state": PAUSED }))?;
        self.wait_migration("completed")
    }

    fn begin_migration(&mut self, uri: &str) -> Result<(), VmError> {
        // By default QEMU writes with the speed of a slow network.
        let speed = json!({ "max-bandwidth": 1_u64 << 40 });
        self.execute("migrate-set-parameters", speed)?;
        self.execute("migrate", json!({ "uri": uri }))?;
        Ok(())
    }

    fn wait_migration(&mut self, status: &str) -> Result<(), VmError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let state = self.execute("query-migrate", json!({}))?;
            match state["status"].as_str() {
                Some(now) if now == status => return Ok(()),
                Some("failed" | "cancelled") => {
                    return Err(self.refused("migrate", state.to_string()));
                }
                _ if Instant::now() > deadline => {
                    return Err(self.refused("migrate", "the migration did not end in time".into()));
                }
                _ => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Executes a command, and returns its result. Events that come before the answer are skipped.
    fn execute(&mut self, command: &'static str, arguments: Value) -> Result<Value, VmError> {
        let line = json!({ "execute": command, "arguments": arguments }).to_string();
        let sent = self.channel.write_line(&line);
        sent.map_err(|error| self.refused(command, error.to_string()))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let object = self.object(deadline);
            let mut object = object.map_err(|error| self.refused(command, error.to_string()))?;
            if let Some(answer) = object.get_mut("return") {
                return Ok(answer.take());
            }
            if let Some(error) = object.get("error") {
                return Err(self.refused(command, error.to_string()));
            }
        }
    }

    fn object(&mut self, deadline: Instant) -> io::Result<Value> {
        Ok(serde_json::from_slice(&self.channel.line(deadline)?)?)
    }

    fn refused(&self, command: &'static str, detail: String) -> VmError {
        VmError::Refused(format!(
            "{node}: QEMU refused `{command}`: {detail}",
            node = self.node
        ))
    }
}
