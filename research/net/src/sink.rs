//! What comes out of a network, and who is told of it.

use crate::queue::DropReason;
use crate::topology::{HostId, LinkId};
use crate::units::Nanos;

/// Who is told of what happens inside a network; `()` for nobody.
pub trait Observer<P> {
    /// `link` dropped `packet` at `at`.
    fn dropped(&mut self, _at: Nanos, _link: LinkId, _packet: &P, _reason: DropReason) {}

    /// `link` marked `packet`, which carries CE now, at `at`.
    fn marked(&mut self, _at: Nanos, _link: LinkId, _packet: &P) {}
}

impl<P> Observer<P> for () {}

/// What comes out of a network. Only deliveries must be dealt with.
pub trait Sink<P> {
    /// `packet` reached `host` at `at`.
    fn deliver(&mut self, at: Nanos, host: HostId, packet: P);

    /// `link` dropped `packet` at `at`.
    fn dropped(&mut self, _at: Nanos, _link: LinkId, _packet: &P, _reason: DropReason) {}

    /// `link` marked `packet`, which carries CE now, at `at`.
    fn marked(&mut self, _at: Nanos, _link: LinkId, _packet: &P) {}
}

/// A sink, as far as it observes.
pub(crate) struct Watching<'a, S>(pub(crate) &'a mut S);

impl<P, S: Sink<P>> Observer<P> for Watching<'_, S> {
    fn dropped(&mut self, at: Nanos, link: LinkId, packet: &P, reason: DropReason) {
        self.0.dropped(at, link, packet, reason);
    }

    fn marked(&mut self, at: Nanos, link: LinkId, packet: &P) {
        self.0.marked(at, link, packet);
    }
}

/// A packet that reached a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery<P> {
    /// When it did.
    pub at: Nanos,
    /// Which host.
    pub host: HostId,
    /// The packet.
    pub packet: P,
}
