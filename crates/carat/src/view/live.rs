//! The screen of a recording that is running: memory over time, the processes, and the cost of recording.

use crate::run::recording::Recorder;
use carat_model::{Bytes, MemberSample};
use carat_report::numbers::{count, or_question_mark, percent};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::Line;
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType, Paragraph, Row, Table};
use std::time::Duration;

/// What the screen shows of a recording.
#[derive(Debug, Default)]
pub struct LiveRecording<'a> {
    /// Seconds since the start and the tree's proportional memory.
    pub pss: Vec<(f64, Bytes)>,
    /// The same for its private memory.
    pub private: Vec<(f64, Bytes)>,
    /// When markers were set, in seconds since the start.
    pub markers: Vec<f64>,
    /// How many markers were set; the chart may show fewer.
    pub marker_count: usize,
    /// The end of the time axis in seconds.
    pub end: f64,
    /// The processes of the tree.
    pub members: &'a [MemberSample],
    /// The share of one core that recording takes.
    pub core_share: f64,
    /// One line on the newest sample.
    pub line: &'a str,
}

impl<'a> LiveRecording<'a> {
    /// The screen of a recording that ends at `limit`, or has no end.
    pub(crate) fn new(recorder: &'a Recorder<'_>, line: &'a str, limit: Option<Duration>) -> Self {
        let newest = recorder.last.as_ref().map_or(1.0, |sample| seconds(sample.at_ms));
        let memory = recorder.memory.iter();
        // The newest sample with PSS, because most have none.
        let sample = recorder.last_with_pss.as_ref().or(recorder.last.as_ref());
        Self {
            pss: memory.clone().map(|memory| (seconds(memory.at_ms), memory.pss)).collect(),
            private: memory
                .filter_map(|memory| Some((seconds(memory.at_ms), memory.uss?)))
                .collect(),
            markers: recorder.markers.iter().map(|&at_ms| seconds(at_ms)).collect(),
            marker_count: recorder.markers.pushed(),
            end: limit.map_or(newest, |limit| limit.as_secs_f64()),
            members: sample.map_or(&[], |sample| &sample.members),
            core_share: recorder.core_share(),
            line,
        }
    }
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1e3
}

/// Draws the whole screen.
pub fn draw_live_recording(frame: &mut Frame<'_>, recording: &LiveRecording<'_>) {
    // The chart is what the screen is for, so the table gets a third at most.
    let rows = (recording.members.len() as u16 + 3).min(frame.area().height / 3);
    let heights = [Constraint::Min(6), Constraint::Length(rows), Constraint::Length(2)];
    let [chart, table, foot] = Layout::vertical(heights).areas(frame.area());
    draw_chart(frame, chart, recording);
    draw_members(frame, table, recording.members);
    let cost = format!(
        "carat: {} of one core   {}   m mark · q end",
        percent(recording.core_share, 2),
        count(recording.marker_count, "marker")
    );
    let lines = vec![Line::from(recording.line.to_owned()), Line::from(cost)];
    frame.render_widget(Paragraph::new(lines), foot);
}

fn draw_chart(frame: &mut Frame<'_>, area: Rect, recording: &LiveRecording<'_>) {
    let pss = megabytes(&recording.pss);
    let private = megabytes(&recording.private);
    let markers: Vec<(f64, f64)> = recording.markers.iter().map(|at| (*at, 0.0)).collect();
    let highest = pss.iter().map(|point| point.1).fold(1.0, f64::max) * 1.1;
    // An axis of no length cannot be drawn.
    let end = recording.end.max(1.0);
    let sets = vec![
        dataset("PSS", &pss, Color::Cyan),
        dataset("private", &private, Color::Yellow),
        dataset("markers", &markers, Color::Magenta).graph_type(GraphType::Scatter),
    ];
    let chart = Chart::new(sets)
        .block(Block::bordered().title("memory of the process tree"))
        .x_axis(Axis::default().bounds([0.0, end]).labels(axis_labels(end, "s")))
        .y_axis(Axis::default().bounds([0.0, highest]).labels(axis_labels(highest, "MB")));
    frame.render_widget(chart, area);
}

fn megabytes(series: &[(f64, Bytes)]) -> Vec<(f64, f64)> {
    series.iter().map(|(at, bytes)| (*at, bytes.megabytes())).collect()
}

fn dataset<'a>(name: &'a str, points: &'a [(f64, f64)], colour: Color) -> Dataset<'a> {
    Dataset::default()
        .name(name)
        .data(points)
        .marker(Marker::Braille)
        .graph_type(GraphType::Line)
        .style(Style::default().fg(colour))
}

fn axis_labels(end: f64, unit: &str) -> Vec<String> {
    (0..=4).map(|step| format!("{:.0} {unit}", end * f64::from(step) / 4.0)).collect()
}

fn draw_members(frame: &mut Frame<'_>, area: Rect, members: &[MemberSample]) {
    let rows = members.iter().map(|member| {
        Row::new([
            member.slot.to_string(),
            member.pid.to_string(),
            or_question_mark(member.pss),
            or_question_mark(member.uss),
            or_question_mark(member.rss),
            or_question_mark(member.rss_peak),
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
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    #[test]
    fn the_screen_shows_the_tree_its_processes_and_the_cost_of_recording() {
        let members = [MemberSample { slot: 0, pid: 4312, ..MemberSample::default() }];
        let recording = LiveRecording {
            pss: vec![(0.0, Bytes(50_000_000)), (1.0, Bytes(60_000_000))],
            members: &members,
            line: "the line",
            ..LiveRecording::default()
        };
        let mut screen = Terminal::new(TestBackend::new(90, 30)).unwrap();
        screen.draw(|frame| draw_live_recording(frame, &recording)).unwrap();
        let text = screen.backend().to_string();
        for expected in [
            "memory of the process tree",
            "PSS",
            "peak RSS",
            "the line",
            "one core",
            "4312",
            "66 MB",
        ] {
            assert!(text.contains(expected), "{expected:?} is not in\n{text}");
        }
    }
}
