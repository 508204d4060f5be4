//! What is said of experiments with few blocks, and of variants that break a guard.

use crate::report_builder::{Effect, Recipe};
use crate::support::{Folder, fake_experiment};
use carat_report::{
    Audience, NextCommands, PageOptions, Style, html, markdown, terminal, verdict_text,
};

/// An experiment with a default, another variant and these.
fn folder(name: &str, variants: &[&str]) -> Folder {
    let folder = Folder::new(name);
    let variants: String =
        variants.iter().map(|name| format!("[[variant]]\nname = \"{name}\"\n")).collect();
    let tables = format!("{variants}[measure]\nprimary = \"memory.rss.final\"\n");
    folder.write("fake.toml", &fake_experiment("fake", &tables));
    folder
}

#[test]
fn a_budget_is_not_judged_below_the_confidence_that_the_design_requires() {
    let folder = folder("budget-early", &[]);
    let judge = |budget: &str, blocks: &str| {
        let fake = ["--fake", "71e6:1e5,74e6:1e5", "--blocks", blocks, "--fresh", "--budget"];
        folder.run(&[&["compare", "fake.toml"], &fake[..], &[budget]].concat())
    };
    for budget in ["memory.rss.final<+2%", "memory.rss.final<+9%"] {
        let ran = judge(budget, "3");
        ran.assert_code(3).assert_says("other: cannot tell yet, ");
        ran.assert_says("has a confidence of only 75 %; needs at least 8 blocks");
        // Three blocks decide nothing, so that more may be added.
        ran.assert_says(&format!(
            "decide  carat compare fake.toml -o fake.carat --resume --blocks 8 --budget '{budget}'"
        ));
    }
    judge("memory.rss.final<+9%", "6").assert_code(0).assert_says("kept by other");
    // A limit of a value needs as many trials as show where their median lies.
    judge("memory.rss.final<90MB", "5").assert_code(3).assert_says("needs at least 6 trials");
    judge("memory.rss.final<90MB", "6").assert_code(0).assert_says("kept by other: median 7");
    judge("memory.rss.final<74MB", "6").assert_code(3).assert_says("other: cannot tell yet");
    let close = judge("memory.rss.final<+4.2%", "8");
    close.assert_code(3).assert_says("decide  carat ");
}

#[test]
fn a_large_effect_in_a_few_blocks_is_forecast_to_be_decided_at_the_first_look() {
    let folder = folder("large-effect", &["allocator", "malloc-free"]);
    let fake = "140e6:4e6,141e6:4e6,172e6:5e6,140e6:4e6";
    for (blocks, words) in [
        ("6", "; probably decided after 10 blocks (6 are allowed)"),
        // Three blocks do not show the noise, but it is known how many can decide.
        ("3", "; 10 blocks can decide (3 are allowed)"),
    ] {
        let compare = ["compare", "fake.toml", "--fake", fake, "--blocks", blocks, "--fresh"];
        folder.run(&[&compare[..], &["--seed", "4"]].concat()).assert_code(3);
        let told = folder.run(&["report", "fake.carat", "--format", "md"]).out;
        let line = told.lines().find(|line| line.contains("**allocator**")).unwrap();
        assert!(line.contains(words), "{line}");
    }
}

#[test]
fn a_variant_that_breaks_a_guard_never_leads_however_much_it_saves() {
    let effect = |name, memory, latency| Effect { name, memory, latency };
    let effects = vec![
        effect("default", 1.0, 1.0),
        effect("costly", 0.5, 1.3),
        effect("modest", 0.8, 1.0),
        effect("larger", 1.9, 1.0),
    ];
    let results = Recipe { effects, ..Recipe::arenas() }.build();
    let page = html(&results, &PageOptions::default());
    let headline = page.split("<h1>").nth(1).unwrap().split_once("</h1>").unwrap().0;
    assert!(headline.contains("<strong>modest</strong> uses"), "{headline}");
    let short = verdict_text(&results, Style::default(), &NextCommands::default());
    assert!(short.contains("✗ costly") && short.contains("p95 +30 %, limit +5 %"), "{short}");
    for text in [terminal(&results, Style::default()), markdown(&results, Audience::Own)] {
        // Sentences, then the rows of every table.
        let [modest, costly] = ["modest", "costly"]
            .map(|name| text.match_indices(name).map(|(place, _)| place).collect::<Vec<_>>());
        assert!(modest.iter().zip(&costly).all(|(own, other)| own < other), "{text}");
        let mut lines = text.lines().filter(|line| line.contains("costly uses"));
        assert!(lines.all(|line| line.contains('✗')), "{text}");
    }
}

#[test]
fn plan_dry_run_and_verdict_name_the_same_block() {
    let folder = folder("same-block", &["third", "fourth"]);
    let fake = ["--fake", "71e6:1e5,65e6:1e5,71e6:1e5,70e6:1e5"];
    let text = std::fs::read_to_string(folder.path("fake.toml")).unwrap();
    for (budget, words, decide) in [
        ("3", "3 blocks cannot decide; 10 can", "3 blocks cannot decide; 10 can, "),
        ("8", "a verdict is possible from block 8 on", "Details "),
        ("30", "a verdict is possible from block 10 on", "Details "),
    ] {
        folder.write("fake.toml", &format!("{text}[trials]\nmax = {budget}\nmargin = '2%'\n"));
        folder.run(&["compare", "fake.toml", "--dry-run"]).assert_code(0).assert_says(words);
        let pilot = ["plan", "fake.toml", "-o", &format!("{budget}.carat")];
        let plan = folder.run(&[&pilot[..], &fake].concat());
        plan.assert_code(0).assert_says(&format!("has at most {budget}: {words}. "));
        folder.run(&[&["compare", "fake.toml", "--fresh"], &fake[..]].concat()).assert_says(decide);
    }
}
