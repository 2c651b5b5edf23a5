//! Derivation of RED's parameters from an operator's, as the `tc` tool and the kernel do it.
//!
//! Floating point is deliberate, and used only here: `tc` computes in doubles, and a set such as
//! min 90000, max 90001, burst 61 gets its weight of 1/2 from a double's rounding (in exact
//! arithmetic 2 ≤ 2·(1 − 2⁻⁶¹) is false and the weight would be 1/4). The derivation happens once,
//! before the first packet; later computation uses integers.

use uc_words::BitsPerSec;

use crate::error::SpecError;

/// The parameters of `tc qdisc … red`, named as in `tc`: min, max, limit, burst, avpkt (`packet`), probability,
/// bandwidth, ecn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedSpec {
    /// Average queue in bytes below which no packet is marked or dropped.
    pub min_bytes: u32,
    /// Average queue in bytes from which every packet is marked or dropped.
    pub max_bytes: u32,
    /// Maximum length of the queue, in bytes.
    pub limit_bytes: u32,
    /// Packets that may arrive at once before the average reaches min; determines the weight.
    pub burst_packets: u32,
    /// Average packet in bytes, tc-red's avpkt.
    pub packet_bytes: u32,
    /// Probability of a mark or drop when the average is at max, in parts per million.
    pub probability_ppm: u32,
    /// The link's rate, for the decay of the average while the queue is empty.
    pub bandwidth: BitsPerSec,
    /// Whether RED marks packets that can be marked, instead of dropping them.
    pub ecn: bool,
}

impl RedSpec {
    /// Returns the burst that `tc` proposes as the smallest for these thresholds, in packets: 1 +
    /// min / packet.
    pub fn least_burst_packets(min_bytes: u32, packet_bytes: u32) -> u32 {
        1 + min_bytes / packet_bytes.max(1)
    }
}

/// RED's parameters as the kernel uses them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedParameters {
    /// Base-2 logarithm of the inverse averaging weight: the weight is 2^−wlog.
    pub wlog: u8,
    /// Base-2 logarithm of the inverse probability for each byte above min, used if the tool sends
    /// no exact probability.
    pub plog: u8,
    /// Base-2 logarithm of the span of a cell of the idle table: in ticks for the tool, in
    /// microseconds for the kernel.
    pub scell_log: u8,
    /// Decay of the average for each cell of idle time, as a right shift in bits.
    pub idle_shifts: [u8; 256],
    /// Probability at max as the tool sends it, × 2^32; 0: use `plog`.
    pub max_probability_q32: u32,
    /// Probability for each byte above min, × 2^32.
    pub probability_per_byte_q32: u32,
    /// Lower threshold (min) in bytes, with wlog fractional bits.
    pub min_scaled: u64,
    /// Upper threshold (max) in bytes, with wlog fractional bits.
    pub max_scaled: u64,
}

impl RedParameters {
    /// Derives the parameters, and refuses what `tc` or the kernel refuses.
    ///
    /// # Errors
    /// Names the value that can't be used and the remedy. Refuses two kinds of values that `tc` takes: zeros, which
    /// `tc` reads as "choose for me", and packets shorter than a microsecond, for which `tc` makes a table that never
    /// decays.
    pub fn derive(spec: &RedSpec) -> Result<RedParameters, SpecError> {
        check_ranges(spec)?;
        let wlog = averaging_weight_log(spec)?;
        let span_bytes = spec.max_bytes - spec.min_bytes;
        let plog = probability_log(span_bytes, spec.probability_ppm)?;
        let (scell_log, idle_shifts) = idle_table(wlog, spec)?;
        for (what, bytes) in [("min", spec.min_bytes), ("max", spec.max_bytes)] {
            // As the kernel's red_check_params.
            if 32 - bytes.leading_zeros() + u32::from(wlog) >= 32 {
                return Err(SpecError::RedThresholdTooLarge { what, bytes, wlog });
            }
        }
        // The tool converts p·2^32 to 32 bits, so that p = 1 wraps to 0 (on x86-64) ...
        let max_probability_q32 = ((u64::from(spec.probability_ppm) << 32) / 1_000_000) as u32;
        // ... and the kernel then takes the power of two below, of the tool's plog.
        let span = span_bytes.max(1);
        let at_max_q32 = match max_probability_q32 {
            0 => (u32::MAX >> plog).wrapping_mul(span),
            exact => exact,
        };
        Ok(RedParameters {
            wlog,
            plog,
            scell_log,
            idle_shifts,
            max_probability_q32,
            probability_per_byte_q32: (at_max_q32 / span).max(1),
            min_scaled: u64::from(spec.min_bytes) << wlog,
            max_scaled: u64::from(spec.max_bytes) << wlog,
        })
    }

    /// Returns the longest idle time that the table covers, in microseconds; computed in 32 bits, as in the kernel.
    pub(super) fn idle_max_us(&self) -> u64 {
        u64::from((255u64 << self.scell_log) as u32)
    }
}

fn check_ranges(spec: &RedSpec) -> Result<(), SpecError> {
    let values = [
        ("RED's min", spec.min_bytes),
        ("RED's max", spec.max_bytes),
        ("RED's limit", spec.limit_bytes),
        ("RED's burst", spec.burst_packets),
        ("RED's packet", spec.packet_bytes),
        ("RED's probability", spec.probability_ppm),
    ];
    if let Some(&(what, _)) = values.iter().find(|(_, value)| *value == 0) {
        return Err(SpecError::Zero { what });
    }
    if spec.bandwidth.0 / 8 == 0 {
        return Err(SpecError::Zero {
            what: "RED's bandwidth in bytes per second",
        });
    }
    if spec.bandwidth.0 / 8 > u64::from(u32::MAX) {
        return Err(SpecError::RedBandwidthTooHigh {
            bandwidth: spec.bandwidth,
        });
    }
    if spec.min_bytes > spec.max_bytes {
        let (min_bytes, max_bytes) = (spec.min_bytes, spec.max_bytes);
        return Err(SpecError::RedThresholds {
            min_bytes,
            max_bytes,
        });
    }
    if spec.probability_ppm > 1_000_000 {
        let what = "RED's probability";
        return Err(SpecError::ProbabilityAboveOne {
            what,
            ppm: spec.probability_ppm,
        });
    }
    Ok(())
}

/// Returns wlog of the largest weight W = 2^−wlog that admits a burst: burst + 1 − min/packet must be at most
/// (1 − (1 − W)^burst) / W (Floyd and Jacobson §5, upper bound on W).
fn averaging_weight_log(spec: &RedSpec) -> Result<u8, SpecError> {
    let burst = f64::from(spec.burst_packets);
    let room = burst + 1.0 - f64::from(spec.min_bytes) / f64::from(spec.packet_bytes);
    if room < 1.0 {
        return Err(SpecError::RedBurstTooSmall {
            burst_packets: spec.burst_packets,
            try_packets: RedSpec::least_burst_packets(spec.min_bytes, spec.packet_bytes),
        });
    }
    let lets_through = |wlog: &u8| {
        let weight = weight(*wlog);
        room <= (1.0 - (1.0 - weight).powf(burst)) / weight
    };
    (1..32)
        .find(lets_through)
        .ok_or(SpecError::RedBurstTooLarge {
            burst_packets: spec.burst_packets,
        })
}

fn weight(wlog: u8) -> f64 {
    1.0 / f64::from(1u32 << wlog)
}

/// Returns the smallest plog with probability/span · 2^plog above one.
fn probability_log(span_bytes: u32, ppm: u32) -> Result<u8, SpecError> {
    if span_bytes == 0 {
        return Ok(0);
    }
    let per_byte = f64::from(ppm) / 1_000_000.0 / f64::from(span_bytes);
    (0..32)
        .find(|&plog| per_byte * f64::from(1u32 << plog) > 1.0)
        .ok_or(SpecError::RedProbabilityTooSmall { ppm, span_bytes })
}

/// Computes the idle table and its cell size: cell i holds ⌊i·2^scell_log · −ln(1 − W)/xmit⌋, at
/// most 31 bits, where xmit is the time of one average packet.
fn idle_table(wlog: u8, spec: &RedSpec) -> Result<(u8, [u8; 256]), SpecError> {
    // Linux's packet scheduler ticks every 64 ns; the tool first rounds down to microseconds.
    const TICKS_PER_US: f64 = 1_000.0 / 64.0;
    let (packet_bytes, bandwidth) = (spec.packet_bytes, spec.bandwidth);
    let bytes_per_sec = (bandwidth.0 / 8) as f64;
    let xmit_us = (1_000_000.0 * (f64::from(packet_bytes) / bytes_per_sec)).trunc();
    if xmit_us < 1.0 {
        return Err(SpecError::RedPacketTooShort {
            packet_bytes,
            bandwidth,
        });
    }
    let xmit_ticks = (xmit_us * TICKS_PER_US).trunc();
    let decay_per_tick = -(1.0 - weight(wlog)).ln() / xmit_ticks;
    let longest_ticks = 31.0 / decay_per_tick;
    let scell_log = (0..32u8)
        .find(|&log| longest_ticks / f64::from(1u32 << log) < 512.0)
        .ok_or(SpecError::RedIdleTooLong {
            packet_bytes,
            bandwidth,
        })?;
    let mut shifts = [0; 256];
    for (cell, shift) in shifts.iter_mut().enumerate() {
        let ticks = (cell as u64) << scell_log;
        *shift = (ticks as f64 * decay_per_tick).min(31.0) as u8;
    }
    shifts[255] = 31;
    Ok((scell_log, shifts))
}
