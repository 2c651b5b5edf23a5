//! Connections that share a window: each event of a connection goes to its group before the connection sends.

use super::Hosts;

impl Hosts {
    /// Handles an event at an end: if the end is coupled, its group sets the window before it
    /// sends.
    pub(super) fn couple(&mut self, place: usize) {
        let (now, end) = (self.now, &mut self.ends[place]);
        let Some(coupled) = &mut end.coupled else {
            return;
        };
        self.couplings
            .hear(place, coupled, &mut end.connection, now);
        let (membership, waiting) = (coupled.membership(), self.couplings.waiting(coupled));
        end.act(now, &mut self.network, self.rtts.is_on(), |tcp, mut out| {
            tcp.send(now, &mut out)
        });
        for _ in 0..waiting {
            if let Some((place, ticket)) = self.couplings.next_waiting(membership) {
                self.make_room(place, ticket);
            }
        }
    }

    /// Lets a connection with less than its share use the room that its group may have now.
    fn make_room(&mut self, place: usize, ticket: u64) {
        let (now, end) = (self.now, &mut self.ends[place]);
        let Some(coupled) = &mut end.coupled else {
            return;
        };
        if self
            .couplings
            .ask((place, ticket), coupled, &mut end.connection, now)
        {
            end.act(now, &mut self.network, self.rtts.is_on(), |tcp, mut out| {
                tcp.send(now, &mut out)
            });
            self.timers.keep(end.timer, end.deadline());
            self.start_sends(place);
        }
    }
}
