//! Shows a recording while it runs: a chart on a terminal, lines elsewhere.

use crate::run::recording::{Recorder, RecordingDisplay};
use crate::view::{LiveRecording, draw_live_recording, output, recording_line};
use carat_model::recording::MarkerKind;
use ratatui::Terminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::prelude::CrosstermBackend;
use std::io::{self, IsTerminal, Stderr};
use std::time::{Duration, Instant};

/// Time between two lines in a file or a log.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// A chart if standard error is a terminal, lines there otherwise.
pub(crate) struct RecordingView {
    screen: Option<Terminal<CrosstermBackend<Stderr>>>,
    limit: Option<Duration>,
    printed: Option<Instant>,
}

impl RecordingView {
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        let dumb = output::variable("TERM").is_none_or(|term| term == "dumb");
        // Keys come from standard input, so that must be a terminal too.
        let live = io::stderr().is_terminal() && io::stdin().is_terminal() && !dumb;
        Self { screen: live.then(open_screen).flatten(), limit, printed: None }
    }
}

impl RecordingDisplay for RecordingView {
    fn handle_keys(&mut self, recorder: &mut Recorder<'_>) -> bool {
        if self.screen.is_none() {
            return false;
        }
        while event::poll(Duration::ZERO).unwrap_or(false) {
            let Ok(Event::Key(key)) = event::read() else { continue };
            let control = key.modifiers.contains(KeyModifiers::CONTROL);
            match key.code {
                // Some terminals report releases too, and each key would count twice.
                _ if key.kind == KeyEventKind::Release => {}
                KeyCode::Char('q') | KeyCode::Esc => return true,
                // In raw mode Ctrl-C is a key and no signal.
                KeyCode::Char('c') if control => return true,
                KeyCode::Char('m') => recorder.mark(MarkerKind::User),
                _ => {}
            }
        }
        false
    }

    fn show(&mut self, recorder: &Recorder<'_>) {
        let Some(screen) = &mut self.screen else {
            if self.printed.is_none_or(|printed| printed.elapsed() >= LINE_INTERVAL) {
                output::print_message(&recording_line(recorder));
                self.printed = Some(Instant::now());
            }
            return;
        };
        let line = recording_line(recorder);
        let recording = LiveRecording::new(recorder, &line, self.limit);
        // If the terminal is gone, SIGHUP ends the recording.
        let _ = screen.draw(|frame| draw_live_recording(frame, &recording));
    }
}

impl Drop for RecordingView {
    fn drop(&mut self) {
        if self.screen.is_some() {
            let _ = disable_raw_mode();
            let _ = execute!(io::stderr(), LeaveAlternateScreen);
        }
    }
}

fn open_screen() -> Option<Terminal<CrosstermBackend<Stderr>>> {
    enable_raw_mode().ok()?;
    let opened = execute!(io::stderr(), EnterAlternateScreen)
        .and_then(|()| Terminal::new(CrosstermBackend::new(io::stderr())));
    // Without the screen, raw mode would only disturb the lines.
    if opened.is_err() {
        let _ = disable_raw_mode();
    }
    opened.ok()
}
