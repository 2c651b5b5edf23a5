//! Captures of the bottleneck: they change no record, their frames are whole, and they are bounded.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use etherparse::{LaxPacketHeaders, NetHeaders, TransportHeader};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_statistics::InterfaceStatisticsOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use uc_net::Nanos;
use uc_sim::{Capture, Captured, Plan, Repetition, World, run_case_captured};

use crate::common::{DUMBBELL, STAR, experiment, group, mixed, run};

/// Returns the packets of a file, and the numbers of received and left out packets in its totals.
fn read(file: &Path) -> (Vec<EnhancedPacketBlock<'static>>, [u64; 2]) {
    let mut reader = PcapNgReader::new(File::open(file).expect("opens")).expect("is pcapng");
    let (mut packets, mut totals) = (Vec::new(), [0; 2]);
    while let Some(block) = reader.next_block() {
        match block.expect("is a block").0.into_owned() {
            Block::EnhancedPacket(packet) => packets.push(packet),
            Block::InterfaceStatistics(found) => {
                for option in found.options {
                    match option {
                        InterfaceStatisticsOption::IsbIfRecv(count) => totals[0] = count,
                        InterfaceStatisticsOption::IsbIfDrop(count) => totals[1] = count,
                        other => panic!("{other:?}"),
                    }
                }
            }
            _ => {}
        }
    }
    (packets, totals)
}

#[test]
fn a_captured_run_has_the_same_record_and_whole_frames() {
    let bulk = [group("bulk", "stack = \"reno\"\ncount = 3")];
    for (base, groups) in [(STAR, &mixed()[..]), (DUMBBELL, &bulk)] {
        let mut experiment = experiment(base, groups);
        experiment.duration = "2s".parse().expect("a duration");
        let folder = std::env::temp_dir();
        let file = folder.join(format!("uc-capture-{}-{}", std::process::id(), base.len()));
        let repetition = Repetition {
            seed: 7,
            ..Repetition::default()
        };
        let (case, cancel) = (&experiment.cases[0], AtomicBool::new(false));
        let found = run_case_captured(&experiment, case, repetition, &|_| {}, &cancel, &file);
        let (record, captured) = found.expect("runs");
        assert_eq!(record, run(&experiment, 7));
        let (packets, totals) = read(&file);
        std::fs::remove_file(&file).expect("is there");
        assert_eq!(captured.packets, packets.len() as u64);
        assert_eq!(
            totals,
            [captured.packets + captured.left_out, captured.left_out]
        );
        assert!(packets.len() > 1_000, "{}", packets.len());
        assert!(packets.is_sorted_by_key(|packet| packet.timestamp));
        for packet in &packets {
            assert_whole(packet);
        }
    }
}

/// Checks the lengths and the checksums of a packet with a TCP header.
fn assert_whole(packet: &EnhancedPacketBlock<'_>) {
    let headers = LaxPacketHeaders::from_ethernet(&packet.data).expect("headers");
    let (Some(NetHeaders::Ipv4(ip, _)), Some(TransportHeader::Tcp(tcp))) =
        (&headers.net, &headers.transport)
    else {
        panic!("{headers:?}");
    };
    assert_eq!(u32::from(ip.total_len) + 14, packet.original_len, "{ip:?}");
    assert_eq!(ip.header_checksum, ip.calc_header_checksum());
    let payload = vec![0; packet.original_len as usize - packet.data.len()];
    assert_eq!(tcp.calc_checksum_ipv4(ip, &payload), Ok(tcp.checksum));
    assert!(tcp.ack || tcp.syn || tcp.rst, "{tcp:?}");
}

#[test]
fn a_full_file_counts_what_it_leaves_out() {
    let experiment = experiment(STAR, &[group("bulk", "stack = \"ecn\"")]);
    let plan = Plan::new(&experiment, &experiment.cases[0], 1).expect("can be laid out");
    let file = std::env::temp_dir().join(format!("uc-capture-{}", std::process::id()));
    let topology = &plan.scenario.topology;
    let capture = Capture::create(&file, topology, plan.bottlenecks[0], 20).expect("a file");
    let mut world = World::new(&plan.scenario).expect("a world");
    world.hosts.start_capture(capture.limited(100));
    world.run_until(Nanos::from_millis(1_000)).expect("runs");
    let capture = world.hosts.end_capture().expect("the capture");
    let Captured { packets, left_out } = capture.finish().expect("is written");
    let (found, totals) = read(&file);
    std::fs::remove_file(&file).expect("is there");
    assert_eq!((packets, found.len()), (100, 100));
    assert!(left_out > 100, "{left_out}");
    assert_eq!(totals, [100 + left_out, left_out]);
}

#[test]
fn a_file_that_cannot_be_made_is_an_error_with_its_path() {
    let experiment = experiment(STAR, &[group("bulk", "stack = \"ecn\"")]);
    let (case, cancel) = (&experiment.cases[0], AtomicBool::new(false));
    let file = Path::new("/none/such.pcapng");
    let repetition = Repetition {
        seed: 1,
        ..Repetition::default()
    };
    let found = run_case_captured(&experiment, case, repetition, &|_| {}, &cancel, file);
    let told = found.expect_err("no such folder").to_string();
    assert!(told.contains("/none/such.pcapng"), "{told}");
}
