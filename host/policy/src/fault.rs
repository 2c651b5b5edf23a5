//! What is wrong with a policy: every place at once, each with what would be right.

use serde::Serialize;
use uc_words::place::Document;

use crate::trusted::Untrusted;

/// Who has made more slips than this has a file of another kind.
const FAULTS_MAX: usize = 100;

/// A policy that can't be had.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The file can't be read, or not be trusted.
    #[error(transparent)]
    Unread(#[from] Untrusted),
    /// The policy is none: what is wrong with it, one line each.
    #[error("{}", lines(.0))]
    Invalid(Vec<Fault>),
}

fn lines(faults: &[Fault]) -> String {
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

impl PolicyError {
    /// What is wrong with the policy, in the order of the file; nothing if it couldn't be read.
    pub fn faults(&self) -> &[Fault] {
        match self {
            PolicyError::Unread(_) => &[],
            PolicyError::Invalid(faults) => faults,
        }
    }
}

/// One thing that is wrong, where, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The file, or how else the text is called.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// The key's path, `rule.2.remote`; members of lists count from 0. Empty where the text is no
    /// TOML.
    pub key: String,
    /// What is wrong with it and what would be right.
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

/// The line says which rule it is: `rule.2.remote` is `remote` for people.
fn key_for_people(key: &str) -> String {
    let parts: Vec<&str> = key.split('.').collect();
    match &parts[..] {
        ["rule" | "tenant", number, rest @ ..] if is_number(number) => {
            // Which member of a list it is, the column says.
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

/// Faults as they are found.
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

    /// What is wrong with the value of a key, or with the table above where the key is missing.
    pub(crate) fn add(&mut self, key: &str, message: impl Into<String>) {
        self.add_at(self.document.offset(key), key, message);
    }

    /// The same, where the place in the text is known.
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

    /// The line where a key stands, to point at from elsewhere.
    pub(crate) fn line(&self, key: &str) -> usize {
        self.document.line_and_column(self.document.offset(key)).0
    }

    /// Whether the key stands in the file.
    pub(crate) fn is_given(&self, key: &str) -> bool {
        self.document.span(key).is_some()
    }

    /// Whether something was found under this key or a part of it.
    pub(crate) fn touch(&self, key: &str) -> bool {
        let within = |path: &str| {
            path.strip_prefix(key)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.found.iter().any(|(_, fault)| within(&fault.key))
    }

    /// Whether more is wrong than will be told.
    pub(crate) fn is_full(&self) -> bool {
        self.left_off > 0
    }

    /// Whether nothing was found.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// All of them, in the order of the file.
    ///
    /// # Errors
    /// If there is one.
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
