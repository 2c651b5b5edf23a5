//! The host's interfaces, and when they change.
//!
//! News are a doorbell only: whatever they say, all interfaces are read again. So nothing hangs on
//! their order or on none of them being lost, and after an overrun there is nothing to make up for.

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

/// News come in bursts: it is worth to wait so long for more.
const SETTLE: Duration = Duration::from_millis(10);
/// But no longer than this in all.
const SETTLE_MOST: Duration = Duration::from_millis(100);
/// What the kernel tells nobody is found after so long.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// More interfaces than this are not looked at.
pub const LINKS_MAX: usize = 65_536;

/// So often are they read where they change meanwhile: for a thousand it takes some 10 ms.
const READS_MAX: usize = 16;

type Answer = NetlinkMessage<RouteNetlinkMessage>;

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

/// Reads them until nothing came or went meanwhile: the kernel doesn't tell all at once, and one
/// that is there could be missing.
async fn read(handle: &Handle) -> Result<Vec<Link>, AgentError> {
    for _ in 0..READS_MAX {
        if let Some(links) = whole(&dump(handle).await?)? {
            return Ok(links);
        }
    }
    Err(failed("they come and go faster than they can be read"))
}

fn failed(why: impl ToString) -> AgentError {
    AgentError::io(
        "read the interfaces",
        std::io::Error::other(why.to_string()),
    )
}

/// All that the kernel answers, to its end mark.
async fn dump(handle: &Handle) -> Result<Vec<Answer>, AgentError> {
    let mut message = LinkMessage::default();
    // Counters of a thousand interfaces are most of what the kernel would write.
    let mask = vec![LinkExtentMask::SkipStats];
    message.attributes.push(LinkAttribute::ExtMask(mask));
    let mut request = Answer::from(RouteNetlinkMessage::GetLink(message));
    request.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let answers = handle.clone().request(request).map_err(failed)?;
    // And the end mark.
    Ok(answers.take(LINKS_MAX + 1).collect().await)
}

/// The interfaces of an answer; none if any of it says that it was interrupted.
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
            other => return Err(failed(format!("the kernel answers {other:?}"))),
        }
    }
    if !ended {
        return Err(failed("the answer has no end"));
    }
    links.sort_by_key(|link| link.ifindex);
    Ok(Some(links))
}

/// The interfaces, once.
///
/// # Errors
/// What the kernel refused.
pub async fn all() -> Result<Vec<Link>, AgentError> {
    let (mut connection, handle, _news) =
        rtnetlink::new_connection().map_err(|error| AgentError::io("open netlink", error))?;
    connection.set_forward_done(true);
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
    let (mut connection, handle, mut news) =
        rtnetlink::new_multicast_connection(&[MulticastGroup::Link]).map_err(failed)?;
    connection.set_forward_done(true);
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
    fn an_answer_during_which_an_interface_came_or_went_is_none() {
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
