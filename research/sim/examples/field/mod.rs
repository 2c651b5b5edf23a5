//! The dumbbell on which packet simulators are compared: N pairs of hosts, access links of 10 us, a
//! trunk of 30 us, a round trip of 100 us, a buffer of 250 packets, marking from 50 on.
#![allow(dead_code, reason = "every program that shares it uses its own part")]

use std::sync::Arc;

use uc_net::random::Stream;
use uc_net::{BitsPerSec, Dumbbell, Length, LinkId, LinkSpec, Nanos, QueueSpec};
use uc_sim::{Application, FlowPlan, Scenario};
use uc_tcp::{Config, CongestionControl, SpuriousTimeout};

pub const BUFFER_PACKETS: u64 = 250;
/// Marking threshold: a packet that finds 50 or more is marked, as in ns-2 and ns-3.
pub const MARK_PACKETS: u64 = 49;

/// The transports that all compared simulators have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    NewReno,
    /// NewReno whose window grows by the number of ACKs, not of acknowledged bytes, as in ns-2 and htsim.
    NewRenoByAcks,
    Dctcp,
}

impl Transport {
    pub const ALL: [Transport; 3] = [
        Transport::NewReno,
        Transport::NewRenoByAcks,
        Transport::Dctcp,
    ];
}

/// One configuration of the dumbbell.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub transport: Transport,
    pub pairs: u32,
    pub rate: BitsPerSec,
    pub rto_min: Nanos,
    pub start_spread: Nanos,
    pub seed: u64,
}

impl Field {
    /// Returns the scenario and its bottleneck.
    pub fn scenario(&self) -> Result<(Scenario, LinkId), uc_net::NetError> {
        let ample = QueueSpec::DropTail {
            limit: Length::Packets(1 << 20),
        };
        let limit = Length::Packets(BUFFER_PACKETS);
        let queue = match self.transport {
            Transport::NewReno | Transport::NewRenoByAcks => QueueSpec::DropTail { limit },
            Transport::Dctcp => QueueSpec::Threshold {
                limit,
                mark: Length::Packets(MARK_PACKETS),
                drop_not_ect: false,
            },
        };
        let access = LinkSpec::new(self.rate, Nanos::from_micros(10), ample);
        let trunk = LinkSpec::new(self.rate, Nanos::from_micros(30), queue);
        let dumbbell = Dumbbell::new(self.pairs, access, trunk)?;
        let config = Arc::new(self.config());
        let mut starts = Stream::new(self.seed, "traffic/start");
        let flows = dumbbell.left.iter().zip(&dumbbell.right).zip(0..);
        let flows = flows.map(|((&guest, &receiver), number): (_, u32)| FlowPlan {
            name: format!("long[{number}]"),
            guest,
            receivers: vec![receiver],
            guest_config: Arc::clone(&config),
            receiver_config: Arc::clone(&config),
            policy: None,
            dupacks: None,
            hold: None,
            receiver_policy: None,
            start_policy: None,
            membership: None,
            virtual_part: uc_sim::consolidation::Virtual::default(),
            stop: None,
            start: Nanos(starts.below(self.start_spread.0)),
            application: Application::Bulk,
        });
        let scenario = Scenario {
            seed: self.seed,
            flows: flows.collect(),
            topology: dumbbell.topology,
            ip_header_bytes: 20,
            groups: Vec::new(),
            consolidation: uc_sim::consolidation::Consolidation::default(),
            granter: None,
        };
        Ok((scenario, dumbbell.forward))
    }

    /// Returns the TCP settings that the compared simulators have in common: an ACK for each
    /// segment, no SACK, no limited transmit, an initial window of ten.
    fn config(&self) -> Config {
        Config {
            congestion_control: match self.transport {
                Transport::NewReno => CongestionControl::NewReno,
                Transport::NewRenoByAcks => CongestionControl::NewRenoByAcks,
                Transport::Dctcp => CongestionControl::Dctcp {
                    gain_shift: 4,
                    initial_alpha_q10: 1024,
                },
            },
            sack: false,
            timestamps: false,
            delayed_ack: None,
            limited_transmit: false,
            spurious_timeout: SpuriousTimeout::Ignored,
            rto_min: self.rto_min,
            ..Config::default()
        }
    }
}
