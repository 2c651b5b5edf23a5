//! The screen, drawn from a recording of a real host: Linux 6.18, two ports under law `ecn`, four
//! flows through 20 Mbit/s, one of which has a slow reader.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Modifier;

use super::draw::draw;
use super::source::Sample;
use super::view::View;
use crate::seen::{Limit, Order, Seen};

/// The samples, a line of JSON for each.
const RECORDED: &str = include_str!("recorded.jsonl");

/// Shows all samples of the recording.
fn view() -> View {
    let mut view = View::new(Order::Goodput);
    for line in RECORDED.lines() {
        let seen: Seen = serde_json::from_str(line).unwrap();
        view.show(Sample { seen, agent: None });
    }
    view
}

/// Returns the screen line by line, and the number of the line that is shown reversed.
fn screen(view: &View, width: u16, height: u16) -> (Vec<String>, Option<u16>) {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, view)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| {
        let cells = (0..width).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned()
    };
    let reversed = |y: &u16| buffer[(0, *y)].modifier.contains(Modifier::REVERSED);
    ((0..height).map(line).collect(), (0..height).find(reversed))
}

fn press(view: &mut View, code: KeyCode) {
    view.press(KeyEvent::new(code, KeyModifiers::NONE));
}

fn type_in(view: &mut View, words: &str) {
    words
        .chars()
        .for_each(|letter| press(view, KeyCode::Char(letter)));
}

/// Returns the lines of flows: those with a remote end.
fn flows(lines: &[String]) -> Vec<&String> {
    lines
        .iter()
        .filter(|line| line.contains("10.9.0.2:"))
        .collect()
}

fn names(view: &View) -> Vec<String> {
    view.flows().map(|flow| flow.name.clone()).collect()
}

fn has_bars(line: &str) -> bool {
    line.contains(|c: char| ('▁'..='█').contains(&c))
}

#[test]
fn at_80_columns_ports_have_rate_sparkline_and_what_held_them() {
    let view = view();
    let (lines, reversed) = screen(&view, 80, 24);
    assert!(lines[0].starts_with(" uc top   4 flows"), "{lines:#?}");
    assert!(
        lines[2].starts_with("port         flows bit/s  last 60"),
        "{lines:#?}"
    );
    assert!(lines[2].contains("held by"), "{lines:#?}");
    for (line, port) in [(&lines[3], "tap100i0"), (&lines[4], "vnet3")] {
        assert!(line.starts_with(port) && has_bars(line), "{lines:#?}");
        assert!(line.contains('%'), "{lines:#?}");
    }
    let flows = flows(&lines);
    assert_eq!(flows.len(), view.count());
    assert!(flows.iter().any(|line| has_bars(line)), "{lines:#?}");
    let chosen = usize::from(reversed.unwrap());
    assert!(lines[chosen].contains("10.9.0.2:"), "{lines:#?}");
    assert!(
        lines[23].starts_with(" ? help   q quit   / filter"),
        "{lines:#?}"
    );
}

#[test]
fn at_40_columns_remote_limit_rate_and_what_held_a_port_remain() {
    let view = view();
    let (lines, _) = screen(&view, 40, 24);
    assert!(
        lines[2].starts_with("port      bit/s  last 60"),
        "{lines:#?}"
    );
    assert!(lines[2].contains("held by"), "{lines:#?}");
    assert!(
        lines[3].starts_with("tap100i0") && lines[3].ends_with('%'),
        "{lines:#?}"
    );
    let heads = lines
        .iter()
        .find(|line| line.starts_with("remote"))
        .unwrap();
    assert!(
        heads.contains("limit") && heads.contains("bit/s"),
        "{lines:#?}"
    );
    assert_eq!(flows(&lines).len(), view.count());
    assert!(
        !lines.iter().any(|line| line.contains("10.9.0.1:")),
        "{lines:#?}"
    );
    assert!(lines[23].starts_with(" ? help   q quit"), "{lines:#?}");
}

#[test]
fn wide_terminal_shows_every_column() {
    let (lines, _) = screen(&view(), 160, 24);
    let heads = lines.iter().find(|line| line.contains("RTT us")).unwrap();
    for head in [
        "port", "guest", "remote", "law", "window", "flight", "cuts", "losses",
    ] {
        assert!(heads.contains(head), "{heads}");
    }
    assert!(
        lines[2].contains("tenant") && lines[2].contains("losses"),
        "{lines:#?}"
    );
}

#[test]
fn the_slow_reader_is_held_by_its_receiver() {
    let view = view();
    let slow = view
        .flows()
        .find(|flow| flow.name.ends_with(":5003"))
        .unwrap();
    let held = view.past.flow(&slow.name).unwrap().held();
    assert_eq!(held[0].0, Limit::Receiver, "{held:?}");
    assert!(held[0].1 > 50, "{held:?}");
    let percent: u32 = held.iter().map(|(_, percent)| percent).sum();
    assert!((98..=102).contains(&percent), "{held:?}");
}

#[test]
fn typed_words_choose_flows_and_escape_clears_them() {
    let mut view = view();
    let all = view.count();
    press(&mut view, KeyCode::Char('/'));
    type_in(&mut view, "VNET3 q");
    let (lines, _) = screen(&view, 80, 24);
    assert_eq!(lines[23], " /VNET3 q_", "letters are no keys");
    assert!(!view.ends());
    assert_eq!(view.count(), 0);
    press(&mut view, KeyCode::Backspace);
    press(&mut view, KeyCode::Backspace);
    press(&mut view, KeyCode::Enter);
    assert!((1..all).contains(&view.count()));
    assert!(names(&view).iter().all(|name| name.starts_with("vnet3 ")));
    let (lines, _) = screen(&view, 80, 24);
    assert!(lines[23].starts_with(" only `VNET3`: Esc"), "{lines:#?}");
    assert!(
        !lines.iter().any(|line| line.starts_with("tap100i0")),
        "{lines:#?}"
    );
    press(&mut view, KeyCode::Esc);
    assert_eq!(view.count(), all);
    press(&mut view, KeyCode::Char('/'));
    type_in(&mut view, "nowhere");
    press(&mut view, KeyCode::Esc);
    assert_eq!((view.count(), view.is_typing), (all, false));
}

#[test]
fn digits_and_s_sort_and_the_chosen_flow_stays_chosen() {
    let mut view = view();
    press(&mut view, KeyCode::Char('1'));
    let by_name = names(&view);
    assert!(by_name.is_sorted(), "{by_name:?}");
    press(&mut view, KeyCode::End);
    let chosen = view.chosen().unwrap().name.clone();
    assert_eq!(Some(&chosen), by_name.last());
    press(&mut view, KeyCode::Char('3'));
    assert!(view.flows().is_sorted_by(|a, b| a.srtt_us >= b.srtt_us));
    assert_eq!(view.chosen().unwrap().name, chosen);
    let (lines, _) = screen(&view, 80, 24);
    assert!(
        lines.iter().any(|line| line.contains("flows by srtt")),
        "{lines:#?}"
    );
    press(&mut view, KeyCode::Char('s'));
    assert_eq!(view.order, Order::Cuts);
    press(&mut view, KeyCode::Home);
    assert_eq!(view.chosen, 0);
}

#[test]
fn help_tenants_and_history_open_and_close() {
    let mut view = view();
    press(&mut view, KeyCode::Char('?'));
    let (lines, _) = screen(&view, 80, 24);
    for words in [
        "close this, the history",
        "loss recovery",
        "t                 tenants",
        "12 dropped",
    ] {
        assert!(lines.iter().any(|line| line.contains(words)), "{lines:#?}");
    }
    press(&mut view, KeyCode::Esc);
    assert!(!view.has_help);
    press(&mut view, KeyCode::Char('t'));
    let (lines, _) = screen(&view, 80, 24);
    assert!(
        lines[2].starts_with("tenant") && lines[3].starts_with("no tenant"),
        "{lines:#?}"
    );
    assert!(view.wanted().is_none());
    press(&mut view, KeyCode::Enter);
    assert!(view.wanted().is_some());
    view.tell("once upon a time\n  there was a flow".to_owned());
    let (lines, _) = screen(&view, 80, 24);
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("  there was a flow")),
        "{lines:#?}"
    );
    press(&mut view, KeyCode::Esc);
    assert!(view.wanted().is_none());
    press(&mut view, KeyCode::Char('q'));
    assert!(view.ends());
}

#[test]
fn drawing_works_for_any_terminal_size_and_without_flows() {
    let mut view = view();
    press(&mut view, KeyCode::Enter);
    press(&mut view, KeyCode::Char('?'));
    for (width, height) in [(1, 1), (20, 5), (500, 2), (80, 24)] {
        screen(&view, width, height);
    }
    view.show(Sample::default());
    assert!(view.chosen().is_none());
    screen(&view, 80, 24);
}
