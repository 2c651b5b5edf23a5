//! The examples for clusters: a Slurm array on a real Slurm of this machine, and a Kubernetes job's
//! manifest, whose command is run for each index. Both give the bytes of one `uc-bench run`.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::unistd::{User, geteuid, gethostname};
use serde_json::Value;
use tempfile::TempDir;
use uc_batch::outputs::FILES;
use uc_live::command::{Outcome, folder_with, outcome, success};
use uc_live::have;

use crate::common::{TINY, UC_BENCH};

const AXIS: &str = "[[sweep]]\nname = \"guests\"\n\
     set = { \"case.only.guests.virtual.count\" = [1, 2, 3, 4, 5] }\n";

fn experiment() -> TempDir {
    folder_with(&format!("{TINY}{AXIS}"))
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../examples")
        .join(name)
}

/// Returns PATH with the folder of `uc` before all others.
fn path() -> String {
    let folder = Path::new(UC_BENCH).parent().unwrap();
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

/// Merges the shards in `parts` and compares the files with those of one `uc-bench run`.
fn assert_same_when_merged(folder: &TempDir, parts: &Path, count: usize) {
    let uc = |arguments: &[&str]| {
        let mut command = Command::new(UC_BENCH);
        command.current_dir(folder.path()).args(arguments);
        command
    };
    success(uc(&["run", "t.toml", "--on", "sim", "--out", "whole"]));
    let shards = (0..count).map(|index| parts.join(format!("shard-{index}")));
    let mut merge = uc(&["merge", "--out", "merged"]);
    merge.args(shards);
    success(merge);
    let read = |out: &str, name: &str| fs::read(folder.path().join(out).join(name)).unwrap();
    for name in FILES.into_iter().filter(|name| *name != "report.html") {
        assert!(
            read("whole", name) == read("merged", name),
            "{name} differs"
        );
    }
}

#[test]
fn kubernetes_job_has_a_shard_for_each_index_and_their_merging_is_the_whole() {
    let manifest = fs::File::open(example("sweep-job.yaml")).unwrap();
    let program = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))";
    let mut python = Command::new("python3");
    let read = python
        .args(["-c", program])
        .stdin(manifest)
        .output()
        .unwrap();
    let read: Outcome = read.into();
    assert_eq!(read.status, Some(0), "needs python3-yaml: {read:?}");
    let objects: Vec<Value> = serde_json::from_str(&read.stdout).unwrap();
    let [claim, job] = &objects[..] else {
        panic!("a claim and a job: {objects:?}");
    };
    assert_eq!(
        (
            &job["apiVersion"],
            &job["kind"],
            &job["spec"]["completionMode"]
        ),
        (&"batch/v1".into(), &"Job".into(), &"Indexed".into())
    );
    let pod = &job["spec"]["template"]["spec"];
    let volumes = pod["volumes"].as_array().unwrap();
    let volume = &volumes[1]["persistentVolumeClaim"]["claimName"];
    assert_eq!(*volume, claim["metadata"]["name"]);
    let container = &pod["containers"][0];
    for (mount, volume) in container["volumeMounts"]
        .as_array()
        .unwrap()
        .iter()
        .zip(volumes)
    {
        assert_eq!(mount["name"], volume["name"]);
    }
    let pairs = container["env"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut environment: HashMap<String, String> = pairs
        .map(|pair| (text(&pair["name"]), text(&pair["value"])))
        .collect();
    let count = job["spec"]["completions"].as_u64().unwrap();
    assert_eq!(environment["SHARDS"], count.to_string());
    assert!(
        environment["FILE"]
            .starts_with(container["volumeMounts"][0]["mountPath"].as_str().unwrap())
    );
    assert_eq!(
        environment["RESULTS"],
        container["volumeMounts"][1]["mountPath"]
    );

    let folder = experiment();
    let results = folder.path().join("results");
    fs::create_dir(&results).unwrap();
    environment.insert(
        "FILE".into(),
        folder.path().join("t.toml").display().to_string(),
    );
    environment.insert("RESULTS".into(), results.display().to_string());
    let words = container["command"].as_array().unwrap().iter();
    let words: Vec<String> = words
        .chain(container["args"].as_array().unwrap())
        .map(text)
        .collect();
    for index in 0..count {
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .envs(&environment)
            .env("PATH", path());
        success({
            command.env("JOB_COMPLETION_INDEX", index.to_string());
            command
        });
    }
    assert_same_when_merged(&folder, &results, count as usize);
}

/// The daemons of Slurm, for this machine alone and without the system's configuration.
struct Slurm {
    folder: TempDir,
    daemons: Vec<Child>,
}

impl Slurm {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().display();
        let host = gethostname().unwrap().into_string().unwrap();
        let host = host.split('.').next().unwrap().to_owned();
        let user = User::from_uid(geteuid()).unwrap().unwrap().name;
        let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (one, other) = (free(), free());
        let port = |listener: &std::net::TcpListener| listener.local_addr().unwrap().port();
        let text = format!(
            "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\nSlurmdPort={}\n\
             AuthType=auth/none\nCredType=cred/none\nSlurmUser={user}\nSlurmdUser={user}\n\
             StateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool\n\
             SlurmctldPidFile={at}/slurmctld.pid\nSlurmdPidFile={at}/slurmd.pid\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\n\
             MpiDefault=none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n\
             NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN\n\
             PartitionName=all Nodes={host} Default=YES State=UP\n",
            port(&one),
            port(&other),
        );
        fs::write(folder.path().join("slurm.conf"), text).unwrap();
        for name in ["state", "spool"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        drop((one, other));
        let mut slurm = Self {
            folder,
            daemons: Vec::new(),
        };
        for program in ["slurmctld", "slurmd"] {
            let log = fs::File::create(slurm.folder.path().join(program)).unwrap();
            let mut command = slurm.command(program);
            let command = command.arg("-D").stdout(Stdio::null()).stderr(log);
            slurm.daemons.push(command.spawn().unwrap());
        }
        slurm.wait();
        slurm
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let configuration = self.folder.path().join("slurm.conf");
        command.env("SLURM_CONF", configuration);
        command.env("PATH", format!("{}:/usr/sbin:/sbin", path()));
        command
    }

    /// Waits until the node takes jobs.
    fn wait(&self) {
        let start = Instant::now();
        loop {
            let mut asked = self.command("sinfo");
            asked.args(["--noheader", "--format=%T"]);
            let answer = outcome(asked);
            if answer.stdout.trim() == "idle" {
                return;
            }
            let log = || fs::read_to_string(self.folder.path().join("slurmd"));
            let patience = Duration::from_secs(60);
            assert!(start.elapsed() < patience, "{answer:?} {:?}", log());
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ended = daemon.kill();
            let _ended = daemon.wait();
        }
    }
}

#[test]
fn live_slurm_array_makes_the_shards_and_their_merging_is_the_whole() {
    if !have(&["slurmctld", "slurmd", "sbatch", "sinfo"]) {
        return;
    }
    let slurm = Slurm::start();
    let folder = experiment();
    let mut submit = slurm.command("sbatch");
    submit
        .current_dir(folder.path())
        .args(["--wait", "--array=0-2"]);
    let submitted = outcome({
        submit
            .arg(example("sweep.slurm"))
            .args(["t.toml", "--seed", "1"]);
        submit
    });
    let said = || {
        let logs = fs::read_dir(folder.path()).unwrap().flatten();
        let texts = logs.map(|entry| fs::read_to_string(entry.path()).unwrap_or_default());
        texts.collect::<Vec<String>>().join("\n")
    };
    assert_eq!(submitted.status, Some(0), "{submitted:?} {}", said());
    assert_same_when_merged(&folder, &folder.path().join("out/t-tiny"), 3);
}
