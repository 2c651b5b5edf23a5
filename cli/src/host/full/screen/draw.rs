//! Draws a view.

use std::collections::BTreeMap;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table, TableState, Wrap};

use super::view::View;
use crate::host::seen::{FlowRow, rates};

/// Maximum number of ports that are shown; the rest are counted.
const PORTS_SHOWN: usize = 8;
/// Maximum number of lines of a history that are shown.
const STORY_LINES: u16 = 28;

const KEYS: &str = " up/down choose   Enter story   s sort   q quit";

/// Draws the whole screen.
pub fn draw(frame: &mut Frame<'_>, view: &View) {
    let ports = view.seen.ports.len().min(PORTS_SHOWN) as u16 + 3;
    let story = match &view.story {
        Some(text) => (text.lines().count() as u16 + 2)
            .min(STORY_LINES)
            .min(frame.area().height / 2),
        None => 0,
    };
    let [head, at_ports, at_flows, at_story, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(ports),
        Constraint::Min(3),
        Constraint::Length(story),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Line::from(heading(view)).style(bold()), head);
    draw_ports(frame, view, at_ports);
    draw_flows(frame, view, at_flows);
    if let Some(text) = &view.story {
        let block = Block::new().borders(Borders::TOP).title(" story ");
        let told = Paragraph::new(text.as_str()).wrap(Wrap { trim: false });
        frame.render_widget(told.block(block), at_story);
    }
    frame.render_widget(Line::from(KEYS), keys);
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn heading(view: &View) -> String {
    let agent = match &view.agent {
        None => "no agent".to_owned(),
        Some(agent) if agent.is_in_force() => {
            format!("policy generation {} in force", agent.policy.generation)
        }
        Some(_) => "NOT all in force: `uc status`".to_owned(),
    };
    let packets = |reason: &str| {
        let row = view.seen.packets.iter().find(|row| row.reason == reason);
        row.map_or(0, |row| row.packets)
    };
    let all: u64 = view.seen.packets.iter().map(|row| row.packets).sum();
    let translated = packets("translated");
    format!(
        " uc top   {agent}   {} flows   {translated} packets translated, {} not",
        view.seen.flows.len(),
        all - translated
    )
}

fn rate(rate: Option<u64>) -> String {
    rate.map_or_else(String::new, rates::in_words)
}

/// The sums over a port's flows.
#[derive(Default)]
struct Sum {
    flows: u64,
    sent: Option<u64>,
    received: Option<u64>,
    cuts: u64,
    losses: u64,
}

impl Sum {
    fn add(&mut self, flow: &FlowRow) {
        let both = |sum: Option<u64>, more: Option<u64>| match (sum, more) {
            (None, more) => more,
            (sum, None) => sum,
            (Some(sum), Some(more)) => Some(sum + more),
        };
        self.flows += 1;
        self.sent = both(self.sent, flow.sent_bits_per_s);
        self.received = both(self.received, flow.received_bits_per_s);
        self.cuts += u64::from(flow.cuts);
        self.losses += u64::from(flow.losses);
    }
}

fn draw_ports(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let mut sums: BTreeMap<u32, Sum> = BTreeMap::new();
    for flow in &view.seen.flows {
        sums.entry(flow.ifindex).or_default().add(flow);
    }
    let none = Sum::default();
    let rows = view.seen.ports.iter().take(PORTS_SHOWN).map(|port| {
        let sum = sums.get(&port.ifindex).unwrap_or(&none);
        Row::new([
            port.name
                .clone()
                .unwrap_or_else(|| port.ifindex.to_string()),
            sum.flows.to_string(),
            rate(sum.sent),
            rate(sum.received),
            sum.cuts.to_string(),
            sum.losses.to_string(),
        ])
    });
    let hidden = view.seen.ports.len().saturating_sub(PORTS_SHOWN);
    let title = match hidden {
        0 => " ports ".to_owned(),
        hidden => format!(" ports; {hidden} more "),
    };
    let widths = [16, 8, 14, 14, 8, 8].map(Constraint::Length);
    let table = Table::new(rows, widths)
        .header(Row::new(["port", "flows", "sent", "received", "cuts", "losses"]).style(bold()))
        .block(Block::new().borders(Borders::TOP).title(title));
    frame.render_widget(table, area);
}

fn flow_row(flow: &FlowRow) -> Row<'static> {
    let segments = |bytes: u32| match bytes {
        0x7fff_ffff => "-".to_owned(),
        bytes => format!("{:.1}", f64::from(bytes) / f64::from(flow.mss_bytes.max(1))),
    };
    Row::new([
        flow.port.clone(),
        flow.guest.clone(),
        flow.remote.clone(),
        flow.law.to_owned(),
        flow.limit.label().to_owned(),
        rate(flow.sent_bits_per_s),
        rate(flow.received_bits_per_s),
        segments(flow.window_bytes),
        segments(flow.flight_bytes),
        flow.srtt_us.to_string(),
        flow.cuts.to_string(),
        flow.losses.to_string(),
    ])
}

const COLUMNS: [&str; 12] = [
    "port", "guest", "remote", "law", "limit", "sent", "received", "window", "flight", "RTT us",
    "cuts", "losses",
];

fn draw_flows(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let title = format!(" flows by {}; windows in segments ", view.order.label());
    let block = Block::new().borders(Borders::TOP).title(title);
    // Builds only the visible rows: there may be a million flows.
    let height = usize::from(area.height.saturating_sub(2)).max(1);
    let first = view.chosen.saturating_sub(height - 1);
    let shown = view.seen.flows.iter().skip(first).take(height);
    let widths = [
        Constraint::Max(12),
        Constraint::Min(18),
        Constraint::Min(18),
        Constraint::Length(7),
        Constraint::Length(9),
        Constraint::Length(13),
        Constraint::Length(13),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(7),
        Constraint::Length(6),
    ];
    let table = Table::new(shown.map(flow_row), widths)
        .header(Row::new(COLUMNS.map(Cell::from)).style(bold()))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .block(block);
    let mut state = TableState::default();
    if !view.seen.flows.is_empty() {
        state.select(Some(view.chosen - first));
    }
    frame.render_stateful_widget(table, area, &mut state);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
    use uc_core::{Flow, Policy, consts};
    use uc_port::FlowView;

    use super::*;
    use crate::host::seen::{Order, PacketRow, PortRow, Seen};

    fn flow(number: u16, cuts: u32, sent: u64) -> FlowRow {
        let state = Flow {
            stage: consts::TRANSLATING as u8,
            policy: Policy::new(consts::LAW_DCTCP, consts::PROFILE_LINUX),
            mss_bytes: 1448,
            cuts,
            srtt_us: 8 * 250,
            ..Flow::default()
        };
        let guest = format!("10.0.0.1:{}", 40_000 + number).parse().unwrap();
        let remote = "10.0.0.9:80".parse().unwrap();
        let mut row = FlowRow::new(
            &FlowView::of(3, guest, remote, state),
            "vnet3".to_owned(),
            None,
        );
        row.sent_bits_per_s = Some(sent);
        row
    }

    fn view(flows: u16) -> View {
        let mut view = View::new(Order::Cuts);
        let seen = Seen {
            ports: vec![PortRow {
                ifindex: 3,
                name: Some("vnet3".to_owned()),
                flows: flows.into(),
            }],
            flows: (0..flows)
                .map(|number| flow(number, number.into(), 1_000_000))
                .collect(),
            packets: vec![PacketRow {
                reason: "translated",
                packets: 42,
                meaning: "",
            }],
            ..Seen::default()
        };
        view.show(seen, None);
        view
    }

    /// Returns the screen line by line, and the line that is shown reversed.
    fn screen(view: &View, height: u16) -> (Vec<String>, Option<u16>) {
        let mut terminal = Terminal::new(TestBackend::new(140, height)).unwrap();
        terminal.draw(|frame| draw(frame, view)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| {
            let cells = (0..140).map(|x| buffer[(x, y)].symbol());
            cells.collect::<String>().trim_end().to_owned()
        };
        let reversed = |y: &u16| buffer[(0, *y)].modifier.contains(Modifier::REVERSED);
        ((0..height).map(line).collect(), (0..height).find(reversed))
    }

    fn press(view: &mut View, code: KeyCode) {
        view.press(KeyEvent::new(code, KeyModifiers::NONE));
    }

    #[test]
    fn the_screen_shows_ports_flows_in_order_and_keys() {
        let (lines, reversed) = screen(&view(3), 14);
        let expected = [
            " uc top   no agent   3 flows   42 packets translated, 0 not",
            " ports ",
            "port             flows    sent           received       cuts     losses",
            "vnet3            3        3.0 Mbit/s                    3        0",
        ];
        for (line, expected) in lines.iter().zip(expected) {
            assert!(line.starts_with(expected), "{line:?} is not {expected:?}");
        }
        assert!(lines[5].contains("flows by cuts"), "{lines:#?}");
        for (at, port) in [(7, "40002"), (8, "40001"), (9, "40000")] {
            assert!(
                lines[at].contains(&format!("10.0.0.1:{port}")),
                "{lines:#?}"
            );
            assert!(lines[at].contains("dctcp"), "{lines:#?}");
        }
        assert_eq!(reversed, Some(7));
        assert_eq!(lines[13], KEYS);
    }

    #[test]
    fn the_chosen_flow_stays_chosen_when_others_overtake_it() {
        let mut view = view(3);
        press(&mut view, KeyCode::Down);
        let name = view.chosen().unwrap().name.clone();
        let mut seen = view.seen.clone();
        let overtaking = seen.flows.iter_mut().find(|flow| flow.cuts == 0).unwrap();
        overtaking.cuts = 99;
        view.show(seen, None);
        assert_eq!(view.chosen().unwrap().name, name);
        assert_eq!(view.chosen, 2);
        view.show(Seen::default(), None);
        assert!(view.chosen().is_none());
        screen(&view, 14);
    }

    #[test]
    fn rows_that_do_not_fit_scroll_with_the_choice() {
        let mut view = view(50);
        press(&mut view, KeyCode::End);
        let (lines, reversed) = screen(&view, 14);
        assert!(lines[usize::from(reversed.unwrap())].contains("10.0.0.1:40000"));
        assert!(!lines.iter().any(|line| line.contains("10.0.0.1:40049")));
        press(&mut view, KeyCode::Home);
        let (lines, _) = screen(&view, 14);
        assert!(lines[7].contains("10.0.0.1:40049"), "{lines:#?}");
    }

    #[test]
    fn a_history_is_shown_below_and_can_be_closed() {
        let mut view = view(2);
        assert!(view.wanted().is_none());
        press(&mut view, KeyCode::Enter);
        assert_eq!(view.wanted().unwrap().cuts, 1);
        view.tell("once upon a time\n  there was a flow".to_owned());
        let (lines, _) = screen(&view, 24);
        assert!(
            lines
                .iter()
                .any(|line| line.starts_with("  there was a flow"))
        );
        press(&mut view, KeyCode::Esc);
        assert!(view.wanted().is_none());
        press(&mut view, KeyCode::Char('q'));
        assert!(view.ends());
    }

    #[test]
    fn drawing_works_for_any_terminal_size() {
        let mut view = view(5);
        press(&mut view, KeyCode::Enter);
        for (width, height) in [(1, 1), (20, 5), (500, 2), (80, 24)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| draw(frame, &view)).unwrap();
        }
    }
}
