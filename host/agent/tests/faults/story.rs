//! The story of one seed. An operator, a fleet's etcd and the host's interfaces change what is wanted, while system
//! calls fail and processes end. Then mishaps end, and the host must reach the state that is wanted.

use std::collections::BTreeSet;

use uc_client::state::CanaryStage;
use uc_faults::{End, World};
use uc_port::ProgramObject;

use super::agent::{Agent, CONFIG};
use super::policy::{Intent, NAMES, own};
use super::trials::Trials;
use super::wanted::is_as_wanted;
use crate::etcd::Heard;
use crate::event::Event;
use crate::request::Request;

/// Maximum number of turns without mishaps until the host is as the policy wants. A canary first counts packets under
/// the former policy, then tries the new one.
const TURNS_MAX: usize = 16;
/// Maximum number of attempts to start an agent while mishaps happen.
const STARTS_MAX: usize = 10;

/// The policy's key of a fleet in etcd.
#[derive(Debug)]
struct Etcd {
    revision: i64,
    is_cut_off: bool,
    /// Revision that this agent has received last; `None`: the agent is not connected.
    told: Option<i64>,
}

/// The operator, the fleet and the host.
pub struct Story<'a> {
    pub world: World,
    objects: &'a [ProgramObject],
    /// Index in `objects` of the installed version of the programs.
    installed: usize,
    agent: Option<Agent>,
    intent: Intent,
    /// Every policy so far; a host may return to a stored one.
    intents: Vec<Intent>,
    etcd: Option<Etcd>,
    /// Fraction of the ports that a policy may detach without confirmation, as text.
    at_most: &'static str,
    /// Names of ports that an operator has ever detached (held).
    held: BTreeSet<String>,
    /// Interfaces that an agent has seen under a name that not every policy wants or that was held. The agent may have
    /// begun to detach them, and continues even if their name changes.
    leaving: BTreeSet<u32>,
    /// Names that the agent has reported as held, until it ends in order or is told to release them.
    reported_held: BTreeSet<String>,
    trials: Trials,
}

impl<'a> Story<'a> {
    /// Creates a story on a host with interfaces, where nothing is attached.
    pub fn new(seed: u64, objects: &'a [ProgramObject], is_logged: bool) -> Self {
        let mut world = World::new(seed, &NAMES, is_logged);
        for name in &NAMES[..4] {
            world.add_interface((*name).to_owned());
        }
        let intent = Intent::draw(&mut world.dice);
        let etcd = world.dice.once_in(2).then_some(Etcd {
            revision: 1,
            is_cut_off: false,
            told: None,
        });
        let is_strict = world.dice.once_in(2);
        let mut story = Self {
            world,
            objects,
            installed: 0,
            agent: None,
            intents: Vec::new(),
            intent: intent.clone(),
            at_most: if is_strict { "0.5" } else { "1.0" },
            etcd,
            held: BTreeSet::new(),
            leaving: BTreeSet::new(),
            reported_held: BTreeSet::new(),
            trials: Trials::default(),
        };
        story.write(intent);
        story
    }

    /// Makes the host a member of a fleet, with its policy in etcd.
    pub fn of_fleet(mut self) -> Self {
        self.etcd.get_or_insert(Etcd {
            revision: 1,
            is_cut_off: false,
            told: None,
        });
        let intent = self.intent.clone();
        self.write(intent);
        self
    }

    /// Plays the story.
    ///
    /// # Errors
    /// What is wrong at its end.
    pub fn play(&mut self) -> Result<(), String> {
        if !self.world.dice.once_in(3) {
            self.settle()?;
        }
        for _ in 0..1 + self.world.dice.below(5) {
            self.change();
            let (most, rarity) = (self.world.dice.below(5), self.world.dice.below(10));
            self.world.arm(most as u32, rarity as u32);
            for _ in 0..1 + self.world.dice.below(3) {
                self.turn();
            }
            self.world.disarm();
            self.promise();
            self.is_kept()?;
        }
        self.settle()?;
        self.finish()
    }

    /// Applies the policy `before`; then `new`, while one chosen system call fails or ends the process; then `last`.
    /// `installed`: index of the programs that are installed from `new` on. Returns whether that call was reached.
    pub fn change_once(
        &mut self,
        [before, new, last]: [Intent; 3],
        installed: usize,
        (after, end): (u64, Option<End>),
    ) -> Result<bool, String> {
        self.at_most = "1.0";
        self.intents.clear();
        self.write(before);
        self.settle()?;
        if self.etcd.is_some() {
            // until the trial of the first is over, and something is counted to compare the next one with
            for _ in 0..6 {
                self.turn();
            }
        }
        self.open_flows();
        if installed != self.installed {
            self.installed = installed;
            self.stop();
        }
        self.write(new);
        let first = self.world.calls();
        self.world.arm_at(after, end);
        self.turn();
        let is_reached = self.world.calls() > first + after;
        self.world.disarm();
        self.write(last);
        self.settle()?;
        self.finish().map(|()| is_reached)
    }

    /// Makes a random change outside of the agent.
    fn change(&mut self) {
        match self.world.dice.below(12) {
            0..4 => {
                let intent = Intent::draw(&mut self.world.dice);
                self.write(intent);
            }
            4..6 => self.world.change_interfaces(),
            6..8 => self.end_agent(),
            8 => self.open_flows(),
            9 => {
                if let Some(etcd) = &mut self.etcd {
                    etcd.is_cut_off = !etcd.is_cut_off;
                }
            }
            10 => self.hold(),
            _ => {
                if let Some(agent) = &self.agent {
                    agent.tell(Event::Reload);
                }
            }
        }
    }

    /// Writes the policy where the agent reads it.
    fn write(&mut self, intent: Intent) {
        self.world.note(|| format!("{intent:?}"));
        let mut text = own(self.etcd.is_some(), self.at_most);
        match &mut self.etcd {
            Some(etcd) => etcd.revision += 1,
            None => text += &intent.text(),
        }
        self.world.files.save(CONFIG, &text);
        if let Some(agent) = &self.agent {
            agent.tell(Event::Files);
        }
        self.intents.push(intent.clone());
        self.intent = intent;
        self.withdraw();
    }

    /// Removes the promises for ports that not every policy wants.
    fn withdraw(&mut self) {
        let wanted = self.wanted_by_all();
        for port in self.world.promised.clone().difference(&wanted) {
            self.world.withdraw(*port);
        }
    }

    /// Returns the interfaces that every policy so far wants and that were never held.
    fn wanted_by_all(&self) -> BTreeSet<u32> {
        let each = self.world.interfaces.iter();
        let wanted = each.filter(|(index, own)| {
            self.is_wanted_by_all(&own.name) && !self.leaving.contains(index)
        });
        wanted.map(|(index, _)| *index).collect()
    }

    /// Returns whether every policy so far wants an interface with this name, and it was never held.
    fn is_wanted_by_all(&self, name: &String) -> bool {
        let mut intents = self.intents.iter();
        !self.held.contains(name) && intents.all(|intent| intent.ports.contains(name))
    }

    /// Promises the attached ports that every policy so far wants: they must stay attached.
    fn promise(&mut self) {
        let (whole, _) = self.world.bpf.attached();
        self.world.promised = self.wanted_by_all().intersection(&whole).copied().collect();
        let promised = &self.world.promised;
        self.world.flows.retain(|(port, _)| promised.contains(port));
    }

    /// Checks that no promise was broken, and that an agent still holds the ports that an agent has reported as held.
    fn is_kept(&mut self) -> Result<(), String> {
        let state = self.agent.as_ref().map(Agent::state);
        if let Some(state) = state.filter(|state| state.counts.reconciles > 0) {
            let held: BTreeSet<String> = state.withdrawn.into_iter().collect();
            let lost: Vec<_> = self.reported_held.difference(&held).collect();
            if !lost.is_empty() {
                return Err(format!("ports {lost:?} are held no more"));
            }
            self.reported_held = held;
        }
        let state = self.agent.as_ref().map(Agent::state);
        self.trials.check(&mut self.world, state.as_ref())?;
        self.world.check();
        self.world.broken.clone().map_or(Ok(()), Err)
    }

    /// Opens a few flows of attached ports.
    fn open_flows(&mut self) {
        for port in self.world.promised.clone() {
            let number = self.world.dice.draw();
            let key = self.world.bpf.open_flow(port, number);
            self.world.flows.extend(key.map(|key| (port, key)));
        }
    }

    /// Lets an operator detach (hold) one of the ports.
    fn hold(&mut self) {
        let Some(agent) = &self.agent else {
            return;
        };
        let ports = agent.state().ports;
        if let Some(port) = self.world.dice.one_of(&ports) {
            self.held.insert(port.name.clone());
            agent.wish(Request::Withdraw(vec![port.name.clone()]));
            self.withdraw();
        }
    }

    /// Ends the agent, in order, by a kill or by a power cut.
    fn end_agent(&mut self) {
        match self.world.dice.below(5) {
            0..3 => return self.stop(),
            3 => self.world.end = Some(End::Kill),
            _ => self.world.end = Some(End::PowerCut),
        }
        self.bury_the_dead();
    }

    /// Ends the agent in order.
    fn stop(&mut self) {
        if let Some(agent) = self.agent.take() {
            self.reported_held.clear();
            agent.end(&mut self.world);
            // the kernel closes what a process leaves open
            self.world.bury();
        }
    }

    /// Runs a turn of the agent; starts an agent if none runs.
    fn turn(&mut self) {
        for _ in 0..STARTS_MAX {
            if self.agent.is_some() {
                break;
            }
            self.start();
        }
        self.tell_etcd();
        let each = self.world.interfaces.iter();
        let unwanted = each.filter(|(_, own)| !self.is_wanted_by_all(&own.name));
        let unwanted: Vec<u32> = unwanted.map(|(index, _)| *index).collect();
        self.leaving.extend(unwanted);
        let Some(agent) = &mut self.agent else {
            return;
        };
        agent.turn(&mut self.world);
        self.bury_the_dead();
    }

    fn start(&mut self) {
        if self.world.dice.once_in(6) {
            self.installed = self.world.dice.below(self.objects.len() as u64) as usize;
        }
        let object = &self.objects[self.installed];
        let swap = self.world.dice.once_in(8);
        self.world.note(|| "an agent starts".to_owned());
        if let Some(etcd) = &mut self.etcd {
            etcd.told = None;
        }
        match Agent::start(&mut self.world, object, swap) {
            Ok(agent) => {
                self.agent = Some(agent);
                self.trials.begin(&mut self.world);
                self.bury_the_dead();
            }
            Err(error) => {
                self.world.note(|| error.to_string());
                self.bury_the_dead();
                // the kernel closes what a process leaves open
                self.world.bury();
            }
        }
    }

    /// Drops what is left of a process that was ended.
    fn bury_the_dead(&mut self) {
        match self.world.end {
            None => return,
            Some(End::PowerCut) => self.reported_held.clear(),
            Some(End::Kill) => {}
        }
        match self.agent.take() {
            Some(agent) => agent.bury(&mut self.world),
            None => self.world.bury(),
        }
    }

    /// Sends the agent an event of its follower of etcd.
    fn tell_etcd(&mut self) {
        let (Some(etcd), Some(agent)) = (&mut self.etcd, &self.agent) else {
            return;
        };
        if etcd.is_cut_off {
            if etcd.told.take().is_some() {
                let error = "no answer".to_owned();
                agent.tell(Event::Etcd(Heard::Lost { error }));
            }
            return;
        }
        let revision = etcd.revision;
        if etcd.told.replace(revision) != Some(revision) {
            let text = self.intent.fleet_text();
            agent.tell(Event::Etcd(Heard::Policy { text, revision }));
            agent.tell(Event::Etcd(Heard::Connected { revision }));
        }
    }

    /// Stops mishaps and runs turns until the host is as the policy wants.
    pub fn settle(&mut self) -> Result<(), String> {
        self.world.note(|| "all goes well".to_owned());
        self.world.locked_until_ns = 0;
        if let Some(etcd) = &mut self.etcd {
            etcd.is_cut_off = false;
        }
        for turn in 0..TURNS_MAX {
            self.turn();
            self.is_kept()?;
            let Some(agent) = &self.agent else {
                continue;
            };
            let state = agent.state();
            let stage = state.canary.as_ref().map(|canary| canary.stage);
            let waits = stage == Some(CanaryStage::Waits);
            if turn > 1 && state.is_in_force() && state.withdrawn.is_empty() && !waits {
                break;
            }
            // the operator gives back all ports, which an agent without a policy refuses
            self.reported_held.clear();
            agent.wish(Request::Release(Vec::new()));
            if let Some(hash) = agent.asks_to_confirm() {
                agent.wish(Request::Confirm(hash));
            }
        }
        let agent = self.agent.as_ref().ok_or("no agent starts")?;
        let state = agent.state();
        if !state.is_in_force() {
            return Err(format!("the policy is not in force: {state:#?}"));
        }
        is_as_wanted(&mut self.world, &self.intent)?;
        self.leaving.clear();
        self.promise();
        self.is_kept()
    }

    /// Ends the agent in order, and checks that the ports stay attached and no lock remains.
    fn finish(&mut self) -> Result<(), String> {
        if let Some(agent) = self.agent.take() {
            agent.end(&mut self.world);
        }
        if self.world.open_fds() > 0 || self.world.files.is_any_locked() {
            return Err(format!(
                "the agent leaves {} descriptors open",
                self.world.open_fds()
            ));
        }
        is_as_wanted(&mut self.world, &self.intent)
    }
}

impl Drop for Story<'_> {
    fn drop(&mut self) {
        if let Some(agent) = self.agent.take() {
            self.world.end = Some(End::Kill);
            agent.bury(&mut self.world);
        }
    }
}
