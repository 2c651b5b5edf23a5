//! Names that libvirt and CNI give to the guest behind an interface. A name such as `vnet3` belongs
//! to whichever guest gets that number; these names belong to one guest.
//!
//! | name | interfaces |
//! |---|---|
//! | `libvirt:<domain>` | each tap of that running domain |
//! | `cni:<namespace>/<pod>` | the host's side of that pod's interfaces |
//! | `cni:<container>` | the host's side of that container's interfaces, if CNI has no pod's name |
//! | `alias:<text>` | the interface with that alias |

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;

use crate::guest_names::{FILE_MAX_BYTES, Kind, Named, Parser};
use crate::links::Link;

/// Folder in which libvirt's QEMU driver stores the state of running domains.
const LIBVIRT: &str = "/run/libvirt/qemu";
/// Folder in which CNI's library stores the results of its plugins.
const CNI: &str = "/var/lib/cni/results";
/// Maximum number of files that are read, and of interfaces with a guest's name, above any host's number
/// of domains or pods: a parser that an attacker has taken over may name more.
const FILES_MAX: usize = 16_384;
/// Maximum time for all files, of which a process parses thousands in a second.
const READ_MOST: Duration = Duration::from_secs(5);

/// The folders that are searched.
#[derive(Clone, Debug)]
pub struct Places {
    /// Folder of libvirt's domains.
    pub libvirt: PathBuf,
    /// Folder of CNI's results.
    pub cni: PathBuf,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            libvirt: PathBuf::from(LIBVIRT),
            cni: PathBuf::from(CNI),
        }
    }
}

/// Names of guests, by interface name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guests(BTreeMap<String, Vec<String>>);

impl Guests {
    /// Reads the names that libvirt and CNI give now. Missing or unreadable files give none. `parse`
    /// gets each file, unread: its content is not to be trusted.
    ///
    /// # Errors
    /// `parse` fails, files are left at the time `until`, or more interfaces have names than a host has.
    /// Then the names that were read are dropped.
    pub fn read(
        places: &Places,
        until: Instant,
        parse: &dyn Fn(Kind, File) -> io::Result<Option<Named>>,
    ) -> io::Result<Self> {
        let (mut guests, mut count) = (Self::default(), 0);
        let domains = files(&places.libvirt);
        let domains = domains
            .into_iter()
            .filter(|path| path.extension().is_some_and(|extension| extension == "xml"))
            .map(|path| (Kind::Domain, path));
        let attachments = files(&places.cni).into_iter();
        for (kind, path) in domains.chain(attachments.map(|path| (Kind::Attachment, path))) {
            let Some(file) = opened(&path) else {
                continue;
            };
            if Instant::now() >= until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let Some((name, interfaces)) = parse(kind, file)? else {
                continue;
            };
            count += interfaces.len();
            if count > FILES_MAX {
                let why = format!("more than {FILES_MAX} interfaces have names");
                return Err(io::Error::other(why));
            }
            for interface in interfaces {
                guests.0.entry(interface).or_default().push(name.clone());
            }
        }
        Ok(guests)
    }

    /// Returns all names of this interface for a policy, its own first. A bridge gets no guest's
    /// name.
    pub fn names(&self, link: &Link) -> Vec<String> {
        let mut names = vec![link.name.clone()];
        names.extend(link.altnames.iter().cloned());
        names.extend(link.alias.iter().map(|alias| format!("alias:{alias}")));
        if !link.is_bridge {
            names.extend(self.0.get(&link.name).into_iter().flatten().cloned());
        }
        names
    }
}

/// The names of guests, read again and again.
#[derive(Debug)]
pub struct Known {
    places: Places,
    parser: Parser,
    last: RefCell<Guests>,
}

impl Known {
    /// Creates the state without any guest's name.
    pub fn new(places: Places) -> Self {
        Self {
            places,
            parser: Parser::default(),
            last: RefCell::default(),
        }
    }

    /// Returns the names that libvirt and CNI give now. If they can't be parsed now, the last ones
    /// stay, and so do guests' ports.
    pub fn now(&self) -> Guests {
        let parse = |kind, file| self.parser.parse(kind, file);
        match Guests::read(&self.places, Instant::now() + READ_MOST, &parse) {
            Ok(guests) => *self.last.borrow_mut() = guests,
            Err(error) => {
                tracing::error!(%error, "guests' names can't be read; the last ones stay");
            }
        }
        self.last.borrow().clone()
    }
}

/// Returns the files of a folder sorted by name, so that the result does not depend on chance if
/// two files name one interface.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let entries = entries.take(FILES_MAX).filter_map(Result::ok);
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files
}

fn opened(path: &Path) -> Option<File> {
    let mut options = File::options();
    // A pipe does not delay the others.
    options.read(true).custom_flags(OFlag::O_NONBLOCK.bits());
    let file = options.open(path).ok()?;
    let metadata = file.metadata().ok()?;
    (metadata.is_file() && metadata.len() <= FILE_MAX_BYTES).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A domain as libvirt 9 writes it, shortened.
    const DOMAIN: &str = r#"<!--
WARNING: THIS IS AN AUTO-GENERATED FILE.
-->
<domstatus state='running' reason='booted' pid='4242'>
  <taint flag='high-privileges'/>
  <monitor path='/var/lib/libvirt/qemu/domain-1-web/monitor.sock' type='unix'/>
  <domain type='kvm' id='1'>
    <name>web &amp; db</name>
    <uuid>c7a5fdbd-edaf-9455-926a-d65c16db1809</uuid>
    <metadata><app:name xmlns:app='urn:x'>other</app:name></metadata>
    <devices>
      <disk type='file' device='disk'>
        <target dev='vda' bus='virtio'/>
      </disk>
      <interface type='network'>
        <mac address='52:54:00:aa:bb:cc'/>
        <source network='default' portid='3f' bridge='virbr0'/>
        <target dev='vnet3'/>
        <model type='virtio'/>
      </interface>
      <interface type='bridge'>
        <source bridge='br0'/>
        <target dev='vnet4' managed='yes'/>
      </interface>
    </devices>
  </domain>
</domstatus>"#;

    /// A result as libcni 1.1 writes it.
    const ATTACHMENT: &str = r#"{"kind":"cniCacheV1","containerId":"3f5c","config":"e30=",
        "ifName":"eth0","networkName":"pods","cniArgs":[["IgnoreUnknown","1"],
        ["K8S_POD_NAMESPACE","shop"],["K8S_POD_NAME","cart-0"]],
        "result":{"cniVersion":"1.0.0","interfaces":[{"name":"cni0","mac":"de:ad:00:00:00:01"},
        {"name":"veth7a1c","mac":"de:ad:00:00:00:02"},
        {"name":"eth0","mac":"de:ad:00:00:00:03","sandbox":"/var/run/netns/cni-1"}],
        "ips":[{"interface":2,"address":"10.1.0.5/24"}]}}"#;

    fn link(name: &str) -> Link {
        Link {
            name: name.to_owned(),
            ..Link::default()
        }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    /// Reads the names, and parses them in this process.
    fn read(places: &Places) -> Guests {
        let parse = |kind, file| Ok(crate::guest_names::parse(kind, file));
        Guests::read(places, soon(), &parse).unwrap()
    }

    fn places() -> (tempfile::TempDir, Places) {
        let folder = tempfile::tempdir().unwrap();
        let places = Places {
            libvirt: folder.path().join("libvirt"),
            cni: folder.path().join("cni"),
        };
        fs::create_dir(&places.libvirt).unwrap();
        fs::create_dir(&places.cni).unwrap();
        (folder, places)
    }

    #[test]
    fn the_kubernetes_manifest_mounts_cnis_folder() {
        let manifest = include_str!("../../../packaging/daemonset.yaml");
        let cni = Places::default().cni;
        for key in ["mountPath", "path"] {
            assert!(manifest.contains(&format!(" {key}: {}\n", cni.display())));
        }
    }

    #[test]
    fn a_domains_taps_and_not_its_disks_get_its_name() {
        let (_folder, places) = places();
        fs::write(places.libvirt.join("web.xml"), DOMAIN).unwrap();
        fs::write(places.libvirt.join("web.pid"), "4242").unwrap();
        let guests = read(&places);
        for tap in ["vnet3", "vnet4"] {
            assert_eq!(guests.names(&link(tap)), [tap, "libvirt:web & db"]);
        }
        assert_eq!(guests.names(&link("vda")), ["vda"]);
        assert_eq!(guests.names(&link("br0")), ["br0"]);
    }

    #[test]
    fn a_pods_interface_and_not_the_bridge_gets_its_name() {
        let (_folder, places) = places();
        fs::write(places.cni.join("pods-3f5c-eth0"), ATTACHMENT).unwrap();
        let anonymous = ATTACHMENT.replace("K8S_POD_NAME\"", "OTHER\"");
        fs::write(
            places.cni.join("pods-3f5c-eth1"),
            anonymous.replace("7a1c", "9"),
        )
        .unwrap();
        let guests = read(&places);
        assert_eq!(
            guests.names(&link("veth7a1c")),
            ["veth7a1c", "cni:shop/cart-0"]
        );
        assert_eq!(guests.names(&link("veth9")), ["veth9", "cni:3f5c"]);
        assert_eq!(guests.names(&link("eth0")), ["eth0"]);
        let bridge = Link {
            is_bridge: true,
            ..link("cni0")
        };
        assert_eq!(guests.names(&bridge), ["cni0"]);
    }

    #[test]
    fn an_interfaces_own_name_precedes_its_alternative_names() {
        let named = Link {
            altnames: vec!["web-in".to_owned()],
            alias: Some("rack 3".to_owned()),
            ..link("vnet3")
        };
        let names = Guests::default().names(&named);
        assert_eq!(names, ["vnet3", "web-in", "alias:rack 3"]);
    }

    #[test]
    fn names_are_not_known_if_they_cannot_be_parsed_now() {
        let (_folder, places) = places();
        fs::write(places.libvirt.join("web.xml"), DOMAIN).unwrap();
        let parse = |_, _| Err(io::ErrorKind::OutOfMemory.into());
        assert!(Guests::read(&places, soon(), &parse).is_err());
        let parse = |kind, file| Ok(crate::guest_names::parse(kind, file));
        let late = Guests::read(&places, Instant::now(), &parse);
        assert_eq!(late.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(Guests::read(&places, soon(), &parse).is_ok());
    }

    #[test]
    fn names_are_not_known_if_there_are_more_than_a_host_has() {
        let (_folder, places) = places();
        for name in ["web.xml", "db.xml"] {
            fs::write(places.libvirt.join(name), DOMAIN).unwrap();
        }
        let named = |count| {
            let interfaces = vec!["v".to_owned(); count];
            let parse = move |_, _| Ok(Some(("libvirt:x".to_owned(), interfaces.clone())));
            Guests::read(&places, soon(), &parse)
        };
        assert!(named(FILES_MAX / 2).is_ok());
        let refused = named(FILES_MAX / 2 + 1).unwrap_err().to_string();
        assert!(refused.contains("16384 interfaces"), "{refused}");
    }

    #[test]
    fn truncated_and_unknown_files_give_no_names() {
        let (_folder, places) = places();
        for (number, cut) in [0, 10, 300, DOMAIN.len() - 20].into_iter().enumerate() {
            let half = places.libvirt.join(format!("{number}.xml"));
            fs::write(half, &DOMAIN[..cut]).unwrap();
        }
        for (number, text) in ["", "{", "[]", &ATTACHMENT[..200]].into_iter().enumerate() {
            fs::write(places.cni.join(number.to_string()), text).unwrap();
        }
        assert_eq!(read(&places), Guests::default());
    }
}
