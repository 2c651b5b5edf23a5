//! Faults of a policy: all of them at once, each with its place and remedy.

use serde::Serialize;
use uc_words::place::Document;

use uc_files::FileError;

/// Maximum number of faults reported; a file with more is no policy.
const FAULTS_MAX: usize = 100;

/// Why a policy can't be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The file can't be read, or not be trusted.
    #[error(transparent)]
    Unread(#[from] FileError),
    /// The policy has faults, printed one per line.
    #[error("{}", lines(.0))]
    Invalid(Vec<Fault>),
}

fn lines(faults: &[Fault]) -> String {
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

impl PolicyError {
    /// Returns the policy's faults, in the order of the file; empty if the file couldn't be read.
    pub fn faults(&self) -> &[Fault] {
        match self {
            PolicyError::Unread(_) => &[],
            PolicyError::Invalid(faults) => faults,
        }
    }
}

/// One fault: its place, the problem and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// File name, or another name of the text.
    pub file: String,
    /// Line of the error in the policy file, from 1.
    pub line: usize,
    /// Column of the fault in characters, from 1.
    pub column: usize,
    /// Path of the key, such as `rule.2.remote`; members of lists count from 0. Empty if the text
    /// is not TOML.
    pub key: String,
    /// Description of the problem, and the remedy.
    pub message: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Fault {
            file,
            line,
            column,
            key,
            message,
        } = self;
        let key = key_for_people(key);
        match key.is_empty() {
            true => write!(f, "{file}:{line}:{column}: {message}"),
            false => write!(f, "{file}:{line}:{column}: {key}: {message}"),
        }
    }
}

fn is_number(part: &str) -> bool {
    part.parse::<usize>().is_ok()
}

/// Shortens a key for messages: the line identifies the rule, so `rule.2.remote` becomes `remote`.
fn key_for_people(key: &str) -> String {
    let parts: Vec<&str> = key.split('.').collect();
    match &parts[..] {
        ["rule" | "tenant", number, rest @ ..] if is_number(number) => {
            // The column identifies the member of a list.
            let names: Vec<&str> = match rest {
                [names @ .., list, number] if is_number(number) && *list != "priorities" => {
                    names.iter().chain([list]).copied().collect()
                }
                names => names.to_vec(),
            };
            match names.is_empty() {
                true => parts[0].to_owned(),
                false => names.join("."),
            }
        }
        _ => key.to_owned(),
    }
}

/// Collects the errors of a policy while it is read.
pub(crate) struct Faults<'a> {
    document: &'a Document<'a>,
    found: Vec<(usize, Fault)>,
    left_off: usize,
}

impl<'a> Faults<'a> {
    pub(crate) fn new(document: &'a Document<'a>) -> Faults<'a> {
        Faults {
            document,
            found: Vec::new(),
            left_off: 0,
        }
    }

    /// Adds a fault at the value of `key`, or, if the key is missing, at the table that would contain it.
    pub(crate) fn add(&mut self, key: &str, message: impl Into<String>) {
        self.add_at(self.document.offset(key), key, message);
    }

    /// Adds a fault at a known offset of the text.
    pub(crate) fn add_at(&mut self, offset: usize, key: &str, message: impl Into<String>) {
        if self.found.len() >= FAULTS_MAX {
            self.left_off += 1;
            return;
        }
        let (line, column) = self.document.line_and_column(offset);
        let fault = Fault {
            file: self.document.name.to_owned(),
            line,
            column,
            key: key.to_owned(),
            message: message.into(),
        };
        self.found.push((offset, fault));
    }

    /// Counts a fault without a message, because enough faults to report are stored already.
    pub(crate) fn add_unsaid(&mut self) {
        self.left_off += 1;
    }

    /// Returns the line of a key in the file, for references in other messages.
    pub(crate) fn line(&self, key: &str) -> usize {
        self.document.line_and_column(self.document.offset(key)).0
    }

    /// Returns whether the key is in the file.
    pub(crate) fn is_given(&self, key: &str) -> bool {
        self.document.span(key).is_some()
    }

    /// Returns whether a fault was found in this key or in a part of it.
    pub(crate) fn touch(&self, key: &str) -> bool {
        let within = |path: &str| {
            path.strip_prefix(key)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.found.iter().any(|(_, fault)| within(&fault.key))
    }

    /// Returns whether there are more faults than will be reported.
    pub(crate) fn is_full(&self) -> bool {
        self.left_off > 0
    }

    /// Returns whether no error was found yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Ends the collection.
    ///
    /// # Errors
    /// [`PolicyError::Invalid`] with all faults in the order of the file, if there is one.
    pub(crate) fn into_result(mut self) -> Result<(), PolicyError> {
        if self.found.is_empty() {
            return Ok(());
        }
        self.found.sort_by_key(|(offset, _)| *offset);
        let mut faults: Vec<Fault> = self.found.into_iter().map(|(_, fault)| fault).collect();
        if self.left_off > 0
            && let Some(last) = faults.last_mut()
        {
            last.message += &format!(" (and {} more faults)", self.left_off);
        }
        Err(PolicyError::Invalid(faults))
    }
}
