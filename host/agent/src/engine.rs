//! The engine: the agent's only decider. It receives events about interfaces, policies and requests, compares the
//! desired with the actual state, and acts. It runs on a thread of its own and may block; no other part of the agent
//! attaches or detaches ports.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use uc_client::state::unix_s;
use uc_client::{AgentError, AgentState};

use crate::at_ports::PortCommand;
use crate::confirm::Judge;
use crate::desired::{Wanted, desired};
use crate::etcd;
use crate::event::Event;
use crate::guests::{Guests, Known};
use crate::links::Link;
use crate::notify::Notify;
use crate::ports::Ports;
use crate::publish::Shared;
use crate::record;
use crate::request::{Reply, Request, Waiting};
use crate::rollout::{Rollout, steps};
use crate::settings::Settings;
use crate::source::{Reader, Source};
use crate::splits::Splits;
use crate::tunes::Tunes;
use crate::watches;
use crate::withdrawn::Withdrawn;

/// Interval of the comparisons that no event causes. They find, for instance, a filter that was removed by hand.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// First pause before the next comparison after a failure; each further pause is twice as long.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MOST: Duration = Duration::from_secs(60);
/// Maximum number of events that the engine receives before it acts on them.
const NEWS_MAX: usize = 1024;

/// The agent's decider: desired and actual state, and the steps between them.
pub struct Engine {
    settings: Settings,
    shared: Shared,
    notify: Notify,
    state: AgentState,
    source: Source,
    withdrawn: Withdrawn,
    links: Option<Vec<Link>>,
    guests: Known,
    rollout: Rollout,
    ports: Ports,
    watches: PortCommand<uc_watch::PortSetup>,
    splits: Splits,
    dupacks: PortCommand<uc_hold::dupack::PortSetup>,
    packets: PortCommand<uc_hold::PortSetup>,
    tunes: Tunes,
    /// Whether desired and actual state may differ.
    dirty: bool,
    ready: bool,
    /// Generation of the last policy that the log reported as in force.
    said_in_force: u64,
    look_at: Instant,
    pause: Duration,
    waiting: Waiting,
}

impl Engine {
    /// Creates an engine that has read its first policy, on a host with these interfaces.
    ///
    /// # Errors
    /// The names of held ports, or the state of the fleet's rollout, can't be read.
    pub fn new(
        settings: Settings,
        source: Source,
        links: Vec<Link>,
        shared: Shared,
    ) -> Result<Self, AgentError> {
        let state = AgentState {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started_unix_s: unix_s(),
            warnings: source
                .own()
                .etcd
                .iter()
                .filter_map(etcd::complaint)
                .collect(),
            ..AgentState::default()
        };
        let mut engine = Self {
            withdrawn: Withdrawn::read(&settings.socket)?,
            guests: Known::new(settings.places.clone()),
            rollout: Rollout::new(settings.host.clone(), &settings.state)?,
            ports: Ports::new(&settings),
            watches: watches::command(settings.watch.as_ref()),
            splits: Splits::new(),
            dupacks: PortCommand::new(),
            packets: PortCommand::new(),
            tunes: Tunes::new(),
            settings,
            shared,
            notify: Notify::from_environment(),
            state,
            source,
            links: Some(links),
            dirty: true,
            ready: false,
            said_in_force: 0,
            look_at: Instant::now(),
            pause: RETRY_FIRST,
            waiting: Waiting::default(),
        };
        for warning in &engine.state.warnings {
            tracing::warn!("{warning}");
        }
        engine.with_source(Source::begin);
        engine.roll_out();
        Ok(engine)
    }

    /// Calls `read` with the policy's source and the functions that a read needs.
    fn with_source<T>(
        &mut self,
        read: impl FnOnce(&mut Source, &mut AgentState, &Reader<'_>) -> T,
    ) -> T {
        let judge = Judge {
            links: self.links.as_deref(),
            withdrawn: &self.withdrawn,
            guests: &|| self.guests.now(),
            attached: &|| self.ports.attached(),
            at_most: self.settings.at_most_detached,
        };
        let rollout = RefCell::new(&mut self.rollout);
        let reader = Reader {
            notify: &self.notify,
            judge: &|policy, text| judge.check(policy, text),
            turn: &|valid, in_force| steps::check(&rollout.borrow(), valid, in_force),
            follow: &|next, keep| steps::follow(&rollout, &self.ports, next, keep),
        };
        read(&mut self.source, &mut self.state, &reader)
    }

    /// Handles events until [`Event::Stop`].
    pub fn run(&mut self, events: &Receiver<Event>) {
        self.publish();
        loop {
            let first = match events.recv_timeout(self.wait()) {
                Err(RecvTimeoutError::Disconnected) => Some(Event::Stop),
                first => first.ok(),
            };
            let more = events.try_iter().take(NEWS_MAX);
            if self.turn(first.into_iter().chain(more)) {
                break;
            }
        }
        self.end();
    }

    /// Processes these events. If desired and actual state may differ, then compares them and acts. Returns whether the
    /// agent must end.
    pub fn turn(&mut self, events: impl Iterator<Item = Event>) -> bool {
        let mut stop = false;
        for event in events {
            stop |= self.hear(event);
        }
        if stop {
            return true;
        }
        let looks = Instant::now() >= self.look_at;
        if looks {
            // A file behind a link into another folder changes without notification.
            self.read_file(false);
            steps::count(&mut self.rollout, &mut self.source, &self.ports);
            self.dirty |= self.with_source(Source::judge_again);
        }
        self.roll_out();
        self.dirty |= self.ports.has_drained();
        if self.dirty || looks {
            self.reconcile();
        }
        self.watches.look_after();
        self.splits.look_after();
        self.dupacks.look_after();
        self.packets.look_after();
        self.tunes.look_after();
        self.notify.alive();
        self.publish();
        false
    }

    /// Compares desired and actual state and acts once; returns whether everything desired is in force.
    pub fn once(&mut self) -> bool {
        self.watches.disable();
        self.splits.disable();
        self.dupacks.disable();
        self.packets.disable();
        self.reconcile();
        self.tunes.look_after();
        self.publish();
        self.state.is_in_force()
    }

    /// Ends the engine in order: the commands that it started end, and ports stay attached.
    pub fn end(&mut self) {
        self.notify.stopping();
        self.watches.end();
        self.splits.end();
        self.dupacks.end();
        self.packets.end();
        steps::count(&mut self.rollout, &mut self.source, &self.ports);
        if self.source.is_fleet() {
            self.rollout.store();
        }
        // An operator who restarts the agent wants it to manage all ports.
        self.withdrawn.forget();
        tracing::info!("ends; ports stay as they are");
    }

    /// Returns the longest time until the next turn.
    pub fn wait(&self) -> Duration {
        let until = self.look_at.saturating_duration_since(Instant::now());
        let alive = self.notify.interval().unwrap_or(LOOK_EVERY);
        let trial = self.rollout.wait(Instant::now());
        let processes = [
            self.watches.interval(),
            self.splits.interval(),
            self.dupacks.interval(),
            self.packets.interval(),
            self.tunes.interval(),
        ];
        let drain = self.ports.interval().unwrap_or(LOOK_EVERY);
        let first = until.min(alive).min(trial).min(drain);
        processes.into_iter().fold(first, Duration::min)
    }

    /// Processes one event; returns whether the agent must end.
    pub fn hear(&mut self, event: Event) -> bool {
        match event {
            Event::Links => {
                if let Some(links) = self.shared.take_links() {
                    self.dirty |= self.links.as_ref() != Some(&links);
                    self.links = Some(links);
                }
            }
            Event::Overrun => {
                tracing::warn!(
                    "notifications about interfaces were lost; reading all of them again"
                );
                self.state.counts.netlink_overruns += 1;
            }
            Event::Files => self.read_file(false),
            Event::Names => self.dirty |= self.source.names_guests(),
            Event::Reload => self.read_file(true),
            Event::Metrics(failure) => {
                if let Some(error) = &failure
                    && self.state.metrics_error.is_none()
                {
                    tracing::error!(error, "metrics are not served; trying again");
                }
                self.state.metrics_error = failure;
            }
            Event::Etcd(heard) => {
                let hear = |source: &mut Source, state: &mut AgentState, reader: &Reader<'_>| {
                    source.hear(heard, state, reader)
                };
                self.dirty |= self.with_source(hear);
            }
            Event::Verdicts(verdicts) => {
                if self.rollout.hear(verdicts) {
                    self.dirty |= self.with_source(Source::judge_again);
                }
            }
            Event::Request(wish, reply) => self.hear_wish(wish, reply),
            Event::Stop => return true,
        }
        false
    }

    /// Takes the next step of the fleet's rollout.
    fn roll_out(&mut self) {
        let (rollout, source) = (&mut self.rollout, &self.source);
        if let Some(former) = steps::end_trial(rollout, source, &self.ports, &self.state) {
            match self.with_source(|source, state, reader| source.go_back(former, state, reader)) {
                true => {
                    self.dirty = true;
                    self.with_source(Source::judge_again);
                }
                false => self.rollout.stay(),
            }
        }
        steps::publish(&self.rollout, &self.source, &mut self.state);
    }

    fn read_file(&mut self, asked: bool) {
        if asked {
            self.notify.reloading(monotonic_us());
        }
        self.dirty |=
            self.with_source(|source, state, reader| source.read_file(asked, state, reader));
        if asked {
            self.say_ready();
        }
    }

    fn hear_wish(&mut self, wish: Request, reply: Reply) {
        let known = |name: &String| self.state.ports.iter().any(|port| port.name == *name);
        let is_all = |wish: &Request| matches!(wish, Request::Withdraw(names) if names.is_empty());
        let names = match wish {
            Request::Reload => {
                self.read_file(true);
                let refused =
                    (!self.state.reload.accepted).then(|| self.state.reload.errors.join("; "));
                // The requester may be gone.
                let _gone = reply.send(refused.map_or(Ok(Vec::new()), Err));
                return;
            }
            Request::Confirm(hash) => {
                let confirmed =
                    self.with_source(|source, state, reader| source.confirm(&hash, state, reader));
                self.dirty |= confirmed.is_ok();
                // The requester may be gone.
                let _gone = reply.send(confirmed.map(|()| Vec::new()));
                return;
            }
            wish if self.source.policy().is_none() && !is_all(&wish) => {
                let text = "no policy is in force yet, so the agent has no ports; `uc detach --all` \
                            detaches every port";
                let _gone = reply.send(Err(text.to_owned()));
                return;
            }
            Request::Withdraw(names) | Request::Release(names) if !names.iter().all(known) => {
                let unknown = names.iter().find(|name| !known(name));
                let name = unknown.map_or("", String::as_str);
                let text =
                    format!("'{name}' is not a port of the policy; `uc status` lists its ports");
                let _gone = reply.send(Err(text));
                return;
            }
            Request::Withdraw(names) => self.withdrawn.take(names, &self.state.ports),
            Request::Release(names) => self.withdrawn.release(names, &self.state.ports),
        };
        match names {
            Ok(names) => {
                self.dirty = true;
                self.waiting.take(names, reply);
            }
            Err(error) => {
                let _gone = reply.send(Err(error.to_string()));
            }
        }
    }

    fn desired(&self) -> BTreeMap<u32, Wanted> {
        let (Some(policy), Some(links)) = (self.source.policy(), &self.links) else {
            return BTreeMap::new();
        };
        let guests = match self.source.names_guests() {
            true => self.guests.now(),
            false => Guests::default(),
        };
        desired(policy, links, &guests, &self.withdrawn)
    }

    fn reconcile(&mut self) {
        // Without a policy there is no desired state, not even that no port is attached; unless an
        // operator holds all ports.
        let nothing = self.source.policy().is_none() && !self.withdrawn.has_all();
        if nothing || self.links.is_none() {
            self.look_at = Instant::now() + LOOK_EVERY;
            if self.links.is_some() {
                self.be_ready();
            }
            return;
        }
        self.dirty = false;
        self.state.counts.reconciles += 1;
        let desired = self.desired();
        let mut failed = false;
        match self.ports.reconcile(&desired) {
            Ok(outcome) => {
                failed |= !outcome.errors.is_empty() || outcome.error.is_some();
                record::take_in(&mut self.state, &desired, &outcome, &self.withdrawn);
                if outcome.error.is_none() {
                    self.say_in_force(outcome.plan);
                }
            }
            Err(error) => {
                failed = true;
                record::take_failure(&mut self.state, &desired, &error, &self.withdrawn);
            }
        }
        self.watches.want(&desired);
        self.dupacks.want(&desired);
        self.packets.want(&desired);
        let policy = self.source.policy().filter(|_| !self.withdrawn.has_all());
        self.tunes.want(policy);
        if let (Some(policy), Some(links)) = (self.source.policy(), &self.links) {
            self.splits.want(&desired, links, &policy.split);
        }
        if !failed {
            steps::begin(&mut self.rollout, &self.source, &self.ports);
        }
        if failed {
            self.look_at = Instant::now() + self.pause;
            self.pause = (self.pause * 2).min(RETRY_MOST);
        } else {
            self.look_at = Instant::now() + LOOK_EVERY;
            self.pause = RETRY_FIRST;
        }
        self.waiting.answer(&self.state, failed);
        self.be_ready();
    }

    /// Records the generation of the programs' plan, and logs once for each policy that it is in force; `plan` is
    /// `None` if no programs are loaded.
    fn say_in_force(&mut self, plan: Option<u32>) {
        let policy = &mut self.state.policy;
        policy.plan = plan;
        if self.said_in_force == policy.generation {
            return;
        }
        self.said_in_force = policy.generation;
        let ports = self.state.ports.iter().filter(|port| port.attached).count();
        tracing::info!(
            ports,
            generation = policy.generation,
            place = policy.place,
            revision = policy.revision,
            "a policy is in force"
        );
    }

    /// Notifies systemd after the first comparison that the agent is ready, whatever the comparison's result.
    fn be_ready(&mut self) {
        if !self.ready {
            self.ready = true;
            self.say_ready();
        }
    }

    fn say_ready(&self) {
        let ports = self.state.ports.iter().filter(|port| port.attached).count();
        let of = self.state.ports.len();
        self.notify
            .ready(&format!("{ports} of {of} ports attached"));
    }

    fn publish(&mut self) {
        self.state.watches = watches::states(self.watches.state());
        self.state.split = self.splits.state();
        self.state.dupack = self.dupacks.state();
        self.state.hold = self.packets.state();
        self.state.tune = self.tunes.state();
        self.shared.publish(&self.state);
    }
}

/// Returns the time by which systemd orders reloads: CLOCK_MONOTONIC, in microseconds.
fn monotonic_us() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    now.map_or(0, |now| Duration::from(now).as_micros() as u64)
}
