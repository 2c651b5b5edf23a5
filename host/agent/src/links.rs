//! The host's interfaces and their changes.
//!
//! Notifications only trigger: whatever a notification contains, all interfaces are read again. So neither the order of
//! notifications nor the loss of one matters, and an overrun needs no recovery.

use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use rtnetlink::packet_core::{
    NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::link::{
    InfoKind, LinkAttribute, LinkExtentMask, LinkInfo, LinkMessage, Prop,
};
use rtnetlink::{Handle, MulticastGroup};
use uc_client::AgentError;

/// Time to wait for the next notification of a burst.
const SETTLE: Duration = Duration::from_millis(10);
/// Longest time to collect one burst of notifications.
const SETTLE_MOST: Duration = Duration::from_millis(100);
/// Interval of reading without a notification, for changes that the kernel does not report.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Maximum number of interfaces that are read.
pub const LINKS_MAX: usize = 65_536;

/// Maximum number of attempts if interfaces change while they are read: reading a thousand takes
/// about 10 ms.
const READS_MAX: usize = 16;

type Answer = NetlinkMessage<RouteNetlinkMessage>;

/// A network interface of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Index of the interface in this network namespace.
    pub ifindex: u32,
    /// Name of the network interface, such as `tap0`.
    pub name: String,
    /// Alternative names (`ip link property add altname`).
    pub altnames: Vec<String>,
    /// Alias, any text set by an administrator (`ip link set alias`); `None`: no alias is set.
    pub alias: Option<String>,
    /// Whether the interface is a bridge: a bridge has ports and is not a port itself.
    pub is_bridge: bool,
    /// Index of the interface that this one belongs to, such as a bridge.
    pub master: Option<u32>,
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
                LinkAttribute::Controller(master) => link.master = Some(master),
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

/// Reads the interfaces again until none changed during a reading, [`READS_MAX`] times at most. The kernel does not
/// return all interfaces at once, so an existing one could be missing.
async fn read(handle: &Handle) -> Result<Vec<Link>, AgentError> {
    for _ in 0..READS_MAX {
        if let Some(links) = whole(&dump(handle).await?)? {
            return Ok(links);
        }
    }
    Err(failed(format!(
        "interfaces changed during each of {READS_MAX} reads"
    )))
}

fn failed(why: impl ToString) -> AgentError {
    AgentError::io(
        "read the interfaces",
        std::io::Error::other(why.to_string()),
    )
}

/// Returns all messages of the kernel's answer to one dump of the interfaces, including its end mark.
async fn dump(handle: &Handle) -> Result<Vec<Answer>, AgentError> {
    let mut message = LinkMessage::default();
    // Statistics of a thousand interfaces would be most of the answer.
    let mask = vec![LinkExtentMask::SkipStats];
    message.attributes.push(LinkAttribute::ExtMask(mask));
    let mut request = Answer::from(RouteNetlinkMessage::GetLink(message));
    request.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let answers = handle.clone().request(request).map_err(failed)?;
    // The connection forwards the end mark too.
    Ok(answers.take(LINKS_MAX + 1).collect().await)
}

/// Returns the interfaces in the kernel's answer; `None` if a message says that the dump was interrupted.
fn whole(answers: &[Answer]) -> Result<Option<Vec<Link>>, AgentError> {
    let mut links = Vec::new();
    let mut ended = answers.len() > LINKS_MAX;
    for answer in answers {
        if answer.header.flags & NLM_F_DUMP_INTR != 0 {
            return Ok(None);
        }
        match &answer.payload {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => {
                links.push(Link::from(link.clone()));
            }
            NetlinkPayload::Done(done) if done.code < 0 => {
                return Err(failed(std::io::Error::from_raw_os_error(-done.code)));
            }
            NetlinkPayload::Done(_) => ended = true,
            NetlinkPayload::Error(error) => return Err(failed(error.to_io())),
            other => {
                return Err(failed(format!(
                    "the kernel sent an unexpected netlink message: {other:?}"
                )));
            }
        }
    }
    if !ended {
        return Err(failed(
            "the kernel's netlink answer ended without its end mark",
        ));
    }
    links.sort_by_key(|link| link.ifindex);
    Ok(Some(links))
}

/// Reads all network interfaces once.
pub async fn all() -> Result<Vec<Link>, AgentError> {
    let (mut connection, handle, _news) =
        rtnetlink::new_connection().map_err(|error| AgentError::io("open netlink", error))?;
    connection.set_forward_done(true);
    let connection = tokio::spawn(connection);
    let links = read(&handle).await;
    connection.abort();
    links
}

/// A notification for a follower of the network interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The complete list of the network interfaces, after a change.
    Links(Vec<Link>),
    /// The socket's buffer overflowed: notifications were lost.
    Overrun,
}

/// Calls `tell` with all interfaces now and after each change, until `tell` returns false.
///
/// # Errors
/// The kernel refuses the socket or a dump; the caller may call again.
pub async fn follow(mut tell: impl FnMut(News) -> bool) -> Result<(), AgentError> {
    let failed = |error| AgentError::io("open netlink", error);
    let (mut connection, handle, mut news) =
        rtnetlink::new_multicast_connection(&[MulticastGroup::Link]).map_err(failed)?;
    connection.set_forward_done(true);
    let connection = tokio::spawn(connection);
    // Leaving this function in any way closes the socket.
    let _closes = scopeguard(move || connection.abort());
    loop {
        if !tell(News::Links(read(&handle).await?)) {
            return Ok(());
        }
        let mut overrun = false;
        let first = match tokio::time::timeout(LOOK_EVERY, news.next()).await {
            Ok(Some((first, _))) => first,
            Ok(None) => {
                return Err(failed(std::io::Error::other(
                    "the kernel closed the netlink socket",
                )));
            }
            // The kernel does not report new alternative names of an interface that is down.
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

/// Returns a guard that calls `call` at the end of its scope.
fn scopeguard(call: impl FnMut()) -> impl Drop {
    struct Guard<F: FnMut()>(F);
    impl<F: FnMut()> Drop for Guard<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    Guard(call)
}

#[cfg(test)]
mod tests {
    use rtnetlink::packet_core::DoneMessage;

    use super::*;

    fn answer(ifindex: u32, flags: u16) -> Answer {
        let mut message = LinkMessage::default();
        message.header.index = ifindex;
        let mut answer = Answer::from(RouteNetlinkMessage::NewLink(message));
        answer.header.flags = flags;
        answer
    }

    #[test]
    fn an_interrupted_answer_is_ignored() {
        let mut done = answer(0, 0);
        done.payload = NetlinkPayload::Done(DoneMessage::default());
        let read = |answers: &[Answer]| whole(answers).unwrap();
        let links = read(&[answer(7, 0), answer(3, 0), done.clone()]).unwrap();
        let indices: Vec<u32> = links.iter().map(|link| link.ifindex).collect();
        assert_eq!(indices, [3, 7]);
        assert_eq!(read(&[answer(3, NLM_F_DUMP_INTR), done.clone()]), None);
        assert!(whole(&[answer(3, 0)]).is_err(), "half an answer");
        done.header.flags = NLM_F_DUMP_INTR;
        assert_eq!(read(&[answer(3, 0), done]), None, "at its very end");
    }
}
