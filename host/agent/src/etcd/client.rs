//! The follower of the fleet's policy: reads the policy's key, then watches the key from the revision that it read.
//!
//! Losing etcd changes nothing in force. A follower connects again after a pause that doubles up to [`PAUSE_MOST`];
//! then it reads the key again, so it needs no revision that etcd may have compacted meanwhile.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use etcd_client::{
    Certificate, Client, ConnectOptions, EventType, GetOptions, Identity, TlsOptions, WatchOptions,
};

use uc_files::{FileError, TEXT_MAX_BYTES};
use uc_policy::Etcd;

use super::Heard;

const PAUSE_FIRST: Duration = Duration::from_millis(250);
/// Maximum pause between two attempts to connect to etcd.
const PAUSE_MOST: Duration = Duration::from_secs(15);
const CONNECT_MOST: Duration = Duration::from_secs(3);
const ANSWER_MOST: Duration = Duration::from_secs(5);
/// Interval of keep-alives on a silent connection.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// Interval at which the files of the credentials are read again while etcd is connected.
const RENEW_EVERY: Duration = Duration::from_secs(30);

/// PEM texts with which etcd's servers and this host prove their identities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Credentials {
    /// Certificate of the authority that signs the servers' certificates; `None`: not configured.
    ca: Option<String>,
    /// This host's certificate and its private key; `None`: not configured.
    identity: Option<(String, String)>,
}

/// The follower's connection to etcd, `None` while there is none, for other tasks to use. Clones are cheap and share
/// the connection.
#[derive(Clone, Default)]
pub struct Connection(Arc<Mutex<Option<Client>>>);

impl Credentials {
    /// Reads the files that the settings name. They are read for each connection, so certificates can be renewed, and a
    /// file that is missing for a while only delays the next connection.
    fn read(etcd: &Etcd) -> Result<Self, FileError> {
        let identity = match &etcd.identity {
            Some((certificate, key)) => {
                Some((uc_files::read(certificate)?, uc_files::read_secret(key)?))
            }
            None => None,
        };
        let ca = etcd.ca.as_ref().map(|ca| uc_files::read(ca)).transpose()?;
        Ok(Self { ca, identity })
    }

    fn options(&self) -> ConnectOptions {
        let mut options = ConnectOptions::new()
            .with_connect_timeout(CONNECT_MOST)
            .with_timeout(ANSWER_MOST)
            .with_keep_alive(ASK_EVERY, CONNECT_MOST)
            .with_keep_alive_while_idle(true)
            .with_require_leader(true);
        if self.ca.is_some() || self.identity.is_some() {
            let mut tls = TlsOptions::new();
            if let Some(ca) = &self.ca {
                tls = tls.ca_certificate(Certificate::from_pem(ca));
            }
            if let Some((certificate, key)) = &self.identity {
                tls = tls.identity(Identity::from_pem(certificate, key));
            }
            options = options.with_tls(tls);
        }
        options
    }
}

impl Connection {
    fn set(&self, client: Option<Client>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = client;
    }

    fn client(&self) -> Result<Client, String> {
        let client = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        client
            .clone()
            .ok_or("the agent is not connected to etcd; `uc status` shows why".to_owned())
    }

    /// Returns whether the agent is connected to etcd.
    pub fn is_open(&self) -> bool {
        self.client().is_ok()
    }

    /// Stores a text under a key.
    ///
    /// # Errors
    /// The error of etcd or of the connection, as text.
    pub async fn put(&self, key: &str, value: &str) -> Result<(), String> {
        self.client()?.put(key, value, None).await.map_err(text)?;
        Ok(())
    }

    /// Returns the text under each of these keys, in their order; `None` if the key has no value, or one that is longer
    /// than `most` bytes or not UTF-8.
    ///
    /// # Errors
    /// As [`Connection::put`].
    pub async fn get_texts(
        &self,
        keys: &[String],
        most: usize,
    ) -> Result<Vec<Option<String>>, String> {
        let mut client = self.client()?;
        let mut texts = Vec::with_capacity(keys.len());
        for key in keys {
            let answer = client.get(key.as_str(), None).await.map_err(text)?;
            let value = answer.kvs().first().map(etcd_client::KeyValue::value);
            let value = value.filter(|value| value.len() <= most);
            texts.push(value.and_then(|value| String::from_utf8(value.to_vec()).ok()));
        }
        Ok(texts)
    }
}

/// Follows the policy's key until `tell` returns false. Meanwhile other tasks may use `connection`.
pub async fn follow(settings: Etcd, connection: Connection, mut tell: impl FnMut(Heard) -> bool) {
    let mut pause = PAUSE_FIRST;
    loop {
        let mut heard_any = false;
        let mut listens = true;
        let lost = attend(&settings, &connection, &mut |heard| {
            heard_any = true;
            listens = tell(heard);
            listens
        })
        .await;
        connection.set(None);
        if !listens {
            return;
        }
        let error = match lost {
            Ok(()) => "the watch was cancelled".to_owned(),
            Err(error) => error,
        };
        if !tell(Heard::Lost { error }) {
            return;
        }
        if heard_any {
            pause = PAUSE_FIRST;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MOST);
    }
}

/// Reads the policy's key once.
///
/// # Errors
/// The error of etcd, of the connection or of the credentials, as text.
pub async fn read(settings: &Etcd) -> Result<Heard, String> {
    let (mut client, _) = connect(settings).await?;
    let (heard, _) = get(&mut client, settings).await.map_err(text)?;
    Ok(heard)
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// Connects with the credentials that the files have now.
async fn connect(settings: &Etcd) -> Result<(Client, Credentials), String> {
    let credentials = Credentials::read(settings).map_err(text)?;
    let connected = Client::connect(&settings.endpoints, Some(credentials.options()));
    Ok((connected.await.map_err(text)?, credentials))
}

async fn get(client: &mut Client, settings: &Etcd) -> Result<(Heard, i64), etcd_client::Error> {
    let options = GetOptions::new().with_limit(1);
    let answer = client.get(settings.key.as_str(), Some(options)).await?;
    let revision = answer
        .header()
        .map_or(0, etcd_client::ResponseHeader::revision);
    let heard = match answer.kvs().first() {
        Some(found) => value(found.value(), found.mod_revision()),
        None => Heard::Missing { revision },
    };
    Ok((heard, revision))
}

/// Reports the key's value over one connection, then each change. Returns `Ok` when `tell` returns false or the watch's
/// stream ends.
///
/// # Errors
/// The error of etcd or of the connection; or the credentials' files have changed.
async fn attend(
    settings: &Etcd,
    connection: &Connection,
    tell: &mut impl FnMut(Heard) -> bool,
) -> Result<(), String> {
    let (mut client, credentials) = connect(settings).await?;
    let (heard, revision) = get(&mut client, settings).await.map_err(text)?;
    connection.set(Some(client.clone()));
    if !tell(Heard::Connected { revision }) || !tell(heard) {
        return Ok(());
    }
    // The watch begins at the next revision, so no change is missed.
    let options = WatchOptions::new()
        .with_start_revision(revision + 1)
        .with_progress_notify();
    let changes = client.watch(settings.key.as_str(), Some(options)).await;
    let mut changes = changes.map_err(text)?;
    let mut renew = tokio::time::interval(RENEW_EVERY);
    loop {
        let message = tokio::select! {
            message = changes.message() => message.map_err(text)?,
            _ = renew.tick() => {
                if Credentials::read(settings).is_ok_and(|now| now != credentials) {
                    return Err(
                        "the files of the certificates for etcd have changed; the agent connects \
                         again".to_owned());
                }
                continue;
            }
        };
        let Some(message) = message else {
            return Ok(());
        };
        if message.canceled() {
            // Compacted, or without a leader: the next connection reads the key again.
            return Err(message.cancel_reason().to_owned());
        }
        if let Some(header) = message.header()
            && !tell(Heard::Connected {
                revision: header.revision(),
            })
        {
            return Ok(());
        }
        // Of several changes only the last one counts.
        let Some((event, kv)) = message
            .events()
            .iter()
            .filter_map(|e| Some((e, e.kv()?)))
            .next_back()
        else {
            continue;
        };
        let heard = match event.event_type() {
            EventType::Put => value(kv.value(), kv.mod_revision()),
            EventType::Delete => Heard::Missing {
                revision: kv.mod_revision(),
            },
        };
        if !tell(heard) {
            return Ok(());
        }
    }
}

fn value(bytes: &[u8], revision: i64) -> Heard {
    let text = std::str::from_utf8(bytes).ok();
    match text.filter(|text| text.len() as u64 <= TEXT_MAX_BYTES) {
        Some(text) => Heard::Policy {
            text: text.to_owned(),
            revision,
        },
        None => Heard::NoText { revision },
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn credentials_are_read_again_and_a_readable_private_key_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str, mode| {
            fs::write(path(name), text).unwrap();
            fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        let etcd = Etcd {
            endpoints: vec!["https://10.0.0.1:2379".to_owned()],
            key: "/a".to_owned(),
            ca: Some(path("ca")),
            identity: Some((path("host"), path("key"))),
        };
        assert!(Credentials::read(&etcd).is_err(), "there is no file");
        write("ca", "one", 0o644);
        write("host", "two", 0o644);
        write("key", "three", 0o644);
        let refused = Credentials::read(&etcd).unwrap_err().to_string();
        assert!(refused.contains("chmod 600"), "{refused}");
        write("key", "three", 0o600);
        let first = Credentials::read(&etcd).unwrap();
        assert_eq!(Credentials::read(&etcd).unwrap(), first);
        write("host", "renewed", 0o644);
        assert_ne!(Credentials::read(&etcd).unwrap(), first);
    }
}
