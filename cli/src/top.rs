//! `uc top`: ports and flows with their rates, live in the terminal.

mod draw;
mod past;
mod source;
mod tables;
#[cfg(test)]
mod tests;
mod view;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use uc_program::cancel_on_signal;

use crate::seen::{Filter, Order};
use source::Host;
use view::View;

/// Maximum time until a signal that ends the program is noticed.
const POLL_MOST: Duration = Duration::from_millis(100);

/// Watch ports and flows: their rates, and what holds them back.
///
/// ? lists the keys.
#[derive(Args)]
pub struct Top {
    /// Time between two samples, in milliseconds
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 1000,
          value_parser = clap::value_parser!(u64).range(100..=60_000))]
    interval: u64,
    /// Column by which flows are sorted
    #[arg(long, value_enum, default_value = "goodput")]
    sort: Order,
    /// Show only matching flows, as in `uc flows`
    #[arg(long, value_name = "CONDITIONS")]
    filter: Vec<Filter>,
    /// Socket of the agent [default: the running agent's, otherwise /run/undercurrent/agent.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Removed option; the error names the command that replaces it
    #[arg(long, hide = true, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Removed option; the error names the command that replaces it
    #[arg(long, hide = true, value_name = "FILE")]
    replay: Option<PathBuf>,
}

impl Top {
    /// Shows ports and flows until q is pressed or a signal arrives. Then, and after a panic, the terminal is restored.
    ///
    /// # Errors
    /// There is no terminal, or the kernel or the agent can't be asked.
    pub fn execute(self) -> Result<bool> {
        if self.record.or(self.replay).is_some() {
            bail!(
                "--record and --replay were removed; `uc flows --json --rates` prints the values that a \
                 recording had, and the agent's metrics have the past (docs/metrics.md)"
            );
        }
        if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            bail!("`uc top` needs a terminal; programs can use `uc flows --json --rates`");
        }
        let ends = cancel_on_signal()?;
        let mut view = View::new(self.sort);
        let mut host = Host::new(
            self.socket,
            self.filter,
            Duration::from_millis(self.interval),
        );
        // The first sample is taken before the terminal is set up, so that its error is printed
        // normally.
        view.show(host.next()?);
        let mut terminal =
            ratatui::try_init().context("could not switch the terminal to full-screen mode")?;
        let done = go_on(&mut terminal, &mut view, &mut host, &ends);
        ratatui::restore();
        done.map(|()| true)
    }
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
            .context("could not write the screen to the terminal")?;
        let wait = host.due().saturating_duration_since(Instant::now());
        if event::poll(wait.min(POLL_MOST)).context("could not read keys from the terminal")?
            && let Event::Key(key) =
                event::read().context("could not read keys from the terminal")?
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

/// Writes the history of the chosen flow into the view, if the view shows one.
fn tell(host: &Host, view: &mut View) -> Result<()> {
    if let Some(row) = view.wanted() {
        view.tell(host.story(&row, view.agent.as_ref())?);
    }
    Ok(())
}
