//! What the user sees while a recording runs: a chart on a terminal, lines elsewhere.

use crate::cli::output;
use crate::cli::recorder::{Recorder, Weight};
use crate::core::Bytes;
use crate::core::recording::MarkerKind;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::{Constraint, Layout};
use ratatui::prelude::CrosstermBackend;
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::Line;
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType, Paragraph, Row, Table};
use ratatui::{Frame, Terminal};
use std::io::{self, IsTerminal, Stderr};
use std::time::{Duration, Instant};

/// Lines for a file or a log come seldom enough to be read.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// The chart on standard error, or lines there.
pub(crate) struct View {
    screen: Option<Terminal<CrosstermBackend<Stderr>>>,
    limit: Option<Duration>,
    said: Option<Instant>,
}

impl View {
    /// A chart where standard error is a terminal, lines elsewhere.
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        let dumb = output::variable("TERM").is_none_or(|term| term == "dumb");
        let live = io::stderr().is_terminal() && io::stdin().is_terminal() && !dumb;
        Self { screen: live.then(open).flatten(), limit, said: None }
    }

    /// Whether the user pressed a key that ends the recording; a key that marks is passed on.
    pub(crate) fn wants_to_end(&self, recorder: &mut Recorder) -> bool {
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

    /// Shows the newest sample.
    pub(crate) fn show(&mut self, recorder: &Recorder, line: &str) {
        if let Some(screen) = &mut self.screen {
            let limit = self.limit;
            // A terminal that went away is noticed by the signal that comes with it.
            let _ = screen.draw(|frame| draw(frame, recorder, line, limit));
        } else if self.said.is_none_or(|said| said.elapsed() >= LINE_EVERY) {
            output::tell(line);
            self.said = Some(Instant::now());
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if self.screen.is_some() {
            let _ = disable_raw_mode();
            let _ = execute!(io::stderr(), LeaveAlternateScreen);
        }
    }
}

fn open() -> Option<Terminal<CrosstermBackend<Stderr>>> {
    enable_raw_mode().ok()?;
    let opened = execute!(io::stderr(), EnterAlternateScreen)
        .and_then(|()| Terminal::new(CrosstermBackend::new(io::stderr())));
    if opened.is_err() {
        let _ = disable_raw_mode();
    }
    opened.ok()
}

fn draw(frame: &mut Frame<'_>, recorder: &Recorder, line: &str, limit: Option<Duration>) {
    let members = recorder.last.as_ref().map_or(0, |sample| sample.members.len());
    let rows = (members as u16 + 3).min(frame.area().height / 3);
    let heights = [Constraint::Min(6), Constraint::Length(rows), Constraint::Length(2)];
    let [chart, table, foot] = Layout::vertical(heights).areas(frame.area());
    draw_chart(frame, chart, recorder, limit);
    draw_members(frame, table, recorder);
    let cost = recorder.cost();
    let costs = format!(
        "carat: {:.2} % of one core   {} markers   m mark · q end",
        cost.core_share * 100.0,
        recorder.marked.pushed()
    );
    frame.render_widget(Paragraph::new(vec![Line::from(line.to_owned()), Line::from(costs)]), foot);
}

fn draw_chart(
    frame: &mut Frame<'_>,
    area: ratatui::layout::Rect,
    recorder: &Recorder,
    limit: Option<Duration>,
) {
    let seconds = |at_ms: u64| at_ms as f64 / 1e3;
    let series = |figure: fn(&Weight) -> Option<Bytes>| -> Vec<(f64, f64)> {
        let known = recorder.course.iter().filter_map(|one| Some((one.at_ms, figure(one)?)));
        known.map(|(at_ms, bytes)| (seconds(at_ms), bytes.megabytes())).collect()
    };
    let pss = series(|weight| Some(weight.pss));
    let uss = series(|weight| weight.uss);
    let most = pss.iter().map(|point| point.1).fold(1.0, f64::max) * 1.1;
    let newest = recorder.last.as_ref().map_or(1.0, |sample| seconds(sample.at_ms));
    let end = limit.map_or(newest, |limit| limit.as_secs_f64()).max(1.0);
    let marks: Vec<(f64, f64)> =
        recorder.marked.iter().map(|&at_ms| (seconds(at_ms), 0.0)).collect();
    let line = |name, points, colour| {
        Dataset::default()
            .name(name)
            .data(points)
            .marker(Marker::Braille)
            .graph_type(GraphType::Line)
            .style(Style::default().fg(colour))
    };
    let sets = vec![
        line("PSS", &pss, Color::Cyan),
        line("private", &uss, Color::Yellow),
        line("markers", &marks, Color::Magenta).graph_type(GraphType::Scatter),
    ];
    let axis = |most: f64, unit: &str| -> Vec<String> {
        (0..=4).map(|step| format!("{:.0} {unit}", most * f64::from(step) / 4.0)).collect()
    };
    let chart = Chart::new(sets)
        .block(Block::bordered().title("memory of the process tree"))
        .x_axis(Axis::default().bounds([0.0, end]).labels(axis(end, "s")))
        .y_axis(Axis::default().bounds([0.0, most]).labels(axis(most, "MB")));
    frame.render_widget(chart, area);
}

fn draw_members(frame: &mut Frame<'_>, area: ratatui::layout::Rect, recorder: &Recorder) {
    let Some(sample) = recorder.weighed.as_ref().or(recorder.last.as_ref()) else { return };
    let known =
        |bytes: Option<Bytes>| bytes.map_or_else(|| "?".to_owned(), |bytes| bytes.to_string());
    let rows = sample.members.iter().map(|member| {
        Row::new([
            member.slot.to_string(),
            member.pid.to_string(),
            known(member.pss),
            known(member.uss),
            known(member.rss),
            known(member.rss_peak),
        ])
    });
    let head = Row::new(["slot", "pid", "PSS", "private", "RSS", "peak RSS"])
        .style(Style::default().add_modifier(Modifier::BOLD));
    let widths = [6, 10, 12, 12, 12, 12].map(Constraint::Length);
    let table = Table::new(rows, widths).header(head).block(Block::bordered());
    frame.render_widget(table, area);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::recording::Head;
    use crate::observe::SampleOptions;
    use crate::process::{ProcRoot, Tree};
    use crate::store::recording::Journal;
    use ratatui::backend::TestBackend;

    #[test]
    fn the_chart_shows_the_tree_its_processes_and_what_recording_costs() {
        let root = ProcRoot::default();
        let me = root.identify(std::process::id()).unwrap();
        let tree = Tree::new(root.clone(), me, "");
        let folder = tempfile::tempdir().unwrap();
        let head = Head { schema: String::new(), what: String::new(), started_ms: 0 };
        let journal = Journal::create(&folder.path().join("r.jsonl"), &head).unwrap();
        let mut recorder = Recorder::new(root, tree, SampleOptions::default(), journal);
        recorder.sample();
        let mut screen = Terminal::new(TestBackend::new(90, 30)).unwrap();
        screen.draw(|frame| draw(frame, &recorder, "the line", None)).unwrap();
        let text = screen.backend().to_string();
        let pid = std::process::id().to_string();
        for expected in
            ["memory of the process tree", "PSS", "peak RSS", "the line", "one core", &pid]
        {
            assert!(text.contains(expected), "{expected:?} is not in\n{text}");
        }
    }
}
