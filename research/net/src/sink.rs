//! The outputs of a network: deliveries, drops and marks.

use uc_words::Nanos;

use crate::queue::DropReason;
use crate::topology::{HostId, LinkId};

/// An observer of drops and marks inside a network; `()` ignores them.
pub trait Observer<P> {
    /// Reports that `link` dropped `packet` at `at`.
    fn dropped(&mut self, _at: Nanos, _link: LinkId, _packet: &P, _reason: DropReason) {}

    /// Reports that `link` marked `packet`, which carries CE now, at `at`.
    fn marked(&mut self, _at: Nanos, _link: LinkId, _packet: &P) {}

    /// Reports that `link` took `packet`, which came to the link's queue at `at`. Links report every packet only after
    /// [`Network::show_all`](crate::Network::show_all).
    #[inline(always)]
    fn taken(&mut self, _at: Nanos, _link: LinkId, _packet: &P) {}
}

impl<P> Observer<P> for () {}

/// A receiver of a network's outputs. Only deliveries must be handled.
pub trait Sink<P> {
    /// Reports that `packet` reached `host` at `at`.
    fn deliver(&mut self, at: Nanos, host: HostId, packet: P);

    /// Reports that `link` dropped `packet` at `at`.
    fn dropped(&mut self, _at: Nanos, _link: LinkId, _packet: &P, _reason: DropReason) {}

    /// Reports that `link` marked `packet`, which carries CE now, at `at`.
    fn marked(&mut self, _at: Nanos, _link: LinkId, _packet: &P) {}
}

/// An adapter that makes a sink an observer.
pub(crate) struct Watching<'a, S>(pub(crate) &'a mut S);

impl<P, S: Sink<P>> Observer<P> for Watching<'_, S> {
    fn dropped(&mut self, at: Nanos, link: LinkId, packet: &P, reason: DropReason) {
        self.0.dropped(at, link, packet, reason);
    }

    fn marked(&mut self, at: Nanos, link: LinkId, packet: &P) {
        self.0.marked(at, link, packet);
    }
}

/// A packet that reached a host and is still in the network's memory: [`Network::arrived`] shows it, and
/// [`Network::release`] frees that memory.
///
/// [`Network::arrived`]: crate::Network::arrived
/// [`Network::release`]: crate::Network::release
#[derive(Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Time at which the packet arrived.
    pub at: Nanos,
    /// Host that received the packet.
    pub host: HostId,
    pub(crate) number: u32,
}

/// A packet that reached a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery<P> {
    /// Time at which the packet arrived.
    pub at: Nanos,
    /// Host that received the packet.
    pub host: HostId,
    /// Packet as it arrived, with marks.
    pub packet: P,
}
