//! Parses the files in which libvirt and CNI name guests. Tenants may choose parts of their content, so
//! a process without rights parses them: it gets each file opened, and answers with names.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, OwnedFd};

use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use serde::Deserialize;
use uc_service::confine::{Confined, gets_on, receive, send};

/// Maximum length of a file that names a guest, in bytes.
pub const FILE_MAX_BYTES: u64 = 1 << 20;
/// Maximum length of an answer in bytes, enough for the names of 200 interfaces.
const ANSWER_MAX_BYTES: usize = 4096;
/// Maximum time to wait for an answer, in seconds. The parsing process ends earlier by itself if it uses too much CPU
/// time ([`gets_on`]).
const ANSWER_MOST_S: i64 = 5;
/// Answer for a file without names; an answer with names begins with [`SOME`].
const NONE: &[u8] = b"-";
const SOME: char = '+';

/// A guest's name, and the names of its interfaces on the host.
pub type Named = (String, Vec<String>);

/// The software that wrote a file with a guest's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The file of a running domain that libvirt wrote.
    Domain = 0,
    /// The result of a plugin, which CNI's library wrote.
    Attachment = 1,
}

/// The process that parses files; it is started when the first file is to be parsed.
#[derive(Debug, Default)]
pub struct Parser(RefCell<Option<Confined>>);

impl Parser {
    /// Passes a file to the parsing process, and returns the guest's name and interfaces. `None`: the file has no
    /// names, or the process ended twice while it parsed the file.
    ///
    /// # Errors
    /// The process can't be started, or does not answer in time, for instance because the machine is overloaded: the
    /// file's names are not known.
    pub fn parse(&self, kind: Kind, file: File) -> io::Result<Option<Named>> {
        let file = OwnedFd::from(file);
        for _ in 0..2 {
            let mut process = self.0.borrow_mut();
            let running = match process.take() {
                Some(running) => running,
                None => start()?,
            };
            // Dropping a process that does not answer kills it.
            if let Some(found) = ask(&running, kind, &file)? {
                *process = Some(running);
                return Ok(found);
            }
            let status = running.status()?;
            tracing::warn!(?kind, %status, "the process that parses guests' names has ended");
        }
        Ok(None)
    }
}

fn start() -> io::Result<Confined> {
    let process = Confined::start(["agent", "--confined", "names"])?;
    let most = TimeVal::seconds(ANSWER_MOST_S);
    setsockopt(&process, sockopt::ReceiveTimeout, &most)?;
    Ok(process)
}

/// Returns the process's answer. Outer `None`: the process has ended; inner `None`: the file has no names.
fn ask(process: impl AsFd, kind: Kind, file: &OwnedFd) -> io::Result<Option<Option<Named>>> {
    match send(&process, &[kind as u8], Some(file)) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(None),
        sent => sent?,
    }
    let mut answer = vec![0; ANSWER_MAX_BYTES];
    let got = receive(&process, &mut answer)?;
    Ok(got.map(|(length, _)| decoded(&answer[..length])))
}

fn decoded(answer: &[u8]) -> Option<Named> {
    let text = std::str::from_utf8(answer).ok()?.strip_prefix(SOME)?;
    let mut words = text.split('\0').map(str::to_owned);
    Some((words.next()?, words.collect()))
}

fn encoded(found: Option<Named>) -> Option<Vec<u8>> {
    let (name, interfaces) = found?;
    let mut words = std::iter::once(&name).chain(&interfaces);
    if words.any(|word| word.contains('\0')) {
        return None;
    }
    let text = format!("{SOME}{name}\0{}", interfaces.join("\0"));
    (text.len() <= ANSWER_MAX_BYTES).then(|| text.into_bytes())
}

/// Parses each file that the agent at the other end of the socket sends, until the agent ends. The caller has dropped
/// its capabilities.
pub fn serve(parent: impl AsFd) -> io::Result<()> {
    let mut kind = [0];
    while let Some((_, Some(file))) = receive(&parent, &mut kind)? {
        gets_on()?;
        let kind = match kind {
            [0] => Kind::Domain,
            _ => Kind::Attachment,
        };
        let answer = encoded(parse(kind, file.into()));
        send(&parent, answer.as_deref().unwrap_or(NONE), None)?;
    }
    Ok(())
}

/// Reads a guest's names from an open file of this kind; `None` if it has none or can't be read.
pub fn parse(kind: Kind, mut file: File) -> Option<Named> {
    let mut text = String::new();
    // A process that died may have read a part of it.
    file.rewind().ok()?;
    file.take(FILE_MAX_BYTES).read_to_string(&mut text).ok()?;
    read(kind, &text)
}

/// Parses a guest's names from the text of a file of this kind; `None` if it has none.
pub fn read(kind: Kind, text: &str) -> Option<Named> {
    match kind {
        Kind::Domain => domain(text),
        Kind::Attachment => attachment(text),
    }
}

/// Parses a running domain's name and its taps from libvirt's `<domstatus>`.
fn domain(text: &str) -> Option<Named> {
    let mut reader = quick_xml::Reader::from_str(text);
    let mut path: Vec<Vec<u8>> = Vec::new();
    let (mut name, mut taps) = (String::new(), Vec::new());
    let is = |path: &[Vec<u8>], end: &[&str]| {
        let end = end.iter().map(|part| part.as_bytes());
        path.len() >= end.len()
            && path[path.len() - end.len()..]
                .iter()
                .map(Vec::as_slice)
                .eq(end)
    };
    loop {
        match reader.read_event().ok()? {
            Event::Start(element) => path.push(element.name().as_ref().to_vec()),
            Event::End(_) => {
                path.pop()?;
            }
            Event::Empty(element)
                if element.name().as_ref() == b"target" && is(&path, &["devices", "interface"]) =>
            {
                taps.extend(attribute(&element, "dev"));
            }
            Event::Text(text) if is(&path, &["domain", "name"]) => name += &text.decode().ok()?,
            Event::GeneralRef(reference) if is(&path, &["domain", "name"]) => {
                name += resolve_predefined_entity(&reference.decode().ok()?)?;
            }
            Event::Eof => break,
            _ => {}
        }
    }
    let name = name.trim();
    (!name.is_empty()).then(|| (format!("libvirt:{name}"), taps))
}

fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let attribute = element.try_get_attribute(name).ok()??;
    Some(attribute.unescape_value().ok()?.into_owned())
}

/// A plugin's result, as CNI's library stores it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    container_id: String,
    #[serde(default)]
    cni_args: Vec<(String, String)>,
    result: PluginResult,
}

#[derive(Deserialize)]
struct PluginResult {
    #[serde(default)]
    interfaces: Vec<Interface>,
}

#[derive(Deserialize)]
struct Interface {
    name: String,
    /// The network namespace, for an interface on the guest's side; empty for one on the host.
    #[serde(default)]
    sandbox: String,
}

/// Parses a pod's name and the host's sides of its interfaces, which may include a bridge.
fn attachment(text: &str) -> Option<Named> {
    let kept: Kept = serde_json::from_str(text).ok()?;
    let argument = |name: &str| {
        let found = kept.cni_args.iter().find(|(key, _)| key == name)?;
        Some(found.1.as_str())
    };
    let pod = argument("K8S_POD_NAMESPACE").zip(argument("K8S_POD_NAME"));
    let name = match pod {
        Some((namespace, pod)) => format!("cni:{namespace}/{pod}"),
        None => format!("cni:{}", kept.container_id),
    };
    let outside = kept.result.interfaces.into_iter();
    let outside = outside.filter(|interface| interface.sandbox.is_empty());
    Some((name, outside.map(|interface| interface.name).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_decoded_as_it_was_encoded() {
        let named = |name: &str, interfaces: &[&str]| {
            let interfaces = interfaces.iter().map(|&name| name.to_owned()).collect();
            Some((name.to_owned(), interfaces))
        };
        for found in [
            named("libvirt:web & db", &["vnet3", "vnet4"]),
            named("cni:a", &["v"]),
        ] {
            assert_eq!(decoded(&encoded(found.clone()).unwrap()), found);
        }
        assert_eq!(encoded(None), None);
        assert_eq!(encoded(named("cni:a\0b", &["v"])), None);
        let long = "x".repeat(ANSWER_MAX_BYTES);
        assert_eq!(encoded(named(&long, &[])), None);
        for strange in [NONE, b"", b"\xff", b"?name"] {
            assert_eq!(decoded(strange), None);
        }
    }

    #[test]
    fn a_process_that_has_ended_is_told_from_one_that_cannot_answer() {
        let file = || OwnedFd::from(File::open("/dev/null").unwrap());
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let error = ask(&ours, Kind::Domain, &file()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(theirs);
        assert_eq!(ask(&ours, Kind::Domain, &file()).unwrap(), None);
    }
}
