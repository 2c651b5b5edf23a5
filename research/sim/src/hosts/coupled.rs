//! Connections that share a window: each event of one is heard by its group before it sends.

use super::Hosts;

impl Hosts {
    /// Something has happened at an end: where it is coupled, its group has its word before it sends.
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

    /// A connection that has less than its share may find room in it now.
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
            self.timers.keep(end.timer, end.connection.deadline());
            self.start_sends(place);
        }
    }
}
