//! Runs an agent: its threads, sources of events and servers.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use nix::fcntl::Flock;
use nix::sys::signal::{SigSet, Signal};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use uc_client::{AgentError, lock};
use uc_core::Law;
use uc_port::{ProgramObject, Store};

use crate::control;
use crate::engine::Engine;
use crate::etcd::{self, Heard};
use crate::event::Event;
use crate::file::Folder;
use crate::guests::Places;
use crate::handover;
use crate::links::{self, News};
use crate::log;
use crate::metrics;
use crate::metrics::Reading;
use crate::publish::Shared;
use crate::settings::{Options, Settings};
use crate::source::Source;
use crate::verdicts;

/// Pause before a failed source of events is opened again.
const AGAIN: Duration = Duration::from_secs(1);

/// Reads the programs that `uc law build` wrote into a folder. Refuses a file that users other than root may write.
fn laws_of(folder: &Path) -> Result<ProgramObject, AgentError> {
    let path = folder.join(ProgramObject::FILE_NAME);
    let bytes = uc_files::read_bytes(&path, ProgramObject::BYTES_MAX)?;
    Ok(ProgramObject::parse(&path, bytes)?)
}

/// Makes the agent's folders, and takes the locks of its socket and of the store, which one agent holds
/// at a time.
///
/// # Errors
/// Another agent holds a lock, there is no BPF file system, or the system refuses a folder or a file.
pub fn claim(own: &uc_policy::Agent) -> Result<[Flock<File>; 2], AgentError> {
    if let Some(folder) = own.socket.parent() {
        uc_files::make_folder(folder)?;
    }
    if own.etcd.is_some() {
        uc_files::make_folder(&own.state)?;
    }
    let only = lock::only_one(&own.socket)?;
    uc_files::make_folder(Path::new(uc_files::LOCKS_FOLDER))?;
    Store::default().check_bpffs()?;
    let mut alone = lock::only_one(&lock::of_store(Store::default().folder())?)?;
    lock::say_socket(&mut alone, None)?;
    Ok([only, alone])
}

/// Runs an agent until it is told to end. Returns false if something desired is not in force, which happens only with
/// [`Options::once`].
pub fn run(options: &Options) -> Result<bool, AgentError> {
    // before the policy is read, which may name their laws
    let object = match &options.laws {
        Some(folder) => laws_of(folder)?,
        None => ProgramObject::default(),
    };
    Law::tell_outside(object.laws());
    let source = Source::open(options.config.clone())?;
    let own = source.own().clone();
    log::begin(options.log.as_deref().unwrap_or(&own.log), own.log_format)?;
    let [_only, mut alone] = claim(&own)?;
    keep_from_dying_of_others_ends()?;
    let settings = Settings::new(&own, options, object);
    let etcd = own.etcd.clone();
    let (events, heard) = mpsc::channel();
    let shared = Shared::new(events);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| AgentError::io("start the runtime of the agent's threads", error))?;
    let links = runtime.block_on(links::all())?;
    let mut engine = Engine::new(settings, source, links, shared.clone())?;
    if options.once {
        if let Some(etcd) = &etcd {
            engine.hear_once(runtime.block_on(etcd::read(etcd)));
        }
        return Ok(engine.once());
    }
    // In this order, so that any client that finds the socket gets an answer.
    let listener = runtime.block_on(async { control::listen(&own.socket) })?;
    lock::say_socket(&mut alone, Some(&own.socket))?;
    let signals = runtime.block_on(async { Signals::new() })?;
    let (ended, ends) = oneshot::channel::<()>();
    follow_files(&options.config, &shared)?;
    // Finds what was written after the file was read and before it was watched.
    shared.tell(Event::Files);
    let others = std::thread::Builder::new()
        .name("agent-io".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                let key_file = own.watch.map(|watch| watch.key_file);
                let router = control::router(shared.clone()).merge(handover::router(key_file));
                tokio::spawn(async move { axum::serve(listener, router).await });
                if let Some(address) = own.metrics {
                    tokio::spawn(serve_metrics(address, shared.clone()));
                }
                tokio::spawn(follow_links(shared.clone()));
                if let Some(etcd) = etcd {
                    let connection = etcd::Connection::default();
                    let carried = verdicts::carry(etcd.clone(), connection.clone(), shared.clone());
                    tokio::spawn(carried);
                    let shared = shared.clone();
                    tokio::spawn(etcd::follow(etcd, connection, move |heard| {
                        shared.tell(Event::Etcd(heard))
                    }));
                }
                tokio::spawn(signals.follow(shared));
                // An error only means that the engine has ended.
                let _ended = ends.await;
            });
        })
        .map_err(|error| AgentError::io("start the thread of the agent's sources", error))?;
    engine.run(&heard);
    drop(ended);
    // The thread has no work left; a panic of it no longer matters.
    let _joined = others.join();
    lock::say_socket(&mut alone, None)?;
    // The next agent removes a socket that is left.
    let _missing = std::fs::remove_file(&own.socket);
    Ok(true)
}

/// Blocks SIGPIPE, so that a peer that closes its connection during an answer causes a write error and no signal.
/// Threads started afterwards inherit this; other processes don't.
fn keep_from_dying_of_others_ends() -> Result<(), AgentError> {
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGPIPE);
    mask.thread_block()
        .map_err(|errno| AgentError::io("block SIGPIPE", errno))
}

/// Serves metrics as soon as their address is free.
async fn serve_metrics(address: SocketAddr, shared: Shared) {
    let ear = shared.clone();
    let tell = move |failure| {
        ear.tell(Event::Metrics(failure));
    };
    let listener = metrics::listen(address, &tell).await;
    let listener = match listener.into_std() {
        Ok(listener) => listener,
        Err(error) => return tell(Some(format!("metrics are not served: {error}"))),
    };
    let read = move || Reading::of(shared.state(), &Store::default());
    // A thread, because it waits for a process, and reads maps. It ends with the agent.
    let told = tell.clone();
    let serve = move || metrics::serve_apart(&listener.into(), read, told);
    let spawned = std::thread::Builder::new()
        .name("agent-metrics".to_owned())
        .spawn(serve);
    if let Err(error) = spawned {
        tell(Some(format!("metrics are not served: no thread ({error})")));
    }
}

/// Watches the folder of the configuration file, and those folders of guests' names that exist.
fn follow_files(config: &Path, shared: &Shared) -> Result<(), AgentError> {
    let ear = shared.clone();
    Folder::of(config)?.follow(move || ear.tell(Event::Files))?;
    let places = Places::default();
    for folder in [&places.libvirt, &places.cni]
        .into_iter()
        .filter(|folder| folder.is_dir())
    {
        let ear = shared.clone();
        Folder::all(folder)?.follow(move || ear.tell(Event::Names))?;
    }
    Ok(())
}

async fn follow_links(shared: Shared) {
    loop {
        let ear = shared.clone();
        let followed = links::follow(|news| match news {
            News::Links(links) => ear.tell_links(links),
            News::Overrun => ear.tell(Event::Overrun),
        });
        let Err(error) = followed.await else {
            return;
        };
        tracing::warn!(%error, "interfaces can't be followed; retrying");
        tokio::time::sleep(AGAIN).await;
    }
}

/// The streams of the signals that an agent handles.
struct Signals {
    end: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    reload: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> Result<Self, AgentError> {
        let listen =
            |kind| signal(kind).map_err(|error| AgentError::io("listen for signals", error));
        Ok(Self {
            end: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            reload: listen(SignalKind::hangup())?,
        })
    }

    async fn follow(mut self, shared: Shared) {
        loop {
            let event = tokio::select! {
                _ = self.end.recv() => Event::Stop,
                _ = self.interrupt.recv() => Event::Stop,
                _ = self.reload.recv() => Event::Reload,
            };
            if !shared.tell(event) {
                return;
            }
        }
    }
}

impl Engine {
    /// Processes the answer to a single read of etcd.
    fn hear_once(&mut self, answer: Result<Heard, String>) {
        let heard = answer.unwrap_or_else(|error| Heard::Lost { error });
        self.hear(Event::Etcd(heard));
    }
}
