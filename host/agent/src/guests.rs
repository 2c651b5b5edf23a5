//! Names that libvirt and CNI give to the guest behind an interface. A name such as `vnet3` belongs to whichever guest
//! gets that number; the names in this table always belong to the same guest.
//!
//! | name | interfaces |
//! |---|---|
//! | `libvirt:<domain>` | each tap of that running domain |
//! | `cni:<namespace>/<pod>` | the host's side of that pod's interfaces |
//! | `cni:<container>` | the host's side of that container's interfaces, if CNI has no pod's name |
//! | `alias:<text>` | the interface with that alias |

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use nix::fcntl::OFlag;

use crate::guest_names::{FILE_MAX_BYTES, Kind, Named, Parser};
use crate::links::Link;

/// Folder in which libvirt's QEMU driver stores the state of running domains.
const LIBVIRT: &str = "/run/libvirt/qemu";
/// Folder in which CNI's library stores the results of its plugins.
const CNI: &str = "/var/lib/cni/results";
/// Maximum number of files that are read in a folder, more than any host has domains or pods. Of more files, the first
/// by name are read.
const FILES_MAX: usize = 16_384;
/// Maximum number of interfaces that a file may name, more than any guest has. A file with more gives no names.
const INTERFACES_MAX: usize = 256;
/// Time after which a call reads no further file; the next call continues. A process parses thousands of files in a
/// second.
const READ_MOST: Duration = Duration::from_secs(5);
/// Duration from which the parsing of a file counts as slow; the next call parses slow files after all
/// other files.
const SLOW: Duration = Duration::from_millis(100);
/// Minimum age of a file's change time. Only an older change time proves, when it is equal again, that the file is
/// unchanged: file systems may store times in whole seconds.
const SETTLED: Duration = Duration::from_secs(2);

/// The folders that are searched for files with guests' names.
#[derive(Clone, Debug)]
pub struct Places {
    /// Folder in which libvirt keeps a file for each running domain.
    pub libvirt: PathBuf,
    /// Folder in which CNI plug-ins keep their results.
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

/// Names of the host's guests, keyed by the name of the guest's interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guests(BTreeMap<String, Vec<String>>);

impl Guests {
    /// Returns all names of this interface that a policy may use: the interface's own name first, then its alternative
    /// names, alias and guests' names. A bridge gets no guest's name.
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

/// A version of a file: device, inode, length, and time of the last change in seconds and nanoseconds.
type Version = (u64, u64, u64, i64, i64);

/// The result of parsing a file that names a guest, stored until the file changes.
#[derive(Debug, Default)]
struct Stored {
    /// The version that was parsed; `None`: the file may have changed unnoticed, or its parsing failed.
    version: Option<Version>,
    /// Whether the last parsing failed or was slow.
    is_slow: bool,
    named: Option<Named>,
}

/// The names of guests by file. Only files that have changed are parsed again.
#[derive(Debug, Default)]
struct Files(BTreeMap<PathBuf, Stored>);

impl Files {
    /// Reads the files that are new or have changed, until the time `until`. Missing or unreadable files give no names.
    /// `parse` gets each file, unread, because its content is not to be trusted. If a file can't be parsed now, its
    /// last names stay. A file whose parsing fails or is slow is parsed after the others at the next call.
    fn refresh(
        &mut self,
        places: &Places,
        until: Instant,
        parse: &dyn Fn(Kind, File) -> io::Result<Option<Named>>,
    ) {
        let is_domain = |path: &Path| path.extension().is_some_and(|ends| ends == "xml");
        let domains = files(&places.libvirt, is_domain).into_iter();
        let attachments = files(&places.cni, |_| true).into_iter();
        let domains = domains.map(|path| (path, Kind::Domain));
        let now: BTreeMap<PathBuf, Kind> = domains
            .chain(attachments.map(|path| (path, Kind::Attachment)))
            .collect();
        self.0.retain(|path, _| now.contains_key(path));
        let mut order: Vec<_> = now.into_iter().collect();
        order.sort_by_key(|(path, _)| self.0.get(path).is_some_and(|stored| stored.is_slow));
        for (path, kind) in order {
            let Some((file, version)) = opened(&path) else {
                self.0.remove(&path);
                continue;
            };
            let stored = self.0.entry(path.clone()).or_default();
            if stored.version.is_some() && stored.version == version {
                continue;
            }
            if Instant::now() >= until {
                tracing::warn!(
                    "guests' names take too long to read; the last ones of the others stay"
                );
                return;
            }
            let begun = Instant::now();
            match parse(kind, file) {
                Ok(named) => {
                    let few = |named: &Named| named.1.len() <= INTERFACES_MAX;
                    *stored = Stored {
                        version,
                        is_slow: begun.elapsed() >= SLOW,
                        named: named.filter(few),
                    };
                }
                Err(error) => {
                    tracing::error!(?path, %error, "a guest's names can't be read; the last ones stay");
                    (stored.version, stored.is_slow) = (None, true);
                }
            }
        }
    }

    fn guests(&self) -> Guests {
        let mut guests = Guests::default();
        for (name, interfaces) in self.0.values().filter_map(|stored| stored.named.as_ref()) {
            for interface in interfaces {
                let names = guests.0.entry(interface.clone()).or_default();
                names.push(name.clone());
            }
        }
        guests
    }
}

/// The names of the host's guests, and what was parsed for them. They are refreshed at each call of [`Known::now`].
#[derive(Debug)]
pub struct Known {
    places: Places,
    parser: Parser,
    files: RefCell<Files>,
}

impl Known {
    /// Creates the state without any guest's name.
    pub fn new(places: Places) -> Self {
        Self {
            places,
            parser: Parser::default(),
            files: RefCell::default(),
        }
    }

    /// Returns the names that libvirt and CNI give now. If a file can't be parsed now, its last names stay, so its
    /// guest's ports stay attached.
    pub fn now(&self) -> Guests {
        let parse = |kind, file| self.parser.parse(kind, file);
        let mut files = self.files.borrow_mut();
        files.refresh(&self.places, Instant::now() + READ_MOST, &parse);
        files.guests()
    }
}

/// Returns the files of a folder that `is_wanted` accepts: of more than [`FILES_MAX`], the first by name.
fn files(folder: &Path, is_wanted: impl Fn(&Path) -> bool) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut is_cut = false;
    let entries = fs::read_dir(folder).into_iter().flatten();
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        if is_wanted(&path) {
            found.insert(path);
        }
        if found.len() > FILES_MAX {
            found.pop_last();
            is_cut = true;
        }
    }
    if is_cut {
        tracing::warn!(
            ?folder,
            "more than {FILES_MAX} files name guests, so some guests have no names; remove those of \
             guests that have gone"
        );
    }
    found
}

/// Opens a file, with its version; `None` if it can't be opened, is no regular file, or is too long. The version is
/// `None` if the file has changed so recently that a further change might not show.
fn opened(path: &Path) -> Option<(File, Option<Version>)> {
    let mut options = File::options();
    // A pipe does not delay the others.
    options.read(true).custom_flags(OFlag::O_NONBLOCK.bits());
    let file = options.open(path).ok()?;
    let metadata = file.metadata().ok()?;
    (metadata.is_file() && metadata.len() <= FILE_MAX_BYTES).then(|| (file, version(&metadata)))
}

fn version(of: &Metadata) -> Option<Version> {
    let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(of.ctime().try_into().ok()?);
    let age = SystemTime::now().duration_since(changed).ok()?;
    (age > SETTLED).then(|| (of.dev(), of.ino(), of.len(), of.ctime(), of.ctime_nsec()))
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

    /// Parses a file in this process.
    fn parse(kind: Kind, file: File) -> io::Result<Option<Named>> {
        Ok(crate::guest_names::parse(kind, file))
    }

    /// Reads the names for the first time.
    fn read(places: &Places) -> Guests {
        let mut files = Files::default();
        files.refresh(places, soon(), &parse);
        files.guests()
    }

    /// Returns the text of a domain with this name and tap.
    fn domain(name: &str, tap: &str) -> String {
        DOMAIN.replace("web &amp; db", name).replace("vnet3", tap)
    }

    fn fails(_: Kind, _: File) -> io::Result<Option<Named>> {
        Err(io::ErrorKind::WouldBlock.into())
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
    fn names_stay_where_a_file_cannot_be_parsed_now_or_time_is_over() {
        let (_folder, places) = places();
        let web = places.libvirt.join("web.xml");
        fs::write(&web, domain("web", "vnet3")).unwrap();
        let mut files = Files::default();
        files.refresh(&places, soon(), &parse);
        let before = files.guests();
        assert_eq!(before.names(&link("vnet3")), ["vnet3", "libvirt:web"]);
        fs::write(&web, domain("other", "vnet3")).unwrap();
        files.refresh(&places, soon(), &fails);
        assert_eq!(files.guests(), before);
        files.refresh(&places, Instant::now(), &parse);
        assert_eq!(files.guests(), before);
        files.refresh(&places, soon(), &parse);
        let names = files.guests().names(&link("vnet3"));
        assert_eq!(names, ["vnet3", "libvirt:other"]);
        fs::remove_file(&web).unwrap();
        files.refresh(&places, soon(), &parse);
        assert_eq!(files.guests(), Guests::default());
    }

    #[test]
    fn files_at_which_parsing_fails_or_is_slow_delay_no_others_at_the_next_call() {
        let (_folder, places) = places();
        for (name, tap) in [("a", "vnet1"), ("b", "vnet2"), ("web", "vnet3")] {
            let file = places.libvirt.join(format!("{name}.xml"));
            fs::write(file, domain(name, tap)).unwrap();
        }
        let calls = RefCell::new(Vec::new());
        let parse = |kind, file: File| {
            let named = crate::guest_names::parse(kind, file).unwrap();
            let name = named.0.clone();
            calls.borrow_mut().push(name.clone());
            match &name[..] {
                "libvirt:a" => return fails(kind, File::open("/dev/null")?),
                "libvirt:b" => std::thread::sleep(SLOW),
                _ => {}
            }
            Ok(Some(named))
        };
        let mut files = Files::default();
        files.refresh(&places, soon(), &parse);
        let names = files.guests().names(&link("vnet3"));
        assert_eq!(names, ["vnet3", "libvirt:web"]);
        calls.borrow_mut().clear();
        files.refresh(&places, soon(), &parse);
        assert_eq!(*calls.borrow(), ["libvirt:web", "libvirt:a", "libvirt:b"]);
    }

    #[test]
    fn files_that_have_not_changed_are_not_parsed_again() {
        let (_folder, places) = places();
        let web = places.libvirt.join("web.xml");
        fs::write(&web, DOMAIN).unwrap();
        let mut files = Files::default();
        let opened = || opened(&web).unwrap().1;
        while opened().is_none() {
            std::thread::sleep(Duration::from_millis(50));
        }
        files.refresh(&places, soon(), &parse);
        let before = files.guests();
        let never = |_, _| panic!("parsed again");
        files.refresh(&places, soon(), &never);
        assert_eq!(files.guests(), before);
        fs::write(&web, domain("web", "vnet5")).unwrap();
        files.refresh(&places, soon(), &parse);
        assert_eq!(files.guests().names(&link("vnet5")).len(), 2);
    }

    #[test]
    fn a_file_that_names_more_interfaces_than_a_guest_has_gives_no_names() {
        let (_folder, places) = places();
        for name in ["db", "web"] {
            let file = places.libvirt.join(format!("{name}.xml"));
            fs::write(file, domain(name, name)).unwrap();
        }
        let parse = |kind, file| {
            let named = crate::guest_names::parse(kind, file);
            Ok(named.map(|(name, taps)| match &name[..] {
                "libvirt:db" => (name, vec!["web".to_owned(); INTERFACES_MAX + 1]),
                _ => (name, taps),
            }))
        };
        let mut files = Files::default();
        files.refresh(&places, soon(), &parse);
        let names = files.guests().names(&link("web"));
        assert_eq!(names, ["web", "libvirt:web"]);
    }

    #[test]
    fn too_many_files_are_cut_by_name_whatever_order_the_folder_has_them_in() {
        let (_folder, places) = places();
        for number in (0..=FILES_MAX).rev() {
            fs::write(places.cni.join(format!("{number:05}")), "").unwrap();
        }
        let found = files(&places.cni, |_| true);
        assert_eq!(found.len(), FILES_MAX);
        assert!(!found.contains(&places.cni.join(FILES_MAX.to_string())));
        let is_wanted = |path: &Path| !path.ends_with("00000");
        assert!(files(&places.cni, is_wanted).contains(&places.cni.join(FILES_MAX.to_string())));
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
