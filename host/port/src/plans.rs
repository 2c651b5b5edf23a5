//! From plans to the pages that the programs read (`bpf/port/rules.h`).
//!
//! There are two maps for plans. One is in force; the next plan is written into the other, and then
//! the one entry of `plan` selects that. So a process that is killed halfway leaves the old plan
//! whole and in force. Ports are only added to the map in force, or removed after their programs
//! are detached.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapInfo};
use uc_core::rule::{RULES_MAX, Rule};
use uc_law::PortPlan;
use zerocopy::IntoBytes;

use crate::batch::keys;
use crate::bytes::{read, value_at};
use crate::error::PortError;
use crate::layout::{UC_PAGE_RULES, uc_page, uc_page_key};
use crate::programs::Programs;

const PAGE_RULES: usize = UC_PAGE_RULES as usize;

/// Interface index that stands for the plan as a whole in the keys of pages.
const WHOLE: u32 = 0;

/// The pages of all ports' plans, keyed by interface index.
type Pages = BTreeMap<u32, Vec<uc_page>>;

impl Programs {
    /// Sets a port's plan; it holds for flows that begin from now on.
    ///
    /// # Errors
    /// More rules or ports than there is room for, or what the kernel refused.
    pub fn set_plan(&self, ifindex: u32, plan: &PortPlan) -> Result<(), PortError> {
        self.add_plans(&BTreeMap::from([(ifindex, plan.clone())]))
    }

    /// Sets the plans of these ports; others keep theirs.
    ///
    /// # Errors
    /// More rules or ports than there is room for, or what the kernel refused.
    pub fn add_plans(&self, plans: &BTreeMap<u32, PortPlan>) -> Result<(), PortError> {
        let added = compile(plans)?;
        self.enter_ports(plans.keys().copied())?;
        self.set_couplings(plans)?;
        let in_force = self.plan_in_force()?;
        let had: BTreeSet<u32> = self.planned()?.into_iter().collect();
        if added.keys().any(|ifindex| had.contains(ifindex)) {
            let mut all = self.pages()?;
            let left = all.iter().filter(|(_, pages)| leaves(pages));
            let left = left.map(|(ifindex, _)| *ifindex).collect();
            all.extend(added);
            return self.put_in_force_and_return(&all, &left);
        }
        let generation = self.plan_generation()?;
        added
            .iter()
            .try_for_each(|(&ifindex, pages)| write_pages(in_force, generation, ifindex, pages))
    }

    /// Sets the plans of the whole host: no flow sees one port's new plan and another's old one. A
    /// port that isn't named has none from now on, and its new flows pass; if it drains, it goes on
    /// to drain.
    ///
    /// # Errors
    /// More rules or ports than there is room for, or what the kernel refused; the old plans are in
    /// force then.
    pub fn set_plans(&self, plans: &BTreeMap<u32, PortPlan>) -> Result<(), PortError> {
        let compiled = compile(plans)?;
        let left = self.leaving()?;
        let mut pages = match left.is_empty() {
            true => Pages::new(),
            false => self.pages()?,
        };
        pages.retain(|ifindex, _| left.contains(ifindex));
        pages.extend(compiled);
        self.enter_ports(plans.keys().copied())?;
        self.set_couplings(plans)?;
        self.put_in_force_and_return(&pages, &left)
    }

    /// Lets ports drain: they have no rules, so new flows pass, and flows under way leave translation.
    pub(crate) fn leave(&self, ports: &BTreeSet<u32>) -> Result<(), PortError> {
        let mut pages = self.pages()?;
        let mut changed = false;
        for ifindex in ports {
            let before = pages.get(ifindex).filter(|pages| !pages.is_empty());
            if before.is_some_and(|pages| leaves(pages)) {
                continue;
            }
            let first = before.map_or_else(uc_page::default, |pages| pages[0]);
            let page = uc_page {
                flows_max: first.flows_max,
                tenant: first.tenant,
                after_others: first.after_others,
                leaves: 1,
                ..uc_page::default()
            };
            pages.insert(*ifindex, vec![page]);
            changed = true;
        }
        if changed {
            self.put_in_force(&pages)?;
        }
        Ok(())
    }

    /// Returns the interface indices of the ports that drain.
    pub fn leaving(&self) -> Result<BTreeSet<u32>, PortError> {
        let in_force = self.plan_in_force()?;
        let mut leaving = BTreeSet::new();
        for ifindex in self.planned()? {
            let first = page(in_force, ifindex, 0)?;
            leaving.extend(first.filter(|page| page.leaves != 0).map(|_| ifindex));
        }
        Ok(leaving)
    }

    /// Removes a port's plan and its counter index, which another port may get then. The port's programs must be
    /// detached: otherwise flows under way would go on, and new ones pass.
    pub fn clear_plan(&self, ifindex: u32) -> Result<(), PortError> {
        let in_force = self.plan_in_force()?;
        if let Some(first) = page(in_force, ifindex, 0)? {
            let pages = usize::from(first.rules).div_ceil(PAGE_RULES).max(1);
            for number in 0..pages as u32 {
                remove(in_force, &key_of(ifindex, number))?;
            }
        }
        self.clear_coupling(ifindex)?;
        self.leave_port(ifindex)
    }

    /// Returns the generation of the host's plan in force: a counter of the host's plans. Adding plans of further
    /// ports does not count.
    pub fn plan_generation(&self) -> Result<u32, PortError> {
        let whole = page(self.plan_in_force()?, WHOLE, 0)?;
        Ok(whole.map_or(0, |whole| whole.generation))
    }

    /// Returns the plan (rules and settings) in force at a port; `None` if it has none, or drains.
    pub fn plan(&self, ifindex: u32) -> Result<Option<PortPlan>, PortError> {
        let in_force = self.plan_in_force()?;
        let first = page(in_force, ifindex, 0)?.filter(|page| page.leaves == 0);
        let Some(first) = first else {
            return Ok(None);
        };
        let mut rules = Vec::new();
        for at in 0..usize::from(first.rules).div_ceil(PAGE_RULES) {
            let Some(page) = page(in_force, ifindex, at as u32)? else {
                return Ok(None);
            };
            let on_page = (usize::from(first.rules) - at * PAGE_RULES).min(PAGE_RULES);
            rules.extend(page.rule[..on_page].iter().map(Rule::of_compiled));
        }
        Ok(Some(PortPlan {
            rules,
            coupling: self.coupling(ifindex)?,
            flows_max: first.flows_max,
            tenant: first.tenant,
            after_others: first.after_others != 0,
        }))
    }

    /// Returns the first page of a port's plan, which has the settings of the port besides rules; `None` if the port
    /// has no plan.
    pub(crate) fn first_page(&self, ifindex: u32) -> Result<Option<uc_page>, PortError> {
        page(self.plan_in_force()?, ifindex, 0)
    }

    /// Puts an empty plan in force, in maps that were just created.
    pub(crate) fn begin_plans(&self) -> Result<(), PortError> {
        write_pages(&self.maps.plan_a, 1, WHOLE, &[uc_page::default()])?;
        self.turn_to(&self.maps.plan_a)
    }

    /// Puts plans in force. If a port that drained before (`left`) drains no more, also returns its flows to
    /// translation.
    fn put_in_force_and_return(
        &self,
        pages: &Pages,
        left: &BTreeSet<u32>,
    ) -> Result<(), PortError> {
        self.put_in_force(pages)?;
        let mut left = left.iter().filter_map(|ifindex| pages.get(ifindex));
        match left.all(|pages| leaves(pages)) {
            true => Ok(()),
            false => self.collect_idle(),
        }
    }

    fn put_in_force(&self, pages: &Pages) -> Result<(), PortError> {
        let generation = self.plan_generation()?.wrapping_add(1);
        let next = self.plan_not_in_force()?;
        for key in keys(next, "delete an entry of a port's plan")? {
            remove(next, &key)?;
        }
        for (&ifindex, pages) in pages {
            write_pages(next, generation, ifindex, pages)?;
        }
        write_pages(next, generation, WHOLE, &[uc_page::default()])?;
        self.turn_to(next)
    }

    /// Selects the map of plans that is in force. When this returns, no program uses the other map any more.
    fn turn_to(&self, map: &MapHandle) -> Result<(), PortError> {
        let fd = map.as_fd().as_raw_fd().to_ne_bytes();
        self.maps
            .plan
            .update(&0u32.to_ne_bytes(), &fd, MapFlags::ANY)
            .map_err(|error| PortError::from_libbpf("put the plan in force", &error))
    }

    fn plan_in_force(&self) -> Result<&MapHandle, PortError> {
        let [in_force, _] = self.plan_maps()?;
        Ok(in_force)
    }

    fn plan_not_in_force(&self) -> Result<&MapHandle, PortError> {
        let [_, other] = self.plan_maps()?;
        Ok(other)
    }

    /// Returns the map of plans that is in force, then the other one.
    fn plan_maps(&self) -> Result<[&MapHandle; 2], PortError> {
        let (a, b) = (&self.maps.plan_a, &self.maps.plan_b);
        let is_a = is_in_force(&self.maps.plan, a)?;
        Ok(if is_a { [a, b] } else { [b, a] })
    }

    fn pages(&self) -> Result<Pages, PortError> {
        let in_force = self.plan_in_force()?;
        let mut pages = Pages::new();
        for ifindex in self.planned()? {
            let mut of_port = Vec::new();
            while let Some(page) = page(in_force, ifindex, of_port.len() as u32)? {
                of_port.push(page);
            }
            pages.insert(ifindex, of_port);
        }
        Ok(pages)
    }

    /// Returns the interface indices of the ports that have a plan in force.
    pub(crate) fn planned(&self) -> Result<Vec<u32>, PortError> {
        let keys = keys(self.plan_in_force()?, "read the plans")?;
        let keys = keys.iter().filter_map(|key| read::<uc_page_key>(key));
        let first = keys.filter(|key| key.ifindex != WHOLE && key.page == 0);
        Ok(first.map(|key| key.ifindex).collect())
    }
}

/// Returns whether `plan` selects a map of plans.
pub(crate) fn is_in_force(plan: &MapHandle, map: &MapHandle) -> Result<bool, PortError> {
    let failed = |error| PortError::from_libbpf("read which plan is in force", &error);
    let selected = value_at::<u32>(plan, 0).map_err(failed)?;
    let own = MapInfo::new(map.as_fd()).map_err(failed)?.info.id;
    Ok(selected == Some(own))
}

/// Returns whether a port with these pages drains.
fn leaves(pages: &[uc_page]) -> bool {
    pages.first().is_some_and(|page| page.leaves != 0)
}

fn key_of(ifindex: u32, page: u32) -> Vec<u8> {
    let key = uc_page_key { ifindex, page };
    key.as_bytes().to_vec()
}

fn page(map: &MapHandle, ifindex: u32, page: u32) -> Result<Option<uc_page>, PortError> {
    let value = map
        .lookup(&key_of(ifindex, page), MapFlags::ANY)
        .map_err(|error| PortError::from_libbpf(format!("read port {ifindex}'s plan"), &error))?;
    Ok(value.and_then(|value| read(&value)))
}

/// Writes the pages of a port's plan. The first page is written last: programs read the other pages only
/// if there is a first one.
fn write_pages(
    map: &MapHandle,
    generation: u32,
    ifindex: u32,
    pages: &[uc_page],
) -> Result<(), PortError> {
    for (at, page) in pages.iter().enumerate().rev() {
        let page = uc_page {
            generation,
            ..*page
        };
        map.update(&key_of(ifindex, at as u32), page.as_bytes(), MapFlags::ANY)
            .map_err(|error| {
                PortError::from_libbpf(format!("write port {ifindex}'s plan"), &error)
            })?;
    }
    Ok(())
}

fn remove(map: &MapHandle, key: &[u8]) -> Result<(), PortError> {
    match map.delete(key) {
        Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => Err(
            PortError::from_libbpf("delete an entry of a port's plan", &error),
        ),
        _ => Ok(()),
    }
}

/// Checks that the programs on a port have room for its plan.
///
/// # Errors
/// [`PortError::TooManyRules`].
pub fn check_plan(ifindex: u32, plan: &PortPlan) -> Result<(), PortError> {
    match plan.rules.len() {
        rules if rules > RULES_MAX => Err(PortError::TooManyRules { ifindex, rules }),
        _ => Ok(()),
    }
}

fn compile(plans: &BTreeMap<u32, PortPlan>) -> Result<Pages, PortError> {
    let pages = |(&ifindex, plan)| Ok((ifindex, pages_of(ifindex, plan)?));
    plans.iter().map(pages).collect()
}

/// Returns the pages of a port's plan; at least one.
fn pages_of(ifindex: u32, plan: &PortPlan) -> Result<Vec<uc_page>, PortError> {
    check_plan(ifindex, plan)?;
    let blank = uc_page {
        rules: plan.rules.len() as u16,
        strict: plan
            .rules
            .iter()
            .any(|rule| uc_core::is_strict(&rule.policy))
            .into(),
        flows_max: plan.flows_max,
        tenant: plan.tenant,
        after_others: plan.after_others.into(),
        ..uc_page::default()
    };
    let mut pages: Vec<uc_page> = plan
        .rules
        .chunks(PAGE_RULES)
        .map(|rules| {
            let mut page = blank;
            for (at, rule) in page.rule.iter_mut().zip(rules) {
                *at = rule.compile();
            }
            page
        })
        .collect();
    if pages.is_empty() {
        pages.push(blank);
    }
    Ok(pages)
}
