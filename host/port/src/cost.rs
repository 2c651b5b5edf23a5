//! What benchmarks share: times of programs in the kernel, and figures as ratios.
//!
//! A time depends on the machine and on what else runs there. So each figure is a ratio to another
//! that was measured in the same moment, many times in turn, and what is reported is the median of
//! these ratios with an interval.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::error::PortError;
use crate::test_run::{PacketContext, run_packet};

/// The variable that names the file to which each report adds its rows, a JSON object a line.
pub const REPORT_FILE: &str = "UC_BENCH";

/// The median of ratios, with an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Median of the measured ratios.
    pub median: f64,
    /// Lower end of the median's 95 % interval.
    pub low: f64,
    /// Upper end of the median's 95 % interval.
    pub high: f64,
    /// Number of ratios: each divides two measurements that followed one another.
    pub pairs: usize,
}

impl Ratio {
    /// Returns the median of `figures[i] ÷ bases[i]`. Its interval is that of the sign test, which
    /// assumes nothing of the ratios but that they are independent. NaN without figures.
    pub fn of(figures: &[f64], bases: &[f64]) -> Self {
        let pairs = figures.iter().zip(bases);
        let mut ratios: Vec<f64> = pairs.map(|(figure, base)| figure / base).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let pairs = ratios.len();
        // Ranks by the normal approximation of the binomial distribution.
        let rank = ((pairs as f64 - 1.96 * (pairs as f64).sqrt()) / 2.0).max(0.0) as usize;
        let at = |index: usize| ratios.get(index).copied().unwrap_or(f64::NAN);
        Self {
            median: at(pairs / 2),
            low: at(rank.saturating_sub(1)),
            high: at(pairs.saturating_sub(rank.max(1))),
            pairs,
        }
    }
}

/// Figures of one benchmark, to be printed.
#[derive(Debug)]
pub struct Report {
    group: &'static str,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    name: String,
    base: String,
    ratio: Ratio,
    value: f64,
    unit: &'static str,
}

impl Report {
    /// Creates an empty report. `group` names the benchmark.
    pub fn new(group: &'static str) -> Self {
        Self {
            group,
            rows: Vec::new(),
        }
    }

    /// Adds a figure of this unit. Each of `figures` was measured right after or before its partner in `bases`.
    pub fn add(
        &mut self,
        (name, figures): (&str, &[f64]),
        unit: &'static str,
        (base, bases): (&str, &[f64]),
    ) {
        self.rows.push(Row {
            name: name.to_owned(),
            base: base.to_owned(),
            ratio: Ratio::of(figures, bases),
            value: Ratio::of(figures, &vec![1.0; figures.len()]).median,
            unit,
        });
    }

    /// Prints the report, and adds it to the file that [`REPORT_FILE`] names, if it names one.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(&self) -> io::Result<()> {
        println!("{self}");
        let Some(path) = std::env::var_os(REPORT_FILE) else {
            return Ok(());
        };
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        self.rows
            .iter()
            .try_for_each(|row| writeln!(file, "{}", row.json(self.group)))
    }
}

impl Row {
    /// Returns the row as a JSON object; names contain no characters that JSON escapes.
    fn json(&self, group: &str) -> String {
        let Ratio {
            median,
            low,
            high,
            pairs,
        } = self.ratio;
        format!(
            "{{\"group\": \"{group}\", \"name\": \"{}\", \"base\": \"{}\", \"ratio\": {median:.4}, \
             \"low\": {low:.4}, \"high\": {high:.4}, \"pairs\": {pairs}, \"value\": {:.4}, \
             \"unit\": \"{}\"}}",
            self.name, self.base, self.value, self.unit
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<40}{:>12} {:<8}{:>8}  {:<18}{:<20}{:>4}",
            self.group, "median", "", "ratio", "95 % interval", "÷", "n"
        )?;
        for row in &self.rows {
            let Ratio {
                median,
                low,
                high,
                pairs,
            } = row.ratio;
            let interval = format!("{low:.3} to {high:.3}");
            writeln!(
                f,
                "{:<40}{:>12.2} {:<8}{median:>8.3}  {interval:<18}{:<20}{pairs:>4}",
                row.name, row.value, row.unit, row.base
            )?;
        }
        Ok(())
    }
}

/// A program of the kernel and the packet that it gets.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    /// Name of the case in the report.
    pub name: &'static str,
    /// The program whose runs are timed.
    pub program: BorrowedFd<'a>,
    /// The Ethernet frame on which the program is run.
    pub packet: Vec<u8>,
    /// Context of the packet, with the number of runs whose mean is one time.
    pub context: PacketContext,
}

impl Case<'_> {
    /// Runs the case and returns the mean time of a run in nanoseconds of this thread's processor.
    /// The kernel's own figure is whole nanoseconds, too coarse for a short program.
    pub fn time_ns(&self) -> Result<f64, PortError> {
        let began = processor_time();
        run_packet(self.program, &self.packet, self.context, 0)?;
        let spent = processor_time() - began;
        Ok(spent.as_nanos() as f64 / f64::from(self.context.repeat.max(1)))
    }
}

/// Returns how long the calling thread has run on a processor.
fn processor_time() -> Duration {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    clock.now().map(Duration::from).unwrap_or_default()
}

/// Runs all cases in turn, `rounds` times. Returns the times of each case in nanoseconds.
pub fn times(cases: &[Case<'_>], rounds: usize) -> Result<Vec<Vec<f64>>, PortError> {
    let mut times = vec![Vec::new(); cases.len()];
    for _ in 0..rounds {
        for (case, times) in cases.iter().zip(&mut times) {
            times.push(case.time_ns()?);
        }
    }
    Ok(times)
}

/// Loads a program that does nothing and lets the next one run.
pub fn null_program() -> Result<OwnedFd, PortError> {
    // r0 = -1 (TC_ACT_UNSPEC); exit
    let mut code = [libbpf_sys::bpf_insn::default(); 2];
    code[0].code = (libbpf_sys::BPF_ALU64 | libbpf_sys::BPF_MOV | libbpf_sys::BPF_K) as u8;
    code[0].imm = -1;
    code[1].code = (libbpf_sys::BPF_JMP | libbpf_sys::BPF_EXIT) as u8;
    // SAFETY: the strings end with 0, and the code has as many instructions as stated.
    let fd = unsafe {
        libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_SCHED_CLS,
            c"uc_null".as_ptr(),
            c"GPL".as_ptr(),
            code.as_ptr(),
            code.len() as _,
            std::ptr::null_mut(),
        )
    };
    if fd < 0 {
        let source = io::Error::from_raw_os_error(-fd);
        return Err(PortError::from_kernel(
            "load an empty program, to measure what a run of a program costs",
            source,
        ));
    }
    // SAFETY: the kernel has just given this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_is_the_median_with_the_interval_of_the_sign_test() {
        let figures: Vec<f64> = (1..=25).rev().map(f64::from).collect();
        let ratio = Ratio::of(&figures, &[10.0; 25]);
        // Of 25 values the interval goes from the 7th to the 19th.
        let expected = (1.3, 0.7, 1.9);
        assert_eq!((ratio.median, ratio.low, ratio.high), expected);
        assert_eq!(ratio.pairs, 25);
        let few = Ratio::of(&[3.0, 1.0], &[1.0, 1.0]);
        assert_eq!((few.low, few.high), (1.0, 3.0));
        assert!(Ratio::of(&[], &[]).median.is_nan());
    }

    #[test]
    fn row_is_one_line_of_json_with_its_ratio_and_base() {
        let mut report = Report::new("packets");
        report.add(("data", &[30.0]), "ns", ("null", &[20.0]));
        assert_eq!(
            report.rows[0].json(report.group),
            "{\"group\": \"packets\", \"name\": \"data\", \"base\": \"null\", \"ratio\": 1.5000, \
             \"low\": 1.5000, \"high\": 1.5000, \"pairs\": 1, \"value\": 30.0000, \"unit\": \"ns\"}"
        );
    }
}
