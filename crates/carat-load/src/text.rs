//! What the texts about all loads have in common.

use crate::progress::LoadProgress;
use carat_model::load::{LoadReport, OwnCost, Severity};
use carat_model::{Bytes, Unit, count, one_line, shorten};
use std::io::{self, Write};

/// Characters of a foreign text that are shown.
const SHOWN: usize = 200;

/// The start of a foreign text, as one printable line.
pub fn printable(text: &[u8]) -> String {
    shorten(&one_line(&String::from_utf8_lossy(text)), SHOWN)
}

/// Writes the generator's own cost and the findings.
pub fn write_generator(report: &LoadReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "generator  {}", cost(&report.own, report.seconds))?;
    let mut said: Vec<&str> = Vec::new();
    for flag in &report.flags {
        let word = match flag.severity {
            Severity::Info => "note",
            Severity::Warning => "warning",
            Severity::Fatal => "invalid",
        };
        // Several findings of one cause end with the same advice.
        let advice = flag.message.rsplit_once("): ");
        match advice {
            Some((before, advice)) if said.contains(&advice) => {
                writeln!(out, "{word}: {}: {before})", flag.code)?;
            }
            _ => writeln!(out, "{word}: {}: {}", flag.code, flag.message)?,
        }
        said.extend(advice.map(|(_, advice)| advice));
    }
    Ok(())
}

fn cost(own: &OwnCost, seconds: f64) -> String {
    let mut parts = Vec::new();
    // A load that never began has no share.
    if seconds > 0.0 {
        parts.push(format!("{:.1} % of a core", own.cpu_s / seconds * 100.0));
    }
    if let Some(micros) = own.cpu_us_per_message {
        parts.push(format!("{micros:.1} µs per message"));
    }
    if let Some((_, lag)) = own.lag {
        parts.push(format!("lag p99 {}", Unit::Seconds.show(lag)));
    }
    if let Some((_, late)) = own.late {
        parts.push(format!("late p99 {}", Unit::Seconds.show(late)));
    }
    if let Some(bytes) = own.rss_peak {
        parts.push(format!("{} resident", Bytes(bytes)));
    }
    parts.join("   ")
}

/// The progress of a load in one line.
pub fn progress_line(progress: &LoadProgress) -> String {
    let mut text = format!(
        "{}  p50 {}  p95 {}  {} open  own lag {}",
        Unit::PerSecond.show(progress.per_second),
        show_micros(progress.p50_us),
        show_micros(progress.p95_us),
        progress.connections,
        show_micros(progress.lag_us),
    );
    if progress.errors > 0 {
        text.push_str(&format!("  {}", count(progress.errors, "error")));
    }
    text
}

fn show_micros(micros: u64) -> String {
    Unit::Seconds.show(micros as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_line_shows_every_figure_with_its_unit() {
        let progress = LoadProgress {
            per_second: 812.3,
            p50_us: 900,
            p95_us: 4_000,
            connections: 8,
            lag_us: 20,
            ..LoadProgress::default()
        };
        assert_eq!(
            progress_line(&progress),
            "812.3/s  p50 900 µs  p95 4.00 ms  8 open  own lag 20 µs"
        );
        let with_errors = progress_line(&LoadProgress { errors: 3, ..progress });
        assert!(with_errors.ends_with("own lag 20 µs  3 errors"), "{with_errors}");
    }
}
