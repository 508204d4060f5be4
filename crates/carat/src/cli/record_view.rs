//! Shows a recording while it runs: a chart on a terminal, lines elsewhere.

use crate::cli::output;
use crate::core::recording::MarkerKind;
use crate::report::{LiveRecording, draw_live_recording, sample_line};
use crate::run::recording::{Recorder, RecordingDisplay};
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
                _ if key.kind == KeyEventKind::Release => {}
                KeyCode::Char('q') | KeyCode::Esc => return true,
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
                output::print_message(&progress_line(recorder));
                self.printed = Some(Instant::now());
            }
            return;
        };
        let line = progress_line(recorder);
        let recording = live_recording(recorder, &line, self.limit);
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
    if opened.is_err() {
        let _ = disable_raw_mode();
    }
    opened.ok()
}

fn progress_line(recorder: &Recorder<'_>) -> String {
    let Some(sample) = &recorder.last else { return String::new() };
    let line = sample_line(sample, recorder.last_with_pss.as_ref());
    match recorder.loss() {
        Some((lines, error)) => format!("{line}  {lines} lines not written: {error}"),
        None => line,
    }
}

fn live_recording<'a>(
    recorder: &'a Recorder<'_>,
    line: &'a str,
    limit: Option<Duration>,
) -> LiveRecording<'a> {
    let newest = recorder.last.as_ref().map_or(1.0, |sample| sample.at_ms as f64 / 1e3);
    let memory = || recorder.memory.iter().map(|memory| (memory.at_ms as f64 / 1e3, memory));
    let sample = recorder.last_with_pss.as_ref().or(recorder.last.as_ref());
    LiveRecording {
        pss: memory().map(|(at, memory)| (at, memory.pss)).collect(),
        private: memory().filter_map(|(at, memory)| Some((at, memory.uss?))).collect(),
        markers: recorder.markers.iter().map(|&at_ms| at_ms as f64 / 1e3).collect(),
        marker_count: recorder.markers.pushed(),
        end: limit.map_or(newest, |limit| limit.as_secs_f64()),
        members: sample.map_or(&[], |sample| &sample.members),
        core_share: recorder.core_share(),
        line,
    }
}
