//! The live line of a load: only on a terminal, ten times a second, to stderr.

use crate::core::Unit;
use crate::load::LoadProgress;
use indicatif::{ProgressBar, ProgressStyle};

/// A line that follows a load.
#[derive(Debug)]
pub(crate) struct Live(ProgressBar);

impl Live {
    /// A line on stderr, hidden where stderr is no terminal.
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::new(1_000);
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {percent:>3} %  {msg}") {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// Shows how far the load is.
    pub(crate) fn show(&self, progress: &LoadProgress) {
        self.0.set_position((progress.share().unwrap_or_default() * 1e3) as u64);
        self.0.set_message(text(progress));
    }

    /// Removes the line.
    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

fn text(progress: &LoadProgress) -> String {
    let seconds = |micros: u64| Unit::Seconds.show(micros as f64 / 1e6);
    let mut text = format!(
        "{}  p50 {}  p95 {}  {} open  own lag {}",
        Unit::PerSecond.show(progress.per_second),
        seconds(progress.p50_us),
        seconds(progress.p95_us),
        progress.connections,
        seconds(progress.lag_us),
    );
    if progress.errors > 0 {
        text.push_str(&format!("  {} errors", progress.errors));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_every_figure_with_its_unit() {
        let progress = LoadProgress {
            per_second: 812.3,
            p50_us: 900,
            p95_us: 4_000,
            connections: 8,
            lag_us: 20,
            ..LoadProgress::default()
        };
        assert_eq!(text(&progress), "812.3/s  p50 900 µs  p95 4.00 ms  8 open  own lag 20 µs");
        assert!(text(&LoadProgress { errors: 3, ..progress }).ends_with("  3 errors"));
    }
}
