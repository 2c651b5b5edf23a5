//! `uc top`: ports and flows with their rates, live in the terminal.

mod draw;
mod past;
mod source;
mod tables;
#[cfg(test)]
mod tests;
mod view;

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use uc_program::cancel_on_signal;

use crate::top::Top;
use source::Host;
use view::View;

/// Maximum time before a signal is noticed.
const POLL_MOST: Duration = Duration::from_millis(100);

/// Shows ports and flows until q is pressed or a signal arrives. Then the terminal is restored,
/// after a panic too.
///
/// # Errors
/// Without a terminal; if the kernel or the agent can't be asked.
pub fn top(arguments: Top) -> Result<bool> {
    if arguments.record.or(arguments.replay).is_some() {
        bail!(
            "`uc top` records no longer: `uc flows --json --rates` prints what a recording had, and the \
             agent's metrics are for looking back (docs/metrics.md)"
        );
    }
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        bail!("`uc top` needs a terminal; programs can use `uc flows --json --rates`");
    }
    let ends = cancel_on_signal()?;
    let mut view = View::new(arguments.sort);
    let mut host = Host::new(
        arguments.socket,
        arguments.filter,
        Duration::from_millis(arguments.interval),
    );
    // The first sample is taken before the terminal is set up, so that its error is printed
    // normally.
    view.show(host.next()?);
    let mut terminal = ratatui::try_init().context("could not set up the terminal")?;
    let done = go_on(&mut terminal, &mut view, &mut host, &ends);
    ratatui::restore();
    done.map(|()| true)
}

fn go_on(
    terminal: &mut DefaultTerminal,
    view: &mut View,
    host: &mut Host,
    ends: &AtomicBool,
) -> Result<()> {
    while !view.ends() && !ends.load(Ordering::Relaxed) {
        terminal
            .draw(|frame| draw::draw(frame, view))
            .context("could not draw on the terminal")?;
        let wait = host.due().saturating_duration_since(Instant::now());
        if event::poll(wait.min(POLL_MOST)).context("could not read keys")?
            && let Event::Key(key) = event::read().context("could not read keys")?
            && key.kind == KeyEventKind::Press
        {
            view.press(key);
            tell(host, view)?;
        }
        if host.due() <= Instant::now() {
            view.show(host.next()?);
            tell(host, view)?;
        }
    }
    Ok(())
}

/// Writes the history of the chosen flow into the view, if it is shown.
fn tell(host: &Host, view: &mut View) -> Result<()> {
    if let Some(row) = view.wanted() {
        view.tell(host.story(&row, view.agent.as_ref())?);
    }
    Ok(())
}
