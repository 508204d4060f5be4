//! `bin/docs`: figures of a text come from kept results.

use crate::report_builder::Recipe;
use crate::support::Folder;
use carat_report::{Audience, json};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::spawn;

const TABLE: &str = "\
<!-- figures: table kept
memory = memory.rss.final median
against default = memory.rss.final conclusion
row default = as it is
row compact
-->
<!-- end of figures -->
";

/// A folder with kept results and a page.
fn page(text: &str) -> Folder {
    let folder = Folder::new("docs");
    let results = Recipe { blocks: 10, samples: 4, responses: 20, ..Recipe::default() }.build();
    folder.write("kept.json", &json(&results, Audience::Shared).unwrap());
    folder.write("page.md", &format!("<!-- figures: kept = kept.json -->\n{text}"));
    folder
}

fn docs(folder: &Folder, arguments: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bin/docs");
    Command::new(script)
        .args(arguments)
        .env("CARAT", env!("CARGO_BIN_EXE_carat"))
        .env("DOCS_ROOT", folder.path("."))
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

#[test]
fn figures_and_tables_are_filled_in_and_a_changed_figure_is_found() {
    require!(Ruby);
    let folder = page(&format!(
        "It saves <!-- = kept compact memory.rss.final difference -->?<!-- / --> on <!-- = kept run date -->?<!-- / -->.\n\n{TABLE}"
    ));
    let filled = docs(&folder, &["page.md"]);
    assert!(filled.status.success(), "{}", text(&filled));
    let written = fs::read_to_string(folder.path("page.md")).unwrap();
    assert!(written.contains("memory.rss.final difference -->−0."), "{written}");
    assert!(
        written.contains("| as it is | 7") && written.contains("**smaller**, −0."),
        "{written}"
    );
    let current = docs(&folder, &["--check", "page.md"]);
    assert!(current.status.success(), "{}", text(&current));
    folder.write("page.md", &written.replacen("−0.", "−1.", 1));
    let stale = docs(&folder, &["--check", "page.md"]);
    assert_eq!(stale.status.code(), Some(1), "{}", text(&stale));
    assert!(text(&stale).contains("page.md as the kept results say"), "{}", text(&stale));
}

/// An experiment file that names what a shared export hides, so that its plan is exported in another form.
const EXPERIMENT: &str = "\
# Why.
name = 'blog'

[server]
command = [\"puma\", \"-C\", \"puma.rb\"] # In its folder.
env = { FEED = \"wombat\", WORKERS = \"2\" }
";

#[test]
fn kept_results_are_noted_where_their_experiment_file_says_something_else() {
    require!(Ruby);
    let folder = page("It ran on <!-- = kept run date -->?<!-- / -->.\n");
    let mut results = Recipe::default().build();
    results.info.plan_text = EXPERIMENT.into();
    let kept = json(&results, Audience::Shared).unwrap();
    assert!(!kept.contains("wombat") && !kept.contains("env = {"), "{kept:.2000}");
    folder.write("kept.json", &kept);
    assert!(docs(&folder, &["page.md"]).status.success());
    fs::create_dir_all(folder.path("workloads/blog")).unwrap();
    for (workers, is_noted) in [("2", false), ("3", true)] {
        let now = EXPERIMENT.replace("WORKERS = \"2", &format!("WORKERS = \"{workers}"));
        folder.write("workloads/blog/carat.toml", &now);
        let said = text(&docs(&folder, &["--check", "page.md"]));
        assert_eq!(said.contains("is not one of workloads/ any more"), is_noted, "{said}");
    }
}

#[test]
fn a_wrong_marker_is_named_with_its_line_and_what_is_known() {
    require!(Ruby);
    for (marker, named) in [
        (
            "is <!-- = kept compcat memory.rss.final median -->?<!-- / -->",
            "it has compact, default",
        ),
        (
            "is <!-- = kept compact memory.rss median -->?<!-- / -->",
            "kept.json has no `memory.rss`",
        ),
        ("is <!-- = kept compact memory.rss.final -->?<!-- / -->", "is not one figure; add one of"),
        ("is <!-- = lost compact n -->?<!-- / -->", "`lost` is neither a path nor named"),
        ("is <!-- = no/such.json run date -->?<!-- / -->", "there is no file no/such.json"),
        ("is <!-- = kept run date -->?", "is not closed"),
        ("<!-- = kept run date -->?<!-- / --> is it", "must not begin a line"),
        (
            "<!-- figures: table kept\nx = latency.p95 none\n-->\n<!-- end of figures -->",
            "has no `none`",
        ),
    ] {
        let folder = page(&format!("One.\n\n{marker}\n"));
        let refused = docs(&folder, &["--check", "page.md"]);
        assert_eq!(refused.status.code(), Some(1), "{marker}: {}", text(&refused));
        assert!(text(&refused).contains("page.md:4:"), "{marker}: {}", text(&refused));
        assert!(text(&refused).contains(named), "{marker}: {}", text(&refused));
    }
}

#[test]
fn a_figure_without_a_marker_is_an_error_in_the_readme_and_counted_elsewhere() {
    require!(Ruby);
    let typed = "It saves −14 % of <!-- given -->20 MB<!-- / --> and `5 MB`, <!-- published -->8 s<!-- / -->.\n";
    let folder = page(typed);
    let counted = docs(&folder, &["--check", "page.md"]);
    assert!(counted.status.success(), "{}", text(&counted));
    assert!(text(&counted).contains("page.md: 1 figures are not marked"), "{}", text(&counted));
    folder.write("README.md", typed);
    let refused = docs(&folder, &["--check", "README.md"]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    assert!(text(&refused).contains("README.md:1: `−14 %` is not marked"), "{}", text(&refused));
}

/// The output of a Ruby script of this repository that reads standard input.
fn piped(script: &str, arguments: &[&str], input: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut child = Command::new("ruby")
        .arg(script)
        .args(arguments)
        .current_dir(root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // A thread, so that neither side waits for the other with a full pipe.
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = spawn(move || stdin.write_all(input.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "{script}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_benchmark_that_was_kept_gives_its_table_and_its_cells() {
    require!(Ruby);
    let folder = page(
        "It costs <!-- = docs/cost.json cost \"per frame\" carat -->?<!-- / --> by \
         <!-- = docs/cost.json run command -->?<!-- / -->, <!-- = docs/cost.json \"In two\" bare 2 n -->?<!-- / -->.\n\n\
         <!-- figures: rows docs/cost.json -->\n<!-- end of figures -->\n",
    );
    fs::create_dir(folder.path("docs")).unwrap();
    let printed = "| figure | carat |\n|---|--:|\n| per frame | 2.00 µs |\n\n### In two parts\n\n\
                   {\"mode\":\"bare\",\"n\":1}\n{\"mode\":\"bare\",\"n\":2}\n";
    let kept = piped("bench/keep.rb", &["cost", "bin/bench cost"], printed);
    folder.write("docs/cost.json", &kept);
    let filled = docs(&folder, &["page.md"]);
    assert!(filled.status.success(), "{}", text(&filled));
    let written = fs::read_to_string(folder.path("page.md")).unwrap();
    assert!(written.contains("carat -->2.00 µs<!-- / --> by"), "{written}");
    assert!(written.contains("command -->bin/bench cost<!-- / -->"), "{written}");
    assert!(
        written.contains("-->\n| figure | carat |\n|---|--:|\n| per frame | 2.00 µs |\n"),
        "{written}"
    );
    assert!(written.contains("bare 2 n -->2<!-- / -->"), "{written}");
    assert!(
        written.contains("*In two parts.*\n\n| mode | n |\n|---|---|\n| bare | 1 |"),
        "{written}"
    );
}

#[test]
fn a_text_that_a_benchmark_printed_is_filled_in_by_its_title() {
    require!(Ruby);
    let marker = |title: &str| {
        format!("<!-- figures: output docs/explain.json \"{title}\" -->\n<!-- end of figures -->\n")
    };
    let folder = page(&(marker("a worker") + "\n" + &marker("later")));
    fs::create_dir(folder.path("docs")).unwrap();
    let printed =
        "a worker\n```\n  slots: 7 live\n\n| no table |\n```\n\nlater\n```\nPost +5\n```\n";
    let kept = piped("bench/keep.rb", &["explain", "bin/bench explain"], printed);
    folder.write("docs/explain.json", &kept);
    let filled = docs(&folder, &["page.md"]);
    assert!(filled.status.success(), "{}", text(&filled));
    let written = fs::read_to_string(folder.path("page.md")).unwrap();
    assert!(written.contains("-->\n```\n  slots: 7 live\n\n| no table |\n```\n<!--"), "{written}");
    assert!(written.contains("-->\n```\nPost +5\n```\n<!--"), "{written}");
    folder.write("page.md", &format!("One.\n\n{}", marker("earlier")));
    let refused = docs(&folder, &["--check", "page.md"]);
    assert!(text(&refused).contains("it has `a worker`, `later`"), "{}", text(&refused));
}

#[test]
fn a_shortened_file_keeps_every_sample_with_a_moment_and_the_last() {
    require!(Ruby);
    let results = Recipe { blocks: 1, samples: 90, responses: 20, ..Recipe::default() }.build();
    let mut export: Value =
        serde_json::from_str(&json(&results, Audience::Shared).unwrap()).unwrap();
    let samples = export["results"]["trials"][0]["samples"].as_array_mut().unwrap();
    let last = samples.last().unwrap()["at_ms"].clone();
    for (place, moment) in [(2, "ready"), (3, "start"), (50, "end")] {
        samples[place]["moment"] = moment.into();
    }
    let moments: Vec<Value> = [2, 3, 50].map(|place| samples[place]["at_ms"].clone()).into();
    let short = piped("docs/evidence/experiments/shorten.rb", &[], &export.to_string());
    let short: Value = serde_json::from_str(&short).unwrap();
    let kept = short["results"]["trials"][0]["samples"].as_array().unwrap();
    assert!(kept.len() < 25, "{} samples", kept.len());
    for moment in moments {
        assert!(
            kept.iter().any(|one| one["at_ms"] == moment && one["moment"].is_string()),
            "{moment}"
        );
    }
    assert_eq!(kept.last().unwrap()["at_ms"], last);
}

#[test]
fn markers_that_are_kept_aside_are_put_back_where_the_text_moved_and_missed_where_it_is_gone() {
    require!(Ruby);
    let folder = page(&format!(
        "It saves <!-- = kept compact memory.rss.final difference -->?<!-- / --> of <!-- given -->5 MB<!-- / -->.\n\n{TABLE}\nThe end.\n"
    ));
    for arguments in [&["page.md"][..], &["--aside", "page.md"], &["--check", "page.md"]] {
        let ran = docs(&folder, arguments);
        assert!(ran.status.success(), "{arguments:?} {}", text(&ran));
    }
    let raw = fs::read_to_string(folder.path("page.md")).unwrap();
    assert!(!raw.contains("<!--") && raw.contains("It saves −0."), "{raw}");
    // Words before and between, another break of lines, and a marker that is written into the text.
    let moved = raw
        .replace("It saves", "First.\n\nIt\nsaves")
        .replace("The end.", "The <!-- given -->7 MB<!-- / --> end.");
    folder.write("page.md", &moved);
    assert!(!docs(&folder, &["--check", "page.md"]).status.success());
    assert!(docs(&folder, &["page.md"]).status.success());
    let written = fs::read_to_string(folder.path("page.md")).unwrap();
    assert_eq!(written, moved.replace("<!-- given -->7 MB<!-- / -->", "7 MB"));
    assert!(docs(&folder, &["--check", "page.md"]).status.success());
    folder.write("page.md", &written.replace("saves −0.", "saves −9."));
    let lost = docs(&folder, &["--check", "page.md"]);
    assert!(
        !lost.status.success() && text(&lost).contains("write its marker there again"),
        "{}",
        text(&lost)
    );
}

#[test]
fn a_link_that_leads_nowhere_is_named_with_its_line() {
    require!(Ruby);
    let folder = Folder::new("links");
    fs::create_dir(folder.path("docs")).unwrap();
    folder.write("docs/other.md", "# A title, with `code`\n\n<a id=\"by-hand\"></a>\n");
    let fine = "[a](docs/other.md#a-title-with-code) [b](docs/other.md#by-hand) [c](docs) [d](https://example.org/x)\n\n```\n[e](gone.md)\n```\n";
    folder.write("page.md", fine);
    assert!(docs(&folder, &["--check", "page.md"]).status.success());
    for (link, says) in [
        ("gone.md", "leads to gone.md, which does not exist"),
        ("docs/other.md#gone", "docs/other.md has no such heading"),
        ("#gone", "page.md has no such heading"),
        ("../gone.md", "leads out of the repository"),
    ] {
        folder.write("page.md", &format!("{fine}\nSee [it]({link}).\n"));
        let found = docs(&folder, &["--check", "page.md"]);
        assert_eq!(found.status.code(), Some(1), "{link}: {}", text(&found));
        let said = text(&found);
        assert!(said.contains("page.md:7: ") && said.contains(says), "{link}: {said}");
    }
}
