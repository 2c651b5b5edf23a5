//! The host's interfaces, and when they change.
//!
//! News are a doorbell only: whatever they say, all interfaces are read again. So nothing hangs on
//! their order or on none of them being lost, and after an overrun there is nothing to make up for.

use std::time::Duration;

use futures_util::{FutureExt, StreamExt, TryStreamExt};
use rtnetlink::packet_core::NetlinkPayload;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::link::{
    InfoKind, LinkAttribute, LinkExtentMask, LinkInfo, LinkMessage, Prop,
};
use rtnetlink::{Handle, MulticastGroup};

use crate::error::AgentError;

/// News come in bursts: it is worth to wait so long for more.
const SETTLE: Duration = Duration::from_millis(10);
/// But no longer than this in all.
const SETTLE_MOST: Duration = Duration::from_millis(100);
/// What the kernel tells nobody is found after so long.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// More interfaces than this are not looked at.
pub const LINKS_MAX: usize = 65_536;

/// One interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Its index in this network namespace.
    pub ifindex: u32,
    /// Its name.
    pub name: String,
    /// Its alternative names (`ip link property add altname`).
    pub altnames: Vec<String>,
    /// What an administrator noted of it (`ip link set alias`).
    pub alias: Option<String>,
    /// Whether it is a bridge: it has ports, and is none.
    pub is_bridge: bool,
}

impl From<LinkMessage> for Link {
    fn from(message: LinkMessage) -> Self {
        let mut link = Link {
            ifindex: message.header.index,
            ..Link::default()
        };
        for attribute in message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name = name,
                LinkAttribute::IfAlias(alias) => link.alias = Some(alias),
                LinkAttribute::PropList(properties) => {
                    let altname = |property| match property {
                        Prop::AltIfName(name) => Some(name),
                        _ => None,
                    };
                    link.altnames = properties.into_iter().filter_map(altname).collect();
                }
                LinkAttribute::LinkInfo(infos) => {
                    link.is_bridge = infos.contains(&LinkInfo::Kind(InfoKind::Bridge));
                }
                _ => {}
            }
        }
        link
    }
}

async fn read(handle: &Handle) -> Result<Vec<Link>, AgentError> {
    let failed = |error: rtnetlink::Error| {
        AgentError::io(
            "read the interfaces",
            std::io::Error::other(error.to_string()),
        )
    };
    // Counters of a thousand interfaces are most of what the kernel would write.
    let request = handle
        .link()
        .get()
        .set_filter_mask(AddressFamily::Unspec, vec![LinkExtentMask::SkipStats]);
    let mut links: Vec<Link> = request
        .execute()
        .take(LINKS_MAX)
        .map_ok(Link::from)
        .try_collect()
        .await
        .map_err(failed)?;
    links.sort_by_key(|link| link.ifindex);
    Ok(links)
}

/// The interfaces, once.
///
/// # Errors
/// What the kernel refused.
pub async fn all() -> Result<Vec<Link>, AgentError> {
    let (connection, handle, _news) =
        rtnetlink::new_connection().map_err(|error| AgentError::io("open netlink", error))?;
    let connection = tokio::spawn(connection);
    let links = read(&handle).await;
    connection.abort();
    links
}

/// What a follower is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// These are all the interfaces.
    Links(Vec<Link>),
    /// The kernel had more to say than there was room for.
    Overrun,
}

/// Tells all interfaces now and after each change, until `tell` answers that nobody listens.
///
/// # Errors
/// What the kernel refused; follow again.
pub async fn follow(mut tell: impl FnMut(News) -> bool) -> Result<(), AgentError> {
    let failed = |error| AgentError::io("open netlink", error);
    let (connection, handle, mut news) =
        rtnetlink::new_multicast_connection(&[MulticastGroup::Link]).map_err(failed)?;
    let connection = tokio::spawn(connection);
    // Whoever leaves here closes the socket.
    let _closes = scopeguard(move || connection.abort());
    loop {
        if !tell(News::Links(read(&handle).await?)) {
            return Ok(());
        }
        let mut overrun = false;
        let first = match tokio::time::timeout(LOOK_EVERY, news.next()).await {
            Ok(Some((first, _))) => first,
            Ok(None) => return Err(failed(std::io::Error::other("the kernel closed it"))),
            // Of an interface that is down, the kernel tells no new alternative names.
            Err(_) => continue,
        };
        overrun |= matches!(first.payload, NetlinkPayload::Overrun(_));
        let until = tokio::time::Instant::now() + SETTLE_MOST;
        loop {
            tokio::time::sleep(SETTLE).await;
            let mut more = false;
            while let Some(Some((message, _))) = news.next().now_or_never() {
                overrun |= matches!(message.payload, NetlinkPayload::Overrun(_));
                more = true;
            }
            if !more || tokio::time::Instant::now() >= until {
                break;
            }
        }
        if overrun && !tell(News::Overrun) {
            return Ok(());
        }
    }
}

/// Calls it at the end of the scope, whichever way that is left.
fn scopeguard(call: impl FnMut()) -> impl Drop {
    struct Guard<F: FnMut()>(F);
    impl<F: FnMut()> Drop for Guard<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    Guard(call)
}
