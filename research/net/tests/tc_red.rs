//! RED's parameters against the `tc` that is installed, read from the netlink request that it
//! sends.
//!
//! Needs `tc`, `strace` and the right to make a network namespace (unprivileged user namespaces
//! will do); gives the reason when it skips. The kernel needs no sch_red: only the request of `tc`
//! matters.

use std::process::Command;

use uc_net::random::Stream;
use uc_net::{BitsPerSec, RedParameters, RedSpec};

const SEED: u64 = 20;
/// Type and length of the attribute with the idle table: 260 bytes, TCA_RED_STAB.
const TABLE_HEADER: [u8; 4] = [0x04, 0x01, 0x02, 0x00];

/// Returns what `tc` asks the kernel for: Wlog, Plog, Scell_log, Stab, max_P. `Err` holds its
/// messages.
fn asked_by_tc(spec: &RedSpec) -> Result<(u8, u8, u8, Vec<u8>, u32), String> {
    let words = format!(
        "-rn strace -e trace=sendmsg -e write=all -e abbrev=all \
         tc qdisc add dev lo root red min {} max {} limit {} burst {} avpkt {} probability {} \
         bandwidth {}bit ecn",
        spec.min_bytes,
        spec.max_bytes,
        spec.limit_bytes,
        spec.burst_packets,
        spec.packet_bytes,
        f64::from(spec.probability_ppm) / 1e6,
        spec.bandwidth.0,
    );
    let output = Command::new("unshare")
        .args(words.split_whitespace())
        .output();
    let said = output.map_err(|error| error.to_string())?.stderr;
    let said = String::from_utf8_lossy(&said).into_owned();
    let bytes: Vec<u8> = said
        .lines()
        .filter_map(|line| line.strip_prefix(" | ")?.get(7..55))
        .flat_map(|columns| columns.split_whitespace())
        .filter_map(|hex| u8::from_str_radix(hex, 16).ok())
        .collect();
    let table = bytes
        .windows(4)
        .position(|window| window == TABLE_HEADER)
        .ok_or(said)?;
    // Before the table: limit, min, max (32 bits each), Wlog, Plog, Scell_log, flags.
    let [wlog, plog, scell_log] = [table - 4, table - 3, table - 2].map(|place| bytes[place]);
    let max_p = bytes[table + 264..table + 268].try_into().unwrap();
    Ok((
        wlog,
        plog,
        scell_log,
        bytes[table + 4..table + 260].to_vec(),
        u32::from_le_bytes(max_p),
    ))
}

fn drawn(random: &mut Stream) -> RedSpec {
    let packet_bytes = 500 + random.below(1_001) as u32;
    let min_bytes = 3_000 + random.below(200_000) as u32;
    RedSpec {
        min_bytes,
        max_bytes: min_bytes + 1 + random.below(300_000) as u32,
        limit_bytes: 2_000_000,
        // Bursts start one below the smallest, which must be refused.
        burst_packets: min_bytes / packet_bytes + random.below(100) as u32,
        packet_bytes,
        probability_ppm: 1 + random.below(1_000_000) as u32,
        bandwidth: BitsPerSec(1_000_000 * (1 + random.below(3_000))),
        ecn: true,
    }
}

#[test]
fn live_parameters_equal_those_of_the_installed_tc() {
    let mut random = Stream::new(SEED, "operators");
    let (mut agreed, mut refused) = (0, 0);
    for case in 0..60 {
        let spec = drawn(&mut random);
        match (asked_by_tc(&spec), RedParameters::derive(&spec)) {
            (Ok(asked), Ok(p)) => {
                let ours = (
                    p.wlog,
                    p.plog,
                    p.scell_log,
                    p.idle_shifts.to_vec(),
                    p.max_probability_q32,
                );
                assert_eq!(ours, asked, "seed {SEED}, case {case}: {spec:?}");
                agreed += 1;
            }
            (Err(said), Err(_)) if said.contains("RED:") => refused += 1,
            (Err(said), _) if !said.contains("RED:") => {
                return uc_live::skip(format!("tc can't be watched here: {said}"));
            }
            (asked, ours) => panic!("seed {SEED}, case {case}: {spec:?}: {asked:?}, {ours:?}"),
        }
    }
    println!("{agreed} sets agreed, {refused} were refused by both");
    assert!(agreed > 30, "seed {SEED}: only {agreed} sets were compared");
}
