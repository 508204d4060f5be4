//! The table of faults, run as a whole.

use crate::faults::rows::{Answer, ROWS, Row};
use crate::faults::score::{SCORE, Score};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reliability.md")
}

/// Runs one test, wherever it is.
fn run(row: &Row, test: &str, score: &Path) -> Output {
    let mut command = match row.answer {
        Answer::Parts(_) => {
            let mut command = Command::new(env!("CARGO"));
            command.args(["test", "--quiet", "-p", "carat", "--lib", "--"]);
            command.current_dir(env!("CARGO_MANIFEST_DIR"));
            command
        }
        _ => Command::new(std::env::current_exe().unwrap()),
    };
    command.args(["--exact", test]).env(SCORE, score).output().unwrap()
}

/// Everything that the tests of a row saw, and whether all of them held.
fn try_row(row: &Row, tests: &[&str]) -> (Score, Result<(), String>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("score");
    let (mut sum, mut verdict) = (Score::default(), Ok(()));
    for test in tests {
        let _ = fs::remove_file(&file);
        let ran = run(row, test, &file);
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        let held = ran.status.success() && said.contains("1 passed");
        let scored = fs::read_to_string(&file).ok();
        let one =
            scored.map_or_else(|| Score::of_one(held), |text| serde_json::from_str(&text).unwrap());
        sum.tries += one.tries;
        sum.survived += one.survived;
        sum.lost = if one.lost.is_empty() { sum.lost } else { one.lost };
        if !held {
            verdict = Err(format!("{test}: {said}"));
        }
    }
    (sum, verdict)
}

fn line(row: &Row, cells: [String; 3]) -> String {
    let [tries, survived, lost] = cells;
    format!("| {} | {} | {tries} | {survived} | {lost} |\n", row.fault, row.expected)
}

/// The two tables of the page, and what did not hold.
fn tables() -> (String, Vec<String>) {
    let mut tried = String::from(
        "| fault | what must hold | tries | survived | lost |\n|---|---|--:|--:|---|\n",
    );
    let mut untried =
        String::from("| fault | what holds | why there is no test |\n|---|---|---|\n");
    let mut failures = Vec::new();
    for row in ROWS {
        let tests = match row.answer {
            Answer::Tests(tests) | Answer::Parts(tests) => tests,
            Answer::Reason(reason) => {
                untried += &format!("| {} | {} | {reason} |\n", row.fault, row.expected);
                continue;
            }
        };
        let (score, held) = try_row(row, tests);
        let lost = match (&held, score.lost.as_str()) {
            (Err(_), _) => "**did not hold**",
            (Ok(()), "") => "nothing",
            (Ok(()), words) => words,
        };
        let cells = [score.tries.to_string(), score.survived.to_string(), lost.to_owned()];
        let line = line(row, cells);
        // Whoever waits for the whole table sees how far it is; the harness keeps what is printed.
        let _ = std::io::stderr().write_all(line.as_bytes());
        tried += &line;
        failures.extend(held.err());
    }
    (format!("{tried}\n## Without a test\n\n{untried}"), failures)
}

fn head() -> String {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "# What Carat survives\n\n\
         Written by `bin/test --faults --write` (Linux {}, {cores} cores), not by hand: every line is run against the real program. \
         `bin/test` runs the same tests with fewer tries. A try survives only where all of *what must hold* held.\n\n",
        kernel.trim()
    )
}

#[test]
#[ignore = "runs every fault with all its tries: bin/test --faults"]
fn every_fault_is_survived() {
    let (tables, failures) = tables();
    if std::env::var_os("CARAT_TEST_WRITE").is_some() {
        fs::write(page(), head() + &tables).unwrap();
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_test_that_the_table_names_exists() {
    let list = Command::new(std::env::current_exe().unwrap()).arg("--list").output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    let known: BTreeSet<&str> =
        list.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for row in ROWS {
        match row.answer {
            Answer::Tests(tests) => {
                tests.iter().for_each(|test| assert!(known.contains(test), "no test `{test}`"));
            }
            Answer::Parts(tests) => {
                for test in tests {
                    let (module, name) = test.split_once("::tests::").unwrap();
                    let file = source.join(module.replace("::", "/")).with_extension("rs");
                    let text = fs::read_to_string(&file).unwrap_or_default();
                    assert!(text.contains(&format!("fn {name}(")), "no test `{test}`");
                }
            }
            Answer::Reason(_) => {}
        }
    }
}

#[test]
fn the_page_has_a_line_for_every_fault() {
    let page = fs::read_to_string(page()).unwrap();
    let lines: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).collect();
    for row in ROWS {
        let start = format!("| {} | {} |", row.fault, row.expected);
        assert!(lines.iter().any(|line| line.starts_with(&start)), "no line for: {}", row.fault);
    }
    // Two heads; what the table no longer has must not stay on the page.
    assert_eq!(lines.len(), ROWS.len() + 2, "write it anew: bin/test --faults --write");
}
