//! Replaces `client` in a build without the cargo feature `etcd`: the policy in etcd can't be read, so the policy in
//! force stays.

use uc_policy::Etcd;

use super::Heard;

const ABSENT: &str = "this program was built without etcd; to build it with etcd: \
     cargo build --release -p uc-cli";

/// The connection to etcd of an agent that was built without etcd: never open.
#[derive(Clone, Default)]
pub struct Connection(());

impl Connection {
    /// Returns whether the connection is open, which it never is.
    pub fn is_open(&self) -> bool {
        false
    }

    /// Stores nothing.
    ///
    /// # Errors
    /// Always: names the command that builds a program with etcd.
    pub async fn put(&self, _key: &str, _value: &str) -> Result<(), String> {
        Err(ABSENT.to_owned())
    }

    /// Returns no values, because this agent was built without etcd.
    ///
    /// # Errors
    /// As [`Connection::put`]: always.
    pub async fn get_texts(
        &self,
        _keys: &[String],
        _most: usize,
    ) -> Result<Vec<Option<String>>, String> {
        Err(ABSENT.to_owned())
    }
}

/// Reports once that this agent can't follow etcd.
pub async fn follow(_settings: Etcd, _connection: Connection, mut tell: impl FnMut(Heard) -> bool) {
    let error = ABSENT.to_owned();
    let _listens = tell(Heard::Lost { error });
}

/// Reads no policy, because this agent was built without etcd.
///
/// # Errors
/// As [`Connection::put`]: always.
pub async fn read(_settings: &Etcd) -> Result<Heard, String> {
    Err(ABSENT.to_owned())
}
