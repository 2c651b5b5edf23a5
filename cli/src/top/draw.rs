//! Draws the screen of `uc top`: the heading, the tables, a flow's history, and the line of keys.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Clear, Paragraph, Wrap};

use super::tables::{GROUPS_SHOWN, bold, draw_flows, draw_groups};
use super::view::View;

/// Maximum number of lines of a flow's history that are shown.
const STORY_LINES: u16 = 28;

/// The keys in the last line, the most important first; as many are shown as fit.
const KEYS: [&str; 6] = [
    "? help",
    "q quit",
    "/ filter",
    "s sort",
    "t tenants",
    "Enter history",
];

const HELP: &str = "\
up down, j k      choose a flow; also PageUp, PageDown, Home, End
Enter             show or close the chosen flow's history
/                 show only flows that contain what you type: an address,
                  a port, a law, a limit, a tenant; Enter ends typing
Esc               close this, the history, or clear the filter
s                 sort by the next column
1 to 9            sort by name, goodput, RTT, cuts, losses, marks, window,
                  flight, alpha
t                 tenants instead of ports, and back
q, Ctrl-C         quit

last 60           goodput of the last 60 samples, drawn to its own maximum
held by           of these samples, taken of flows that had data in flight or
                  acknowledged, the percentage in which they were limited by
  law             the law's window, which is smaller than the receiver's
  receiver        the receiver's window
  guest           its own congestion control, or its application
  repair          loss recovery, in which its own TCP governs
  handshake       its handshake
  12 dropped      packets that the port dropped; `uc status` has the reasons";

/// Draws the whole screen of `uc top`.
pub fn draw(frame: &mut Frame<'_>, view: &View) {
    let groups = view.seen.ports.len().min(GROUPS_SHOWN) as u16 + 2;
    let story = match &view.story {
        Some(text) => (text.lines().count() as u16 + 2)
            .min(STORY_LINES)
            .min(frame.area().height / 2),
        None => 0,
    };
    let [head, at_groups, at_flows, at_story, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(groups),
        Constraint::Min(3),
        Constraint::Length(story),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let width = usize::from(frame.area().width);
    frame.render_widget(Line::from(heading(view, width)).style(bold()), head);
    draw_groups(frame, view, at_groups);
    draw_flows(frame, view, at_flows);
    if let Some(text) = &view.story {
        let block = Block::new().borders(Borders::TOP).title(" history ");
        let told = Paragraph::new(text.as_str()).wrap(Wrap { trim: false });
        frame.render_widget(told.block(block), at_story);
    }
    frame.render_widget(Line::from(bottom(view, width)), keys);
    if view.has_help {
        draw_help(frame);
    }
}

/// Joins as many of the parts into a line as fit into `width` characters, from the first on.
fn fitting(parts: impl IntoIterator<Item = String>, width: usize) -> String {
    let mut line = String::new();
    for part in parts {
        let gap = if line.is_empty() { 1 } else { 3 };
        if line.chars().count() + gap + part.chars().count() > width {
            break;
        }
        line += &" ".repeat(gap);
        line += &part;
    }
    line
}

fn heading(view: &View, width: usize) -> String {
    let agent = match &view.agent {
        None => "no agent".to_owned(),
        Some(agent) if agent.is_in_force() => {
            format!("policy generation {} in force", agent.policy.generation)
        }
        Some(_) => "NOT all in force: `uc status`".to_owned(),
    };
    let packets = &view.seen.packets;
    let all: u64 = packets.iter().map(|row| row.packets).sum();
    let translated = packets.iter().find(|row| row.reason == "translated");
    let translated = translated.map_or(0, |row| row.packets);
    let parts = [
        "uc top".to_owned(),
        format!("{} flows", view.count()),
        agent,
        format!("{translated} packets translated, {} not", all - translated),
    ];
    fitting(parts, width)
}

/// Returns the last line: the filter while it is typed, otherwise the keys and the filter in force.
fn bottom(view: &View, width: usize) -> String {
    if view.is_typing {
        return format!(" /{}_", view.words);
    }
    let filter = (!view.words.is_empty()).then(|| format!("only `{}`: Esc", view.words));
    let keys = KEYS.map(str::to_owned);
    fitting(filter.into_iter().chain(keys), width)
}

fn draw_help(frame: &mut Frame<'_>) {
    let all = frame.area();
    let lines = HELP.lines().count() as u16 + 2;
    let columns = HELP.lines().map(|line| line.chars().count()).max();
    let (width, height) = (columns.unwrap_or(0) as u16 + 2, lines);
    let area = Rect {
        x: all.width.saturating_sub(width) / 2,
        y: all.height.saturating_sub(height) / 2,
        width: width.min(all.width),
        height: height.min(all.height),
    };
    let text = Paragraph::new(HELP).wrap(Wrap { trim: false });
    frame.render_widget(Clear, area);
    frame.render_widget(
        text.block(Block::bordered().title(" keys and columns ")),
        area,
    );
}
