//! `uc top`: ports and flows with their rates, live in the terminal, recorded, or from a recording.

mod draw;
mod past;
mod recording;
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
use recording::Recorder;
use source::{Host, Replay, Source};
use view::View;

/// Maximum time before a signal is noticed.
const POLL_MOST: Duration = Duration::from_millis(100);

/// Shows ports and flows until q is pressed or a signal arrives. Then the terminal is restored,
/// after a panic too. Without a terminal it only records.
///
/// # Errors
/// Without a terminal and a recording; if the kernel or the agent can't be asked; if a recording can't
/// be read or written.
pub fn top(arguments: Top) -> Result<bool> {
    let is_drawn = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if !is_drawn && arguments.record.is_none() {
        bail!(
            "`uc top` needs a terminal, except with --record; programs can use \
             `uc flows --json --rates`"
        );
    }
    let ends = cancel_on_signal()?;
    let mut view = View::new(arguments.sort);
    let source: Box<dyn Source> = match &arguments.replay {
        Some(path) => Box::new(Replay::open(path, arguments.speed, arguments.filter)?),
        None => Box::new(Host::new(
            arguments.socket,
            arguments.filter,
            Duration::from_millis(arguments.interval),
        )),
    };
    let mut shown = Shown {
        source,
        recorder: None,
    };
    // The first sample is taken before the terminal is set up, so that its error is printed
    // normally; and before there is a file.
    let first = shown.source.next()?;
    if let Some(path) = &arguments.record {
        shown.recorder = Some(Recorder::create(path)?);
    }
    if let Some(sample) = first {
        shown.take(sample, &mut view)?;
    }
    if !is_drawn {
        while !ends.load(Ordering::Relaxed) {
            std::thread::sleep(shown.wait().unwrap_or(POLL_MOST));
            shown.step(&mut view)?;
        }
        return Ok(true);
    }
    let mut terminal = ratatui::try_init().context("could not set up the terminal")?;
    let done = go_on(&mut terminal, &mut view, &mut shown, &ends);
    ratatui::restore();
    done.map(|()| true)
}

fn go_on(
    terminal: &mut DefaultTerminal,
    view: &mut View,
    shown: &mut Shown,
    ends: &AtomicBool,
) -> Result<()> {
    while !view.ends() && !ends.load(Ordering::Relaxed) {
        terminal
            .draw(|frame| draw::draw(frame, view))
            .context("could not draw on the terminal")?;
        let wait = shown.wait().unwrap_or(POLL_MOST);
        if event::poll(wait).context("could not read keys")?
            && let Event::Key(key) = event::read().context("could not read keys")?
            && key.kind == KeyEventKind::Press
        {
            view.press(key);
            shown.tell(view)?;
        }
        shown.step(view)?;
    }
    Ok(())
}

/// What is shown, and where it is recorded.
struct Shown {
    source: Box<dyn Source>,
    recorder: Option<Recorder>,
}

impl Shown {
    /// Returns the time until the next sample, but no more than signals may wait.
    fn wait(&self) -> Option<Duration> {
        let due = self.source.due()?;
        Some(due.saturating_duration_since(Instant::now()).min(POLL_MOST))
    }

    /// Shows the next sample if its time has come.
    fn step(&mut self, view: &mut View) -> Result<()> {
        if self.source.due().is_some_and(|due| due <= Instant::now())
            && let Some(sample) = self.source.next()?
        {
            self.take(sample, view)?;
        }
        Ok(())
    }

    fn take(&mut self, sample: recording::Sample, view: &mut View) -> Result<()> {
        if let Some(recorder) = &mut self.recorder {
            recorder.write(&sample)?;
        }
        view.show(sample);
        if let Some(place) = self.source.place() {
            view.is_at(place);
        }
        self.tell(view)
    }

    /// Writes the history of the chosen flow into the view, if it is shown.
    fn tell(&self, view: &mut View) -> Result<()> {
        if let Some(row) = view.wanted() {
            view.tell(self.source.story(&row, view.agent.as_ref())?);
        }
        Ok(())
    }
}
