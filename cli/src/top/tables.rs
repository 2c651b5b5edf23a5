//! The two tables of `uc top`: ports or tenants, and flows. Columns that do not fit into the terminal are omitted, the
//! least important first.

use std::collections::BTreeMap;

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::widgets::{Block, Borders, Cell, Row, Table, TableState};

use super::past::{Trail, port_name, tenant};
use super::view::View;
use crate::seen::{FlowRow, Limit, rates};

/// Maximum number of ports or tenants that are shown; of the others only the number is.
pub const GROUPS_SHOWN: usize = 8;

/// Minimum width of the terminal, in characters, for the columns of medium importance.
const MEDIUM: u16 = 60;
/// Minimum width of the terminal, in characters, for all columns.
const WIDE: u16 = 120;

/// Returns the style of the tables' headings.
pub fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// A column: its heading, the minimum width of the terminal at which it is shown, its own width, and its text for a
/// row.
struct Column<T: ?Sized> {
    head: &'static str,
    from: u16,
    width: Constraint,
    cell: Box<dyn Fn(&T) -> String>,
}

fn column<T: ?Sized>(
    head: &'static str,
    from: u16,
    width: Constraint,
    cell: impl Fn(&T) -> String + 'static,
) -> Column<T> {
    let cell = Box::new(cell);
    Column {
        head,
        from,
        width,
        cell,
    }
}

/// Makes a table of the columns that fit into `area`.
fn table<'a, T>(columns: Vec<Column<T>>, rows: impl Iterator<Item = T>, area: Rect) -> Table<'a> {
    let columns: Vec<Column<T>> = columns
        .into_iter()
        .filter(|column| area.width >= column.from)
        .collect();
    let rows: Vec<Row<'a>> = rows
        .map(|row| Row::new(columns.iter().map(|column| Cell::from((column.cell)(&row)))))
        .collect();
    let heads = Row::new(columns.iter().map(|column| column.head)).style(bold());
    Table::new(rows, columns.iter().map(|column| column.width)).header(heads)
}

fn rate(rate: Option<u64>) -> String {
    rate.map_or_else(String::new, rates::short)
}

/// A port or a tenant, with sums over its flows that are shown.
#[derive(Default)]
struct Group {
    name: String,
    tenant: String,
    flows: u64,
    sent: Option<u64>,
    received: Option<u64>,
    cuts: u64,
    losses: u64,
    trail: Trail,
}

impl Group {
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

    /// Returns the most frequent limits of the group's flows, at most `limits` of them, and its dropped packets.
    fn held(&self, limits: usize) -> String {
        let held = self.trail.held();
        let words = held
            .iter()
            .take(limits)
            .map(|(limit, percent)| format!("{} {percent}%", limit.label()));
        let dropped = match self.trail.dropped() {
            0 => None,
            dropped => Some(format!("{dropped} dropped")),
        };
        words.chain(dropped).collect::<Vec<String>>().join(" ")
    }
}

/// Returns the ports or tenants in the order of ports. Omits one without shown flows if a filter is typed, unless its
/// name or tenant contains the filter's words.
fn groups(view: &View) -> Vec<Group> {
    let words = view.words.to_lowercase();
    let mut groups: Vec<Group> = Vec::new();
    let mut of_ports: BTreeMap<u32, usize> = BTreeMap::new();
    for port in &view.seen.ports {
        let tenant = tenant(view.agent.as_ref(), port.ifindex);
        let name = if view.is_by_tenant {
            tenant.clone()
        } else {
            port_name(port)
        };
        let known = groups.iter().position(|group| group.name == name);
        let at = known.unwrap_or_else(|| {
            let trail = view.past.group(&name, view.is_by_tenant).cloned();
            groups.push(Group {
                name,
                tenant,
                trail: trail.unwrap_or_default(),
                ..Group::default()
            });
            groups.len() - 1
        });
        of_ports.insert(port.ifindex, at);
    }
    for flow in view.flows() {
        if let Some(at) = of_ports.get(&flow.ifindex) {
            groups[*at].add(flow);
        }
    }
    groups.retain(|group| {
        let line = format!("{} {}", group.name, group.tenant).to_lowercase();
        group.flows > 0 || line.contains(&words)
    });
    groups
}

/// Draws the table of ports, or of tenants.
pub fn draw_groups(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let groups = groups(view);
    let kind = if view.is_by_tenant { "tenant" } else { "port" };
    let title = match groups.len().saturating_sub(GROUPS_SHOWN) {
        0 => format!(" {kind}s "),
        hidden => format!(" {kind}s; {hidden} more "),
    };
    let is_wide = area.width >= MEDIUM;
    let spark = if is_wide { 20 } else { 8 };
    // of a narrow line's last column the second limit would be cut off
    let limits = if is_wide { Limit::ALL.len() } else { 1 };
    let length = Constraint::Length;
    let columns = vec![
        column(
            kind,
            0,
            length(if is_wide { 12 } else { 9 }),
            |group: &Group| group.name.clone(),
        ),
        column("tenant", WIDE, length(12), |group: &Group| {
            group.tenant.clone()
        }),
        column("flows", MEDIUM, length(5), |group: &Group| {
            group.flows.to_string()
        }),
        column("bit/s", 0, length(6), |group: &Group| rate(group.sent)),
        column("received", WIDE, length(8), |group: &Group| {
            rate(group.received)
        }),
        column("last 60", 0, length(spark), move |group: &Group| {
            group.trail.sparkline(spark.into())
        }),
        column("held by", 0, Constraint::Min(13), move |group: &Group| {
            group.held(limits)
        }),
        column("cuts", WIDE, length(8), |group: &Group| {
            group.cuts.to_string()
        }),
        column("losses", WIDE, length(8), |group: &Group| {
            group.losses.to_string()
        }),
    ];
    let shown = groups.into_iter().take(GROUPS_SHOWN);
    let block = Block::new().borders(Borders::TOP).title(title);
    frame.render_widget(table(columns, shown, area).block(block), area);
}

fn segments(bytes: u32, flow: &FlowRow) -> String {
    match bytes {
        0x7fff_ffff => "-".to_owned(),
        bytes => format!("{:.1}", f64::from(bytes) / f64::from(flow.mss_bytes.max(1))),
    }
}

/// A row of the table of flows: the flow and its sparkline.
type Drawn = (FlowRow, String);

/// Width of a flow's sparkline, in characters.
const SPARK: u16 = 12;

fn flow_columns() -> Vec<Column<Drawn>> {
    let length = Constraint::Length;
    let flow = |cell: fn(&FlowRow) -> String| move |drawn: &Drawn| cell(&drawn.0);
    vec![
        column(
            "port",
            WIDE,
            Constraint::Max(12),
            flow(FlowRow::port_and_vlan),
        ),
        column(
            "guest",
            MEDIUM,
            Constraint::Min(18),
            flow(|flow| flow.guest.to_string()),
        ),
        column(
            "remote",
            0,
            Constraint::Min(18),
            flow(|flow| flow.remote.to_string()),
        ),
        column("law", WIDE, length(7), flow(|flow| flow.law.to_string())),
        column(
            "limit",
            0,
            length(9),
            flow(|flow| flow.limit.label().to_owned()),
        ),
        column(
            "bit/s",
            0,
            length(6),
            flow(|flow| rate(flow.sent_bits_per_s)),
        ),
        column(
            "received",
            WIDE,
            length(8),
            flow(|flow| rate(flow.received_bits_per_s)),
        ),
        column("last 60", MEDIUM, length(SPARK), |drawn: &Drawn| {
            drawn.1.clone()
        }),
        column(
            "window",
            WIDE,
            length(7),
            flow(|flow| segments(flow.window_bytes, flow)),
        ),
        column(
            "flight",
            WIDE,
            length(7),
            flow(|flow| segments(flow.flight_bytes, flow)),
        ),
        column(
            "RTT us",
            MEDIUM,
            length(7),
            flow(|flow| flow.srtt_us.to_string()),
        ),
        column("cuts", WIDE, length(6), flow(|flow| flow.cuts.to_string())),
        column(
            "losses",
            WIDE,
            length(6),
            flow(|flow| flow.losses.to_string()),
        ),
    ]
}

/// Draws the table of flows.
pub fn draw_flows(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let units = if area.width >= WIDE {
        "; windows in segments"
    } else {
        ""
    };
    let title = format!(" flows by {}{units} ", view.order.label());
    // Builds only the visible rows: there may be a million flows.
    let height = usize::from(area.height.saturating_sub(2)).max(1);
    let first = view.chosen.saturating_sub(height - 1);
    let shown = view.flows().skip(first).take(height).map(|flow| {
        let spark = |trail: &Trail| trail.sparkline(SPARK.into());
        let spark = view.past.flow(&flow.name).map_or_else(String::new, spark);
        (flow.clone(), spark)
    });
    let table = table(flow_columns(), shown, area)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .block(Block::new().borders(Borders::TOP).title(title));
    let mut state = TableState::default();
    if view.count() > 0 {
        state.select(Some(view.chosen - first));
    }
    frame.render_stateful_widget(table, area, &mut state);
}
