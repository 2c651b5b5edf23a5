//! Layouts of flows as other versions of uc may have them, and the move of a flow through such a layout: in a hand-over
//! file, whose reader finds each field by its name (`uc-port`).

use uc_core::Flow;
use uc_net::random::Stream;
use uc_port::{Handover, HandoverError};

/// Tag in place of a signature: these files are not signed.
const TAG: u64 = 0;

/// A fault in a layout, for tests that must notice it.
#[derive(Clone, Copy, Debug, Default)]
pub enum Fault {
    /// All fields are where the description has them.
    #[default]
    None,
    /// The layout lacks a field of this name.
    Lost(&'static str),
    /// The first field lies where the second one does.
    Misplaced(&'static str, &'static str),
}

/// A field: name, offset, size in bytes and kind.
struct Field<'a>(&'a str, usize, usize, &'a str);

impl<'a> Field<'a> {
    fn parse(line: &'a str) -> Option<Field<'a>> {
        let mut words = line.split(' ');
        let mut word = || words.next();
        let (name, at, bytes) = (word()?, word()?, word()?);
        Some(Field(name, at.parse().ok()?, bytes.parse().ok()?, word()?))
    }
}

/// Draws the layout with this number, and returns its description. Each struct has its fields in another order, one of
/// them wider, and one more field; number 0 is this build's layout.
pub fn draw(number: u32, fault: Fault) -> String {
    let own = Handover::description();
    let random = &mut Stream::new(number.into(), "layout");
    let mut lines = own.lines().peekable();
    let mut text = String::new();
    while let Some((name, bytes)) = lines.next().and_then(|line| line.split_once(' ')) {
        let fields = std::iter::from_fn(|| lines.next_if(|line| Field::parse(line).is_some()));
        let mut fields: Vec<Field<'_>> = fields.filter_map(Field::parse).collect();
        let mut end = bytes.parse().unwrap_or(0);
        if number != 0 {
            end = change(&mut fields, random);
        }
        plant(fault, &mut fields);
        text += &format!("{name} {end}\n");
        for Field(name, at, bytes, kind) in fields {
            text += &format!("{name} {at} {bytes} {kind}\n");
        }
    }
    text
}

/// Changes the fields of a struct. Returns its new size in bytes.
fn change(fields: &mut Vec<Field<'_>>, random: &mut Stream) -> usize {
    let mut below = |bound: usize| random.below(bound as u64) as usize;
    let narrow: Vec<usize> = (0..fields.len()).filter(|&at| fields[at].2 <= 4).collect();
    fields[narrow[below(narrow.len())]].2 *= 2;
    fields.push(Field("added", 0, 4, "unsigned"));
    for last in (1..fields.len()).rev() {
        fields.swap(last, below(last + 1));
    }
    let mut end = 0;
    for field in fields {
        field.1 = end;
        end += field.2;
    }
    end
}

fn plant(fault: Fault, fields: &mut Vec<Field<'_>>) {
    match fault {
        Fault::None => {}
        Fault::Lost(lost) => fields.retain(|field| field.0 != lost),
        Fault::Misplaced(name, other) => {
            let there = fields.iter().find(|field| field.0 == other);
            if let Some(at) = there.map(|field| field.1) {
                let field = fields.iter_mut().find(|field| field.0 == name);
                field.into_iter().for_each(|field| field.1 = at);
            }
        }
    }
}

/// Returns the flow as another host reads it from a hand-over file in this layout; `None` if that host does not take it
/// over. `now_ns`: present time on the clock of the flow's times.
pub fn cross(flow: &Flow, layout: &str, now_ns: u64) -> Option<Flow> {
    let read = carry(&Handover::of(*flow, now_ns), layout).ok()?;
    read.states().next().copied()
}

/// Returns flows as another host reads them from a hand-over file in this layout.
///
/// # Errors
/// [`HandoverError`], as [`Handover::write_as`] and [`Handover::read`] return it.
pub fn carry(flows: &Handover, layout: &str) -> Result<Handover, HandoverError> {
    let file = flows.write_as(layout, |_| TAG)?;
    Handover::read(&file, |_, tag| tag == TAG)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn a_drawn_layout_has_other_places_a_wider_field_and_one_more() {
        let own = draw(0, Fault::None);
        assert_eq!(own, Handover::description());
        let places = |text: &str| {
            let fields = text.lines().filter_map(Field::parse);
            let places = fields.map(|Field(name, at, bytes, _)| (name.to_owned(), (at, bytes)));
            places.collect::<HashMap<_, _>>()
        };
        let before = places(&own);
        for number in 1..200 {
            let after = places(&draw(number, Fault::None));
            assert_eq!(after.len(), before.len() + 1, "layout {number}");
            let moved = before
                .iter()
                .filter(|(name, place)| after[*name].0 != place.0);
            let wider = before
                .iter()
                .filter(|(name, place)| after[*name].1 > place.1);
            assert!(moved.count() * 4 > before.len() * 3, "layout {number}");
            assert_eq!(wider.count(), 2, "layout {number}: one in each struct");
        }
    }
}
