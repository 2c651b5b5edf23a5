//! The hosts' shared secret: 128 bits in a file that only its owner reads.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::hash::Hasher;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use uc_files::FileError;

use crate::error::WatchError;
use crate::layout::{uc_probe_key, uc_probe_signed, uc_shim_watch_tag};

/// Room for two keys with much white space, in bytes; a longer file holds no key.
const KEYS_MAX_BYTES: u64 = 256;

/// The keys of a host: they differ from the other hosts' only while the fleet changes to a new key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeKeys {
    /// The key with which this host signs its probes, and whose probes it accepts.
    pub own: ProbeKey,
    /// Second key whose probes the host accepts; `None`: it accepts only those of `own`.
    pub also: Option<ProbeKey>,
}

impl From<ProbeKey> for ProbeKeys {
    fn from(own: ProbeKey) -> Self {
        Self { own, also: None }
    }
}

impl ProbeKeys {
    /// Reads a key file: one or two keys of 32 hexadecimal digits, with white space between. The first one becomes
    /// `own`.
    ///
    /// # Errors
    /// [`WatchError::KeyUnreadable`]; [`WatchError::KeyNotAFile`]; [`WatchError::KeyExposed`] if others may read it;
    /// [`WatchError::KeyForeign`] if others may have written it; [`WatchError::NoKey`]; [`WatchError::KeyGuessed`].
    pub fn read(path: &Path) -> Result<Self, WatchError> {
        let path = path.to_owned();
        // Opening a pipe without a writer would block.
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&path);
        let found = opened.and_then(|file| file.metadata());
        let about = match found {
            Ok(found) => found,
            Err(source) => return Err(WatchError::KeyUnreadable { path, source }),
        };
        if !about.is_file() {
            return Err(WatchError::KeyNotAFile { path });
        }
        if about.mode() & 0o077 != 0 {
            return Err(WatchError::KeyExposed { path });
        }
        let text = match uc_files::read_most(&path, KEYS_MAX_BYTES) {
            Ok(text) => text,
            Err(foreign @ FileError::Exposed { .. }) => return Err(foreign.into()),
            Err(_) => return Err(WatchError::NoKey { path }),
        };
        keys_in(&text, &path)
    }

    /// Returns whether [`ProbeKey::sign`] with one of the keys gives this tag.
    pub fn have_signed(&self, bytes: &[u8], tag: u64) -> bool {
        let mut keys = [Some(self.own), self.also].into_iter().flatten();
        keys.any(|key| key.sign(bytes) == tag)
    }
}

/// Reads the keys in the text of a key file.
fn keys_in(text: &str, path: &Path) -> Result<ProbeKeys, WatchError> {
    let key = |word: &str| match from_hexadecimal(word) {
        None => Err(WatchError::NoKey {
            path: path.to_owned(),
        }),
        Some(bytes) if bytes.iter().all(|&byte| byte == bytes[0]) => Err(WatchError::KeyGuessed {
            path: path.to_owned(),
        }),
        Some(bytes) => Ok(ProbeKey::from_bytes(bytes)),
    };
    let mut words = text.split_whitespace();
    let own = key(words.next().unwrap_or_default())?;
    let also = words.next().map(key).transpose()?;
    match words.next() {
        None => Ok(ProbeKeys { own, also }),
        Some(_) => Err(WatchError::NoKey {
            path: path.to_owned(),
        }),
    }
}

/// The key of the probes' tags, the same on all hosts that probe one another.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ProbeKey(pub(crate) uc_probe_key);

impl ProbeKey {
    /// Creates a key from sixteen bytes, the lowest of each half first, as SipHash numbers them.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let half = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
        Self(uc_probe_key {
            k0: half(0),
            k1: half(8),
        })
    }

    /// Writes a new random key into a file that must not exist yet.
    ///
    /// # Errors
    /// [`WatchError::KeyThere`]; [`WatchError::Kernel`] with the kernel's error.
    pub fn make(path: &Path) -> Result<(), WatchError> {
        let failed = |source| WatchError::kernel(format!("make {}", path.display()), source);
        let mut bytes = [0; 16];
        File::open("/dev/urandom")
            .and_then(|mut file| file.read_exact(&mut bytes))
            .map_err(failed)?;
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(|source| match source.kind() {
                io::ErrorKind::AlreadyExists => WatchError::KeyThere {
                    path: path.to_owned(),
                },
                _ => failed(source),
            })?;
        let written = writeln!(file, "{text}");
        if written.is_err() {
            // Half a key would block the next attempt.
            let _gone = fs::remove_file(path);
        }
        written.map_err(failed)
    }

    /// Returns the SipHash-2-4 of `bytes`. Their length must differ from that of a probe's signed text (`struct
    /// uc_probe_signed`), so that the tag of one is never that of the other.
    #[expect(
        deprecated,
        reason = "of the standard library's hashes it alone is SipHash-2-4 for good"
    )]
    pub fn sign(&self, bytes: &[u8]) -> u64 {
        let mut hash = std::hash::SipHasher::new_with_keys(self.0.k0, self.0.k1);
        hash.write(bytes);
        hash.finish()
    }

    /// Returns the SipHash-2-4 of a probe's signed text: the probe's tag.
    pub(crate) fn tag(&self, text: &uc_probe_signed) -> u64 {
        // SAFETY: both pointers are valid for the call, and the C side stores neither.
        unsafe { uc_shim_watch_tag(&self.0, text) }
    }
}

/// Prints the type's name in place of the secret key.
impl fmt::Debug for ProbeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProbeKey(…)")
    }
}

fn from_hexadecimal(text: &str) -> Option<[u8; 16]> {
    if text.len() != 32 || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; 16];
    for (at, byte) in bytes.iter_mut().enumerate() {
        let digits = &text[2 * at..2 * at + 2];
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_new_key_is_read_back_and_differs_from_others() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["one", "two"].map(|name| folder.path().join(name));
        let keys = paths.each_ref().map(|path| {
            ProbeKey::make(path).unwrap();
            ProbeKeys::read(path).unwrap()
        });
        assert_ne!(keys[0], keys[1]);
        assert_eq!(ProbeKeys::read(&paths[0]).unwrap(), keys[0]);
        assert!(
            ProbeKey::make(&paths[0]).is_err(),
            "a key is never replaced"
        );
    }

    #[test]
    fn an_invalid_or_readable_key_is_refused_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let read = |text: &str, mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            ProbeKeys::read(&path).map_err(|error| error.to_string())
        };
        let good = "000102030405060708090a0b0c0d0e0f";
        assert!(read(good, 0o600).is_ok());
        assert!(read(&format!("  {good}\n"), 0o400).is_ok());
        let exposed = read(good, 0o640).unwrap_err();
        assert!(exposed.contains("chmod 600"), "{exposed}");
        for text in [
            "",
            "00",
            &good[1..],
            &good.replace('0', "+"),
            &"0".repeat(40),
        ] {
            let error = read(text, 0o600).unwrap_err();
            assert!(error.contains("--make-key"), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_file_may_hold_a_second_key_which_is_accepted_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let [one, two] = [
            "000102030405060708090a0b0c0d0e0f",
            "0f0e0d0c0b0a09080706050403020100",
        ];
        let read = |text: &str| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            ProbeKeys::read(&path)
        };
        let (first, second) = (read(one).unwrap().own, read(two).unwrap().own);
        let both = read(&format!("{one}\n{two}\n")).unwrap();
        assert_eq!((both.own, both.also), (first, Some(second)));
        assert!(read(&format!("{one}\n{two}\n{one}\n")).is_err(), "a third");
        assert!(
            read(&format!("{one}\n{}\n", "0".repeat(32))).is_err(),
            "guessed"
        );
    }

    #[test]
    fn a_key_that_others_may_have_written_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        ProbeKey::make(&path).unwrap();
        let allow =
            |mode| fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
        allow(0o777);
        let refused = ProbeKeys::read(&path).unwrap_err().to_string();
        assert!(refused.contains("chmod go-w"), "{refused}");
        allow(0o700);
        ProbeKeys::read(&path).unwrap();
    }

    /// A test vector of SipHash's authors: key 00 01 … 0f, and the 56 bytes 00 01 … 37, which is
    /// the length of the text of a probe's tag.
    #[test]
    fn a_tag_is_siphash_2_4() {
        let key = ProbeKey::from_bytes(std::array::from_fn(|at| at as u8));
        let bytes: [u8; 56] = std::array::from_fn(|at| at as u8);
        let part = |from: usize| bytes[from..from + 16].try_into().unwrap();
        let text = uc_probe_signed {
            source: part(0),
            destination: part(16),
            probe: part(32),
            slot: bytes[48..52].try_into().unwrap(),
            left: u16::from_ne_bytes([bytes[52], bytes[53]]),
            zero: bytes[54..].try_into().unwrap(),
        };
        assert_eq!(key.tag(&text).to_le_bytes(), VECTOR_56);
        assert_eq!(key.sign(&bytes).to_le_bytes(), VECTOR_56);
        let keys = ProbeKeys {
            own: ProbeKey::from_bytes([1; 16]),
            also: Some(key),
        };
        assert!(keys.have_signed(&bytes, u64::from_le_bytes(VECTOR_56)));
        assert!(!keys.have_signed(&bytes[1..], u64::from_le_bytes(VECTOR_56)));
    }

    const VECTOR_56: [u8; 8] = [0xbd, 0x83, 0x8d, 0x3a, 0xaf, 0xbf, 0x8d, 0xb7];
}
