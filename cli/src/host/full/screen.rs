//! `uc top`: ports and flows with their rates, live in the terminal.

mod draw;
mod view;

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use uc_client::{AgentState, Client};
use uc_port::Store;

use crate::host::agent;
use crate::host::explain::story::Story;
use crate::host::seen::clock::Clock;
use crate::host::seen::{self, Filter, Limit, Seen};
use crate::host::status::report;
use crate::host::top::Top;
use view::View;

/// Maximum time before a signal is noticed.
const POLL_MOST: Duration = Duration::from_millis(100);

/// Shows ports and flows until q is pressed or a signal arrives. Then the terminal is restored,
/// after a panic too.
///
/// # Errors
/// Without a terminal; if the kernel or the agent can't be asked.
pub fn top(arguments: Top) -> Result<bool> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        bail!("`uc top` needs a terminal; programs can use `uc flows --json --rates`");
    }
    let ends = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&ends);
    ctrlc::set_handler(move || told.store(true, Ordering::Relaxed))
        .context("could not listen for signals")?;
    let mut source = Source {
        store: Store::default(),
        client: agent::asked(arguments.socket),
        filter: arguments
            .filter
            .into_iter()
            .fold(Filter::default(), Filter::and),
        before: None,
        agent: None,
    };
    // The first sample is taken before the terminal is set up, so that its error is printed
    // normally.
    let mut view = View::new(arguments.sort);
    source.look(&mut view)?;
    let mut terminal = ratatui::try_init().context("could not set up the terminal")?;
    let interval = Duration::from_millis(arguments.interval);
    let done = go_on(&mut terminal, &mut view, &mut source, interval, &ends);
    ratatui::restore();
    done.map(|()| true)
}

fn go_on(
    terminal: &mut DefaultTerminal,
    view: &mut View,
    source: &mut Source,
    interval: Duration,
    ends: &AtomicBool,
) -> Result<()> {
    let mut next = Instant::now() + interval;
    while !view.ends() && !ends.load(Ordering::Relaxed) {
        terminal
            .draw(|frame| draw::draw(frame, view))
            .context("could not draw")?;
        let wait = next
            .saturating_duration_since(Instant::now())
            .min(POLL_MOST);
        if event::poll(wait).context("could not read keys")?
            && let Event::Key(key) = event::read().context("could not read keys")?
            && key.kind == KeyEventKind::Press
        {
            view.press(key);
            source.tell(view)?;
        }
        if Instant::now() >= next {
            source.look(view)?;
            next = Instant::now() + interval;
        }
    }
    Ok(())
}

/// The source of the view's contents.
struct Source {
    store: Store,
    client: Client,
    filter: Filter,
    before: Option<(Seen, Instant)>,
    /// The agent's last answer.
    agent: Option<AgentState>,
}

impl Source {
    fn look(&mut self, view: &mut View) -> Result<()> {
        let mut seen = Seen::read(&self.store)?;
        let now = Instant::now();
        if let Some((before, at)) = &self.before {
            seen::rates::measure(&before.flows, &mut seen.flows, now - *at);
        }
        self.before = Some((seen.clone(), now));
        seen.flows.retain(|flow| self.filter.shows(flow));
        self.agent = report::ask(&self.client)?.state;
        view.show(seen, self.agent.clone());
        self.tell(view)
    }

    /// Writes the history of the chosen flow into the view, if it is shown.
    fn tell(&self, view: &mut View) -> Result<()> {
        let Some(row) = view.wanted() else {
            return Ok(());
        };
        let gone = || format!("{} is gone", row.name);
        let Some(programs) = self.store.open()? else {
            let text = gone();
            view.tell(text);
            return Ok(());
        };
        let flow = programs.flow(row.ifindex, row.guest_at, row.remote_at)?;
        let text = match flow {
            None => gone(),
            Some(flow) => {
                let events = programs.events(&flow)?;
                let looks = [Limit::of(&flow.state)];
                let generation = programs.plan_generation()?;
                let clock = Clock::read()?;
                let mut story = Story::new(row.clone(), &flow, &events, &looks, generation, &clock);
                story.place_rule(self.agent.as_ref());
                story.to_string()
            }
        };
        view.tell(text);
        Ok(())
    }
}
