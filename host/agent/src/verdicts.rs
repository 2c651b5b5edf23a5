//! Carries canaries' verdicts on a fleet's policies through etcd. Each canary has a key of its own below the policy's
//! key, `KEY/canary/HOST`, with a JSON list of its last verdicts.

use std::collections::BTreeMap;
use std::time::Duration;

use uc_client::state::{CanaryStage, CanaryState, Verdict};
use uc_policy::Etcd;

use crate::etcd::Connection;
use crate::event::Event;
use crate::publish::Shared;

/// Interval at which a canary stores new verdicts in etcd, and other hosts read the canaries' verdicts.
const EVERY: Duration = Duration::from_secs(2);
/// Maximum length of a canary's verdicts in etcd, in bytes.
const VERDICTS_MAX_BYTES: usize = 1 << 16;

fn key_of(etcd: &Etcd, host: &str) -> String {
    format!("{}/canary/{host}", etcd.key)
}

/// Stores and reads verdicts through the follower's connection until the engine has ended.
pub async fn carry(etcd: Etcd, connection: Connection, shared: Shared) {
    let mut stored = Vec::new();
    let mut failure = None;
    loop {
        tokio::time::sleep(EVERY).await;
        // the follower connects again, and says so
        if !connection.is_open() {
            continue;
        }
        let Some(canary) = shared.state().canary else {
            continue;
        };
        let carried = match carry_once(&etcd, &connection, &canary, &mut stored).await {
            Ok(None) => Ok(()),
            Ok(Some(verdicts)) => match shared.tell(Event::Verdicts(verdicts)) {
                true => Ok(()),
                false => return,
            },
            Err(error) => Err(error),
        };
        if let Err(error) = &carried
            && failure.as_ref() != Some(error)
        {
            tracing::warn!(error, "what canaries say can't be carried; trying again");
        }
        failure = carried.err();
    }
}

/// Stores this host's verdicts in etcd, unless etcd has them. Returns the canaries' verdicts if this host waits for
/// them, otherwise `None`.
async fn carry_once(
    etcd: &Etcd,
    connection: &Connection,
    canary: &CanaryState,
    stored: &mut Vec<Verdict>,
) -> Result<Option<BTreeMap<String, Vec<Verdict>>>, String> {
    if canary.said != *stored && !canary.said.is_empty() {
        let text = serde_json::to_string(&canary.said).map_err(|error| error.to_string())?;
        let key = key_of(etcd, &canary.host);
        connection.put(&key, &text).await?;
        stored.clone_from(&canary.said);
    }
    let is_other = !canary.hosts.contains(&canary.host);
    if !is_other || !matches!(canary.stage, CanaryStage::Waits | CanaryStage::Worse) {
        return Ok(None);
    }
    let keys: Vec<String> = canary.hosts.iter().map(|host| key_of(etcd, host)).collect();
    let texts = connection.get_texts(&keys, VERDICTS_MAX_BYTES).await?;
    let mut verdicts = BTreeMap::new();
    for (host, text) in canary.hosts.iter().zip(texts) {
        // one that says nothing, or what nobody understands, has not said that the policy is good
        let said = text.and_then(|text| serde_json::from_str(&text).ok());
        verdicts.insert(host.clone(), said.unwrap_or_default());
    }
    Ok(Some(verdicts))
}
