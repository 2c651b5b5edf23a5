//! The accepted counts, and the comparison with them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The largest difference from an accepted count, as a part of it. What is compiled from the same source
/// has the same count, so this is room for small changes, not for noise. A change of 3 % is refused.
const BAR: f64 = 0.02;

/// The command that accepts counts.
pub const ACCEPT: &str = "UC_ACCEPT=1 cargo test -p uc-port --test instructions";

/// Counts by the names of figures.
pub type Figures = BTreeMap<String, f64>;

/// What was counted.
#[derive(Clone)]
pub struct Counts {
    /// Name of the section in the record.
    pub section: &'static str,
    /// What the counts depend on besides the sources, for example the compiler.
    pub made_by: String,
    pub figures: Figures,
}

/// A figure that is beyond the bar.
pub struct Beyond {
    pub name: String,
    accepted: Option<f64>,
    counted: Option<f64>,
}

/// How counts compare with the accepted ones.
pub enum Verdict {
    Within,
    Beyond(Vec<Beyond>),
    /// The record was made by another compiler or kernel: why, and what to do.
    Incomparable(String),
}

/// The file of accepted counts: sections by name.
#[derive(Default)]
pub struct Record(BTreeMap<String, (String, Figures)>);

impl Record {
    fn path() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/instructions/accepted.txt")
    }

    /// Reads the file.
    pub fn read() -> Self {
        Self::parse(&std::fs::read_to_string(Self::path()).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let mut record = Self::default();
        let mut section = String::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some((name, made_by)) = line.strip_prefix('[').and_then(|l| l.split_once("] ")) {
                section = name.to_owned();
                record.0.entry(section.clone()).or_default().0 = made_by.to_owned();
            } else if let Some((name, count)) = line.rsplit_once(' ') {
                let figures = &mut record.0.entry(section.clone()).or_default().1;
                figures.insert(name.trim_end().to_owned(), count.parse().unwrap());
            }
        }
        record
    }

    /// Replaces a section by these counts.
    pub fn with(mut self, counts: Counts) -> Self {
        let section = (counts.made_by, counts.figures);
        self.0.insert(counts.section.to_owned(), section);
        self
    }

    /// Replaces a section of the file by these counts.
    pub fn accept(counts: Counts) {
        std::fs::write(Self::path(), Self::read().with(counts).text()).unwrap();
    }

    fn text(&self) -> String {
        let mut text = format!(
            "# Accepted numbers of instructions; `{ACCEPT}` (as root) writes them.\n\
             # calls: executed in one call of the core. programs: of each program in the kernel.\n"
        );
        for (name, (made_by, figures)) in &self.0 {
            writeln!(text, "\n[{name}] {made_by}").unwrap();
            for (name, count) in figures {
                writeln!(text, "{name:<48} {count}").unwrap();
            }
        }
        text
    }

    /// Compares counts with the accepted ones of their section.
    pub fn compare(&self, counts: &Counts) -> Verdict {
        let empty = (String::from("nothing"), Figures::new());
        let (made_by, accepted) = self.0.get(counts.section).unwrap_or(&empty);
        if *made_by != counts.made_by {
            return Verdict::Incomparable(format!(
                "the accepted numbers of instructions ({}) were made by {made_by}, but here is {}; \
                 count what was accepted, then accept it: git stash && {ACCEPT} && git stash pop",
                counts.section, counts.made_by,
            ));
        }
        let names = accepted.keys().chain(counts.figures.keys());
        let mut beyond: Vec<Beyond> = Vec::new();
        for name in names.collect::<std::collections::BTreeSet<_>>() {
            let (accepted, counted) = (accepted.get(name), counts.figures.get(name));
            let within = |(a, c): (&f64, &f64)| (c - a).abs() <= BAR * a;
            if !accepted.zip(counted).is_some_and(within) {
                beyond.push(Beyond {
                    name: name.clone(),
                    accepted: accepted.copied(),
                    counted: counted.copied(),
                });
            }
        }
        match beyond.is_empty() {
            true => Verdict::Within,
            false => Verdict::Beyond(beyond),
        }
    }
}

/// Words the refusal of figures.
pub fn refusal(figures: &[Beyond]) -> String {
    let mut text = String::from("numbers of instructions differ by more than 2 %:\n");
    for Beyond {
        name,
        accepted,
        counted,
    } in figures
    {
        match (accepted, counted) {
            (Some(accepted), Some(counted)) => {
                let percent = 100.0 * (counted / accepted - 1.0);
                writeln!(
                    text,
                    "  {name}: {counted}, accepted {accepted} ({percent:+.1} %)"
                )
            }
            (Some(accepted), None) => writeln!(text, "  {name}: not counted, accepted {accepted}"),
            (None, counted) => writeln!(text, "  {name}: {counted:?}, none accepted"),
        }
        .unwrap();
    }
    text + "if that is meant, accept it, and give the reason in the commit: " + ACCEPT
}

/// Returns the first line of what a program prints about its version.
pub fn version(program: &str) -> Result<String, String> {
    let output = Command::new(program).arg("--version").output();
    let output = output.map_err(|error| format!("{program} does not run: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// Returns the compiler and the processor that it compiles for.
pub fn compiler() -> String {
    format!("{}, {}", version("clang").unwrap(), std::env::consts::ARCH)
}
