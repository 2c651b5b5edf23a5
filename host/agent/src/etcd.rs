//! The fleet's policy: one key in etcd, followed from the revision at which it was read.
//!
//! Losing etcd changes nothing in force. A follower connects again after a pause that doubles up to
//! [`PAUSE_MOST`]; then it reads the key again, so it needs no revision that etcd may have
//! compacted away meanwhile.

use std::time::Duration;

use etcd_client::{
    Certificate, Client, ConnectOptions, EventType, GetOptions, Identity, TlsOptions, WatchOptions,
};

use uc_policy::trusted::TEXT_MAX_BYTES;

const PAUSE_FIRST: Duration = Duration::from_millis(250);
/// Maximum pause between two attempts.
const PAUSE_MOST: Duration = Duration::from_secs(15);
const CONNECT_MOST: Duration = Duration::from_secs(3);
const ANSWER_MOST: Duration = Duration::from_secs(5);
/// Interval of keep-alives on a silent connection.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// Location of the policy in etcd, and credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdSettings {
    /// Addresses of the cluster's members, such as `http://10.0.0.1:2379`.
    pub endpoints: Vec<String>,
    /// The key of the policy.
    pub key: String,
    /// Certificate of the authority that signs the members' certificates, PEM.
    pub ca_pem: Option<String>,
    /// This host's certificate and its private key, PEM.
    pub identity_pem: Option<(String, String)>,
}

/// An event for a follower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The key's value.
    Policy {
        /// A TOML document.
        text: String,
        /// The revision in which it was written.
        revision: i64,
    },
    /// The key has no value.
    Missing {
        /// The revision at which that was found.
        revision: i64,
    },
    /// The value is not text, or too long.
    NoText {
        /// The revision in which it was written.
        revision: i64,
    },
    /// The cluster answers.
    Connected {
        /// Newest known revision of the whole store, not of the key.
        revision: i64,
    },
    /// The cluster does not answer.
    Lost {
        /// The reason.
        error: String,
    },
}

impl EtcdSettings {
    fn options(&self) -> ConnectOptions {
        let mut options = ConnectOptions::new()
            .with_connect_timeout(CONNECT_MOST)
            .with_timeout(ANSWER_MOST)
            .with_keep_alive(ASK_EVERY, CONNECT_MOST)
            .with_keep_alive_while_idle(true)
            .with_require_leader(true);
        if self.ca_pem.is_some() || self.identity_pem.is_some() {
            let mut tls = TlsOptions::new();
            if let Some(ca) = &self.ca_pem {
                tls = tls.ca_certificate(Certificate::from_pem(ca));
            }
            if let Some((certificate, key)) = &self.identity_pem {
                tls = tls.identity(Identity::from_pem(certificate, key));
            }
            options = options.with_tls(tls);
        }
        options
    }
}

/// Follows the key until `tell` returns false.
pub async fn follow(settings: EtcdSettings, mut tell: impl FnMut(Heard) -> bool) {
    let mut pause = PAUSE_FIRST;
    loop {
        let mut heard_any = false;
        let mut listens = true;
        let lost = attend(&settings, &mut |heard| {
            heard_any = true;
            listens = tell(heard);
            listens
        })
        .await;
        if !listens {
            return;
        }
        let error = match lost {
            Ok(()) => "the watch was cancelled".to_owned(),
            Err(error) => error.to_string(),
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

/// Reads the key once.
///
/// # Errors
/// The error of etcd or of the connection, as text.
pub async fn read(settings: &EtcdSettings) -> Result<Heard, String> {
    let connect = Client::connect(&settings.endpoints, Some(settings.options()));
    let mut client = connect.await.map_err(|error| error.to_string())?;
    let (heard, _) = get(&mut client, settings)
        .await
        .map_err(|error| error.to_string())?;
    Ok(heard)
}

async fn get(
    client: &mut Client,
    settings: &EtcdSettings,
) -> Result<(Heard, i64), etcd_client::Error> {
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

/// Serves one connection: reports the value now, then each change.
async fn attend(
    settings: &EtcdSettings,
    tell: &mut impl FnMut(Heard) -> bool,
) -> Result<(), etcd_client::Error> {
    let mut client = Client::connect(&settings.endpoints, Some(settings.options())).await?;
    let (heard, revision) = get(&mut client, settings).await?;
    if !tell(Heard::Connected { revision }) || !tell(heard) {
        return Ok(());
    }
    // The watch begins at the next revision, so no change is missed.
    let options = WatchOptions::new()
        .with_start_revision(revision + 1)
        .with_progress_notify();
    let mut changes = client.watch(settings.key.as_str(), Some(options)).await?;
    while let Some(message) = changes.message().await? {
        if message.canceled() {
            // Compacted, or without a leader: the next connection reads the key again.
            let reason = message.cancel_reason().to_owned();
            return Err(etcd_client::Error::WatchError(reason));
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
    Ok(())
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
