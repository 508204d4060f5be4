//! The first screen: the sentence, the rows of the verdict with the chart of their intervals, and the command to use.

use crate::chart::interval::{IntervalAxis, axis_picture, interval_picture};
use crate::chart::variant_class;
use crate::facts;
use crate::page::{mark_class, prose, scrollable, unbroken, verdict_sentence};
use crate::text::{day, one_line};
use crate::use_it::UseIt;
use crate::verdict::{GuardCell, VerdictRow, VerdictTable};
use crate::wording::headline;
use carat_model::Results;
use maud::{Markup, html as markup};

/// Everything that a reader needs who reads one screen only.
pub(super) fn first_screen(results: &Results, verdict: &VerdictTable) -> Markup {
    let cause = facts::cause_of_no_result(results);
    let sentences: Vec<_> = verdict.rows.iter().filter_map(|row| row.sentence.clone()).collect();
    markup! {
        @match (&cause, headline(results, &sentences)) {
            (Some(cause), _) => h1 { (cause) },
            (None, Some(sentence)) => h1 { (verdict_sentence(sentence)) },
            (None, None) => h1 { (results.info.name) },
        }
        @if let Some(about) = &results.info.about { p.soft { (prose(about)) } }
        @if verdict.rows.len() < 2 { p.lead { "One variant only: there is nothing to compare it with." } }
        @if cause.is_none() { (table(results, verdict)) }
        (use_it(verdict))
        @if !verdict.warnings.is_empty() {
            ul.warn aria-label="Warnings" { @for warning in &verdict.warnings { li { (one_line(warning)) } } }
        }
    }
}

fn table(results: &Results, verdict: &VerdictTable) -> Markup {
    let estimates = verdict.rows.iter().filter_map(|row| row.estimate);
    // The axis is of percentages.
    let estimates: Vec<_> = estimates.filter(|found| !found.in_own_unit).collect();
    let axis = IntervalAxis::new(&estimates, results.info.margin);
    let compared = verdict.rows.len() > 1;
    let when = results.trials.first().map(|first| day(first.started_ms));
    let table = markup! {
        table #verdict {
            caption { (verdict.title) @if let Some(when) = when { ", " (when) } }
            thead { tr {
                th scope="col" { "variant" } th scope="col" { "median" }
                @if compared {
                    th scope="col" { "difference" }
                    th.chart scope="col" { "to " (facts::baseline(results)) }
                    th.l scope="col" { "guards and controls" }
                }
            } }
            tbody { @for row in &verdict.rows {
                tr class={ "v" (variant_class(row.place)) } data-variant=(row.variant) {
                    th scope="row" {
                        @if let Some(mark) = row.mark { span class={ "sign " (mark_class(mark)) } { (mark.sign()) } }
                        @else { span.sign {} }
                        span.key { (row.variant) }
                    }
                    td { (unbroken(row.value.as_deref().unwrap_or("–"))) }
                    @if compared { (figures(row, axis.as_ref())) }
                }
            } }
            @if let Some(axis) = axis.as_ref().filter(|_| compared) {
                tfoot { tr { td {} td {} td {} td.chart { (axis_picture(axis)) } td {} } }
            }
        }
    };
    scrollable("The verdict on every variant", &table)
}

fn figures(row: &VerdictRow, axis: Option<&IntervalAxis>) -> Markup {
    markup! {
        td {
            @if let Some(change) = &row.change { (unbroken(change)) }
            @match (&row.interval, &row.change) {
                (Some(interval), _) => { br; span.soft { (unbroken(interval)) } }
                (None, Some(_)) => { br; span.soft { "so far" } }
                (None, None) => {}
            }
        }
        td.chart {
            @if let Some((estimate, axis)) = row.estimate.as_ref().zip(axis) {
                (interval_picture(estimate, axis))
            }
        }
        td.l {
            @if let Some(remark) = &row.remark { div { (remark) } }
            @for cell in &row.guards { div class=(guard_class(cell)) { (unbroken(&cell.text)) } }
            @for control in &row.controls { div { (unbroken(control)) } }
        }
    }
}

fn guard_class(cell: &GuardCell) -> &'static str {
    match cell.passed {
        Some(true) => "kept",
        Some(false) => "bad",
        None => "open",
    }
}

/// The command to use, and what is still open.
fn use_it(verdict: &VerdictTable) -> Markup {
    markup! {
        @match &verdict.use_it {
            Some(UseIt::Command { line, left_out }) => {
                p.use { "Use it: " code { (line) } @if let Some(what) = left_out { " " (what) } }
            },
            Some(UseIt::Beyond(what)) => { p.use { "To use it, take what the experiment file below says: " (what) "." } },
            None => { @if let Some(why) = &verdict.not_yet { p.use { "Use it: " (why) "." } } },
        }
        @if let Some(open) = &verdict.open { p.use { (open.text) "." } }
    }
}
