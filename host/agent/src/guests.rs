//! Names that libvirt and CNI give to the guest behind an interface. A name such as `vnet3` belongs
//! to whichever guest gets that number; these names belong to one guest.
//!
//! | name | interfaces |
//! |---|---|
//! | `libvirt:<domain>` | each tap of that running domain |
//! | `cni:<namespace>/<pod>` | the host's side of that pod's interfaces |
//! | `cni:<container>` | the host's side of that container's interfaces, if CNI has no pod's name |
//! | `alias:<text>` | the interface with that alias |

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use serde::Deserialize;

use crate::links::Link;

/// Folder in which libvirt's QEMU driver stores the state of running domains.
const LIBVIRT: &str = "/run/libvirt/qemu";
/// Folder in which CNI's library stores the results of its plugins.
const CNI: &str = "/var/lib/cni/results";
/// Maximum number of files that are read, above any host's number of domains or pods.
const FILES_MAX: usize = 16_384;
const FILE_MAX_BYTES: u64 = 1 << 20;

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
    /// Reads the names that libvirt and CNI give now. Missing or unreadable files give none.
    pub fn read(places: &Places) -> Self {
        let mut guests = Self::default();
        for path in files(&places.libvirt) {
            if path.extension().is_some_and(|extension| extension == "xml") {
                guests.add(text(&path).as_deref().and_then(domain));
            }
        }
        for path in files(&places.cni) {
            guests.add(text(&path).as_deref().and_then(attachment));
        }
        guests
    }

    fn add(&mut self, found: Option<(String, Vec<String>)>) {
        let Some((name, interfaces)) = found else {
            return;
        };
        for interface in interfaces {
            self.0.entry(interface).or_default().push(name.clone());
        }
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

fn text(path: &Path) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > FILE_MAX_BYTES {
        return None;
    }
    fs::read_to_string(path).ok()
}

/// Parses a running domain's name and its taps from libvirt's `<domstatus>`.
fn domain(text: &str) -> Option<(String, Vec<String>)> {
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
    /// Non-empty for the guest's side of the interface.
    #[serde(default)]
    sandbox: String,
}

/// Parses a pod's name and the host's sides of its interfaces, which may include a bridge.
fn attachment(text: &str) -> Option<(String, Vec<String>)> {
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
        let guests = Guests::read(&places);
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
        let guests = Guests::read(&places);
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
    fn truncated_and_unknown_files_give_no_names() {
        let (_folder, places) = places();
        for (number, cut) in [0, 10, 300, DOMAIN.len() - 20].into_iter().enumerate() {
            let half = places.libvirt.join(format!("{number}.xml"));
            fs::write(half, &DOMAIN[..cut]).unwrap();
        }
        for (number, text) in ["", "{", "[]", &ATTACHMENT[..200]].into_iter().enumerate() {
            fs::write(places.cni.join(number.to_string()), text).unwrap();
        }
        assert_eq!(Guests::read(&places), Guests::default());
    }
}
