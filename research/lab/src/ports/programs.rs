//! The port programs on a lab's ports: one set of programs per run, one plan per port.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use uc_core::Reason;
use uc_law::{PortCoupling, PortPlan};
use uc_port::{AttachVia, PortLinks, Programs};

use super::beside::Beside;
use super::starts::LiveStarts;
use super::{Port, Ports, ShadowSample};
use crate::error::PortError;
use crate::flow::FiveTuple;

/// Places of the ports' flow table: enough for 20,000 short connections to one receiver, whose flows take two places
/// each for a minute.
const FLOWS_MAX: u32 = 1 << 18;

/// The programs of one run. Nothing is pinned, so whatever ends the process ends them.
#[derive(Default)]
pub struct LivePorts {
    programs: Option<Arc<Programs>>,
    links: Vec<PortLinks>,
    by_guest: HashMap<IpAddr, u32>,
    starts: Option<LiveStarts>,
    beside: Beside,
}

impl Ports for LivePorts {
    fn attach(&mut self, port: &Port<'_>) -> Result<(), PortError> {
        if self.programs.is_none() {
            self.programs = Some(Arc::new(Programs::load(FLOWS_MAX)?));
        }
        let programs = self
            .programs
            .as_ref()
            .ok_or("the port programs were not loaded")?;
        // Every SYN asks for ECN, as those of native peers, which run with tcp_ecn_fallback=0.
        let policy = uc_law::policy(port.law, port.profile, &port.parameters);
        let coupling = port.sharing.as_ref().map(|sharing| PortCoupling {
            weight: sharing.weight,
            priorities: sharing.priorities.clone(),
            rules: uc_law::group_policy(&sharing.rules, sharing.is_sum),
            ..match (sharing.is_sum, sharing.is_spread) {
                (true, _) => PortCoupling::share(Some(0)),
                (false, true) => PortCoupling {
                    prefix4: 0,
                    prefix6: 0,
                    ..PortCoupling::default()
                },
                (false, false) => PortCoupling::default(),
            }
        });
        let plan = PortPlan::of_all(policy, coupling);
        programs.set_plan(port.ifindex, &plan)?;
        self.links
            .push(programs.attach(port.ifindex, AttachVia::Auto)?);
        self.by_guest.insert(port.address, port.ifindex);
        if let Some(watch) = &port.start {
            let starts = match self.starts.take() {
                Some(starts) => starts,
                None => LiveStarts::begin(watch, port.grants)?,
            };
            self.starts.insert(starts).watch(port, watch)?;
        }
        self.beside.serve(port, programs)
    }

    fn shadow(&mut self, flow: &FiveTuple) -> Option<ShadowSample> {
        let ifindex = *self.by_guest.get(&flow.source.ip())?;
        let programs = self.programs.as_ref()?;
        let view = programs
            .flow(ifindex, flow.source, flow.destination)
            .ok()
            .flatten()?;
        Some(ShadowSample {
            window_bytes: uc_core::COMPILED.window_bytes(&view.state),
            alpha_q30: uc_core::COMPILED.alpha_q30(&view.state),
        })
    }

    fn counters(&mut self) -> Result<BTreeMap<String, u64>, PortError> {
        let Some(programs) = &self.programs else {
            return Ok(BTreeMap::new());
        };
        let counters = programs.counters()?;
        let refused = [Reason::QUOTA_FULL, Reason::TABLE_FULL].map(|reason| {
            let mut counted = counters.iter();
            counted.find(|it| it.0 == reason).map_or(0, |it| it.1)
        });
        if refused != [0, 0] {
            return Err(format!(
                "{} SYNs passed untranslated, since the ports' flow table of {FLOWS_MAX} places was full: a closed \
                 flow keeps its places for a minute; shorten the run, or lower `rate` or `load`",
                refused[0] + refused[1]
            )
            .into());
        }
        let of_ports = counters
            .iter()
            .map(|(reason, packets)| (format!("port_{}", reason.label()), packets));
        let of_starts = self.starts.as_mut().map(LiveStarts::counters);
        let of_starts = of_starts.transpose()?.unwrap_or_default();
        let of_beside = self.beside.counters()?;
        Ok(of_ports.chain(of_starts).chain(of_beside).collect())
    }
}
