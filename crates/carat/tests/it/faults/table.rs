//! Runs the table of faults.

use crate::faults::rows::{Answer, Row, rows};
use crate::faults::score::{SCORE, Score};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/evidence/reliability.md")
}

/// The tests of this binary, by name.
fn known_tests() -> BTreeSet<String> {
    let list = Command::new(std::env::current_exe().unwrap()).arg("--list").output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    list.lines().filter_map(|line| Some(line.strip_suffix(": test")?.to_owned())).collect()
}

/// The tests that a name in the table stands for: itself, or one per Ruby.
fn expand(test: &str, known: &BTreeSet<String>) -> Vec<String> {
    let of_each_ruby = |name: &&String| {
        name.strip_prefix(test).is_some_and(|rest| rest.is_empty() || rest.starts_with("::on_ruby"))
    };
    known.iter().filter(of_each_ruby).cloned().collect()
}

/// The package of a unit test, and its name there.
fn package_of(test: &str) -> (String, &str) {
    let (package, name) = test.split_once("::").unwrap();
    (package.replace('_', "-"), name)
}

/// Runs one test, of this binary or of a crate.
fn run(row: &Row, test: &str, score: &Path) -> Output {
    let mut command = match row.answer {
        Answer::Parts(_) => {
            let (package, name) = package_of(test);
            let mut command = Command::new(env!("CARGO"));
            command.args(["test", "--quiet", "-p", &package, "--lib", "--", "--exact", name]);
            command.current_dir(env!("CARGO_MANIFEST_DIR"));
            command
        }
        _ => {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", test]);
            command
        }
    };
    command.env(SCORE, score).output().unwrap()
}

#[derive(Default)]
struct RowResult {
    score: Score,
    /// Why a test of it was not tried.
    skipped: Option<String>,
    /// What did not hold.
    failure: Option<String>,
}

impl RowResult {
    /// Adds the result of one test.
    fn add(&mut self, test: &str, output: &Output, score: Option<String>) {
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() && printed.contains("1 ignored") {
            let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            self.skipped = Some(format!("{test}: {reason}"));
            return;
        }
        let held = output.status.success() && printed.contains("1 passed");
        let one =
            score.map_or_else(|| Score::of_one(held), |text| serde_json::from_str(&text).unwrap());
        self.score.tries += one.tries;
        self.score.survived += one.survived;
        if !one.lost.is_empty() {
            self.score.lost = one.lost;
        }
        if !held {
            self.failure = Some(format!("{test}: {printed}"));
        }
    }

    /// The cells of its line: tries, survived, lost.
    fn cells(&self) -> [String; 3] {
        let lost = match (&self.failure, &self.skipped, self.score.lost.as_str()) {
            (Some(_), ..) => FAILED,
            (None, Some(_), _) => UNTRIED,
            (None, None, "") => "nothing",
            (None, None, lost) => lost,
        };
        [self.score.tries.to_string(), self.score.survived.to_string(), lost.to_owned()]
    }
}

fn try_row(row: &Row, tests: &[String]) -> RowResult {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("score");
    let mut result = RowResult::default();
    for test in tests {
        let _ = fs::remove_file(&file);
        let output = run(row, test, &file);
        result.add(test, &output, fs::read_to_string(&file).ok());
    }
    result
}

/// The last cell where something did not hold.
const FAILED: &str = "**did not hold**";
/// The last cell where a test was skipped.
const UNTRIED: &str = "**not tried**";

/// The line that an earlier run wrote for a row, if everything held.
fn earlier(page: &str, row: &Row) -> Option<String> {
    let start = format!("| {} | {} |", row.fault, row.expected);
    let line = page.lines().find(|line| line.starts_with(&start))?;
    (!line.contains(FAILED) && !line.contains(UNTRIED)).then(|| format!("{line}\n"))
}

fn line(row: &Row, cells: [String; 3]) -> String {
    let [tries, survived, lost] = cells;
    format!("| {} | {} | {tries} | {survived} | {lost} |\n", row.fault, row.expected)
}

/// The two tables of the page, and what did not hold or was not tried.
fn tables() -> (String, Vec<String>) {
    let mut tried = String::from(
        "| fault | what must hold | tries | survived | lost |\n|---|---|--:|--:|---|\n",
    );
    let mut untried =
        String::from("| fault | what holds | why there is no test |\n|---|---|---|\n");
    let mut failures = Vec::new();
    let known = known_tests();
    let again = tries_again();
    let before = again.then(|| fs::read_to_string(page()).unwrap_or_default());
    for row in rows() {
        let tests = match row.answer {
            Answer::Tests(tests) => tests.iter().flat_map(|test| expand(test, &known)).collect(),
            Answer::Parts(tests) => tests.iter().map(|&test| test.to_owned()).collect::<Vec<_>>(),
            Answer::Reason(reason) => {
                untried += &format!("| {} | {} | {reason} |\n", row.fault, row.expected);
                continue;
            }
        };
        if let Some(line) = before.as_ref().and_then(|page| earlier(page, row)) {
            tried += &line;
            continue;
        }
        let result = try_row(row, &tests);
        let line = line(row, result.cells());
        // The whole table takes long, so it shows its progress.
        let _ = std::io::stderr().write_all(line.as_bytes());
        tried += &line;
        failures.extend(result.failure.or(result.skipped));
    }
    (format!("{tried}\n## Without a test\n\n{untried}"), failures)
}

/// Whether only rows that are new or failed are tried, and the others stay as they were written.
fn tries_again() -> bool {
    std::env::var_os("CARAT_TEST_AGAIN").is_some()
}

/// The kernels of all rows: this one, and those that `earlier`, the page whose rows stay, names.
fn kernels(own: &str, earlier: &str) -> String {
    let named = earlier.split_once("(Linux ").and_then(|(_, rest)| rest.split_once(", "));
    let mut all: Vec<&str> = named.iter().flat_map(|(named, _)| named.split(" and ")).collect();
    if !all.contains(&own) {
        all.push(own);
    }
    all.join(" and ")
}

#[test]
fn the_page_names_the_kernels_of_rows_that_were_not_tried_again() {
    let page = "Written by `bin/test` (Linux 6.1 and 6.6, 2 cores), not by hand (x, y)";
    assert_eq!(kernels("6.18", page), "6.1 and 6.6 and 6.18");
    assert_eq!(kernels("6.6", page), "6.1 and 6.6");
    assert_eq!(kernels("6.18", ""), "6.18");
}

fn head() -> String {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let earlier = if tries_again() { fs::read_to_string(page()) } else { Ok(String::new()) };
    let kernels = kernels(kernel.trim(), &earlier.unwrap_or_default());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "# What Carat survives\n\n\
         Written by `bin/test --faults --write` (Linux {kernels}, {cores} cores), not by hand: every row is run against the real program. \
         `bin/test` runs the same tests with fewer tries. A try survives only if everything in *what must hold* held.\n\n"
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

/// Whether the source of a unit test exists.
fn unit_test_exists(test: &str) -> bool {
    let (package, test) = package_of(test);
    let Some((module, name)) = test.split_once("::tests::") else { return false };
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let base = crates.join(package).join("src").join(module.replace("::", "/"));
    let files = [base.with_extension("rs"), base.join("mod.rs"), base.join("tests.rs")];
    files.iter().any(|file| {
        fs::read_to_string(file).is_ok_and(|text| text.contains(&format!("fn {name}(")))
    })
}

#[test]
fn every_test_that_the_table_names_exists() {
    let known = known_tests();
    let missing = rows().flat_map(|row| match row.answer {
        Answer::Tests(tests) => {
            tests.iter().filter(|test| expand(test, &known).is_empty()).collect::<Vec<_>>()
        }
        Answer::Parts(tests) => tests.iter().filter(|test| !unit_test_exists(test)).collect(),
        Answer::Reason(_) => Vec::new(),
    });
    let missing: Vec<_> = missing.collect();
    assert!(missing.is_empty(), "no such tests: {missing:#?}");
}

#[test]
fn the_page_has_a_line_for_every_fault() {
    let page = fs::read_to_string(page()).unwrap();
    let lines: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).collect();
    for row in rows() {
        let start = format!("| {} | {} |", row.fault, row.expected);
        assert!(lines.iter().any(|line| line.starts_with(&start)), "no line for: {}", row.fault);
    }
    // Two table headers, and no row that the table no longer has.
    assert_eq!(lines.len(), rows().count() + 2, "update it with bin/test --faults --write");
}
