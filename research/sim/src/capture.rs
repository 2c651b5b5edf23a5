//! A capture of the packets at a bottleneck, as a pcapng file.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pcap_file::DataLink;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption, InterfaceTsResolution,
};
use pcap_file::pcapng::blocks::interface_statistics::{
    InterfaceStatisticsBlock, InterfaceStatisticsOption,
};
use pcap_file::pcapng::blocks::opt_common::CommonOption;
use pcap_file::pcapng::{PcapNgWriteError, PcapNgWriter};
use uc_net::{DropReason, HostId, LinkId, LinkPlan, Nanos, Observer, Topology};

use crate::end::End;
use crate::error::SimError;
use crate::frame;
use crate::packet::Packet;

/// Maximum number of packets in a file: about 150 MB, since only headers are stored. Later packets are only counted.
pub const PACKETS_MAX: u64 = 1_000_000;

/// Directions of packets in the file (`epb_flags`).
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// Size of the file of a run, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// Number of packets in the capture file.
    pub packets: u64,
    /// Packets that are not in the file: they came after the largest number of packets was reached, or after their
    /// connection had ended.
    pub left_out: u64,
}

/// A file that is being written. It has each packet as it comes to the bottleneck's queue, with the
/// queue's mark or, as a comment, the reason of its drop; and each packet as it comes to the link of
/// the opposite direction, if there is one.
pub struct Capture {
    file: PathBuf,
    writer: PcapNgWriter<BufWriter<File>>,
    /// The bottleneck, then the link of the opposite direction, if there is one.
    forward: LinkId,
    back: Option<LinkId>,
    ip_header_bytes: u32,
    packets_max: u64,
    captured: Captured,
    last: Nanos,
    failed: Option<PcapNgWriteError>,
}

impl std::fmt::Debug for Capture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Capture");
        shown.field("file", &self.file).finish_non_exhaustive()
    }
}

impl Capture {
    /// Creates the file for the packets at `forward`, a link of this topology.
    ///
    /// # Errors
    /// [`SimError::Capture`] with the file.
    pub fn create(
        file: &Path,
        topology: &Topology,
        forward: LinkId,
        ip_header_bytes: u32,
    ) -> Result<Self, SimError> {
        let links = topology.links();
        let plan = &links[forward.0 as usize];
        let is_back = |link: &LinkPlan| link.from == plan.to && link.to == plan.from;
        let back = links.iter().position(is_back);
        let open = || -> Result<PcapNgWriter<BufWriter<File>>, PcapNgWriteError> {
            let mut writer = PcapNgWriter::new(BufWriter::new(File::create(file)?))?;
            writer.write_pcapng_block(InterfaceDescriptionBlock {
                linktype: DataLink::ETHERNET,
                snaplen: 0,
                options: vec![
                    InterfaceDescriptionOption::IfName(Cow::Borrowed(plan.name.as_str())),
                    InterfaceDescriptionOption::IfSpeed(plan.spec.rate.0),
                    InterfaceDescriptionOption::IfTsResol(InterfaceTsResolution::NANO),
                ],
            })?;
            Ok(writer)
        };
        Ok(Self {
            writer: open().map_err(|error| failure(file, &error))?,
            file: file.to_owned(),
            forward,
            back: back.map(|number| LinkId(number as u32)),
            ip_header_bytes,
            packets_max: PACKETS_MAX,
            captured: Captured::default(),
            last: Nanos::ZERO,
            failed: None,
        })
    }

    /// Limits the file to this many packets.
    #[must_use]
    pub fn limited(self, packets_max: u64) -> Self {
        Self {
            packets_max,
            ..self
        }
    }

    /// Completes the file with its totals.
    ///
    /// # Errors
    /// [`SimError::Capture`] if any part of the file could not be written.
    pub fn finish(mut self) -> Result<Captured, SimError> {
        let Captured { packets, left_out } = self.captured;
        let totals = InterfaceStatisticsBlock {
            interface_id: 0,
            timestamp: time(self.last),
            options: vec![
                InterfaceStatisticsOption::IsbIfRecv(packets + left_out),
                InterfaceStatisticsOption::IsbIfDrop(left_out),
            ],
        };
        let written = match self.failed {
            Some(error) => Err(error),
            None => self.writer.write_pcapng_block(totals).map(drop),
        };
        let flush = |mut writer: BufWriter<File>| Ok(writer.flush()?);
        let flushed = written.and_then(|()| flush(self.writer.into_inner()));
        flushed.map_err(|error| failure(&self.file, &error))?;
        Ok(self.captured)
    }

    fn add(&mut self, at: Nanos, link: LinkId, seen: &Seen<'_>, dropped: Option<DropReason>) {
        let direction = match link {
            forward if forward == self.forward => OUTBOUND,
            back if Some(back) == self.back => INBOUND,
            _ => return,
        };
        let Some((from, to)) = seen
            .hosts
            .filter(|_| self.captured.packets < self.packets_max)
        else {
            self.captured.left_out += 1;
            return;
        };
        self.captured.packets += 1;
        self.last = at;
        let mut options = vec![EnhancedPacketOption::Flags(direction)];
        if let Some(reason) = dropped {
            let comment = format!("dropped: {}", reason.name());
            options.push(EnhancedPacketOption::Common(CommonOption::Comment(
                comment.into(),
            )));
        }
        let block = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: time(at),
            original_len: uc_net::Packet::size_bytes(seen.packet),
            data: Cow::Owned(frame::headers(seen.packet, self.ip_header_bytes, from, to)),
            options,
        };
        if self.failed.is_none() {
            self.failed = self.writer.write_pcapng_block(block).err();
        }
    }
}

/// A packet, and its sender's and receiver's hosts unless its connection has ended.
struct Seen<'a> {
    packet: &'a Packet,
    hosts: Option<(HostId, HostId)>,
}

/// A capture with all ends of connections, from which it learns the hosts of packets.
pub(crate) struct Watcher<'a> {
    pub capture: &'a mut Capture,
    pub ends: &'a [End],
}

impl Watcher<'_> {
    fn see(&mut self, at: Nanos, link: LinkId, packet: &Packet, dropped: Option<DropReason>) {
        let end = self.ends.get(packet.to.place());
        let end = end.filter(|end| end.route.address == packet.to);
        let hosts = end.map(|end| (end.route.path.to, end.route.from));
        let seen = Seen { packet, hosts };
        self.capture.add(at, link, &seen, dropped);
    }
}

impl Observer<Packet> for Watcher<'_> {
    fn dropped(&mut self, at: Nanos, link: LinkId, packet: &Packet, reason: DropReason) {
        self.see(at, link, packet, Some(reason));
    }

    fn taken(&mut self, at: Nanos, link: LinkId, packet: &Packet) {
        self.see(at, link, packet, None);
    }
}

fn time(at: Nanos) -> Duration {
    Duration::from_nanos(at.0)
}

fn failure(file: &Path, error: &dyn std::fmt::Display) -> SimError {
    SimError::Capture {
        file: file.display().to_string(),
        why: error.to_string(),
    }
}
