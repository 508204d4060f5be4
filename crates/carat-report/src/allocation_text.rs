//! What was allocated where during a recording, as lines of text.

use crate::numbers::{grouped_count, percent};
use crate::text::{columns, fill, one_line, shorten};
use carat_model::{AllocationProfile, AllocationSite, count};

/// Places that are listed; the file has more.
const PLACES: usize = 10;
/// Characters of a class's name, and of the end of a path.
const CLASS: usize = 40;
const PATH: usize = 60;

/// How many samples there are, and how they were taken.
pub(crate) fn heading(profile: &AllocationProfile) -> String {
    let AllocationProfile { seconds, every, .. } = profile;
    let processes = count(profile.processes, "process");
    let objects = grouped_count(profile.objects, "object");
    let samples = grouped_count(profile.samples, "sample");
    format!(
        "Allocated in {seconds:.0} s by {processes}: {objects}, {samples}, each for {every} of slots on average"
    )
}

/// The places with the largest shares: share, interval of 95 %, class and place of each.
pub(crate) fn rows(profile: &AllocationProfile) -> Vec<[String; 4]> {
    profile.sites.iter().take(PLACES).map(row).collect()
}

fn row(site: &AllocationSite) -> [String; 4] {
    let (low, high) = site.interval;
    [
        percent(site.share, 1),
        format!("{:.1} to {:.1}", low * 100.0, high * 100.0),
        shorten(&one_line(&site.class), CLASS),
        place(site),
    ]
}

/// The end of the path, which tells more than its beginning, and the line.
fn place(site: &AllocationSite) -> String {
    let Some(path) = &site.path else { return "outside of Ruby code".to_owned() };
    let path = one_line(path);
    let length = path.chars().count();
    let end: String = path.chars().skip(length.saturating_sub(PATH)).collect();
    let cut = if length > PATH { "…" } else { "" };
    let line = site.line.map(|line| format!(":{line}")).unwrap_or_default();
    format!("{cut}{end}{line}")
}

/// What is not listed, and what the samples took from the program.
pub(crate) fn notes(profile: &AllocationProfile) -> Vec<String> {
    let listed: u64 = profile.sites.iter().take(PLACES).map(|site| site.samples).sum();
    let others = profile.samples.saturating_sub(listed);
    let share = others as f64 / profile.samples.max(1) as f64;
    let rest = (others > 0).then(|| format!("{} elsewhere", percent(share, 1)));
    let unplaced = (profile.unplaced > 0)
        .then(|| format!("{} had no room for their place", count(profile.unplaced, "sample")));
    let cost = &profile.cost;
    let of_all = cost.share.map(|share| format!(", {} of the processor time", percent(share, 1)));
    let sample = format!("{:.1} µs for each sample", cost.sample_ns / 1000.0);
    let cost = match (cost.object_ns, cost.spent_s) {
        (Some(object_ns), Some(spent_s)) => format!(
            "sampling took {object_ns:.0} ns for each object and {sample}: {spent_s:.2} s{}",
            of_all.unwrap_or_default()
        ),
        _ => format!("sampling took {sample}; what it took for each object could not be measured"),
    };
    rest.into_iter().chain(unplaced).chain([cost]).collect()
}

/// All of it for a terminal.
pub(crate) fn lines(profile: &AllocationProfile) -> Vec<String> {
    let rows = rows(profile);
    let width = |column: usize| rows.iter().map(|row| columns(&row[column])).max().unwrap_or(0);
    let widths = [0, 1, 2].map(width);
    let listed = rows.iter().map(|row @ [share, interval, class, place]| {
        let [before, between, behind] = [0, 1, 2].map(|column| fill(&row[column], widths[column]));
        format!("  {before}{share} ({interval}){between}  {class}{behind}  {place}")
    });
    let notes = notes(profile).into_iter().map(|note| format!("  {note}"));
    std::iter::once(heading(profile)).chain(listed).chain(notes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_model::{AllocationCost, Bytes};

    fn site(class: &str, path: Option<&str>, samples: u64) -> AllocationSite {
        AllocationSite {
            class: class.into(),
            path: path.map(str::to_owned),
            line: path.map(|_| 7),
            samples,
            share: samples as f64 / 200.0,
            interval: (0.1, 0.9),
        }
    }

    #[test]
    fn places_stand_in_columns_with_their_intervals_the_rest_and_the_cost() {
        let long = format!("/gems/{}/post.rb", "x".repeat(80));
        let profile = AllocationProfile {
            seconds: 60.0,
            processes: 2,
            samples: 200,
            every: Bytes(512 << 10),
            objects: 2_621_440,
            unplaced: 3,
            cost: AllocationCost {
                object_ns: Some(30.0),
                sample_ns: 1500.0,
                spent_s: Some(0.08),
                share: Some(0.02),
            },
            sites: vec![
                site("String", Some("/app/post.rb"), 120),
                site("Post", Some(&long), 60),
                site("(internal) imemo", None, 5),
            ],
        };
        let lines = lines(&profile);
        assert_eq!(
            lines[0],
            "Allocated in 60 s by 2 processes: 2,621,440 objects, 200 samples, each for 0.52 MB of slots on average"
        );
        assert_eq!(lines[1], "  60.0 % (10.0 to 90.0)  String            /app/post.rb:7");
        assert!(lines[2].contains("Post              …xx") && lines[2].ends_with("x/post.rb:7"));
        assert_eq!(lines[3], "   2.5 % (10.0 to 90.0)  (internal) imemo  outside of Ruby code");
        assert_eq!(lines[4..6], ["  7.5 % elsewhere", "  3 samples had no room for their place"]);
        assert_eq!(
            lines[6],
            "  sampling took 30 ns for each object and 1.5 µs for each sample: 0.08 s, 2.0 % of the processor time"
        );
    }
}
