//! The steps of the GitHub Action, run as GitHub runs them, with a `gh` that writes down what it is asked.

use crate::support::{Folder, Ran, fake_experiment, finish};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

const FAKE_CARAT: &str = "#!/bin/sh\n[ \"$1\" = compare ] && set -- \"$@\" --fake 71e6:1e5,74e6:1e5 --seed 3\n\"$PROGRAM_UNDER_TEST\" \"$@\"\n";
/// Lists the comments of `old`, and writes any other request to `asked`.
const FAKE_GH: &str =
    "#!/bin/sh\ncase \"$*\" in *--paginate*) cat old ;; *) echo \"$*\" >> asked ;; esac\n";

struct Job {
    folder: Folder,
    outputs: BTreeMap<String, String>,
}

impl Job {
    fn new() -> Self {
        let folder = Folder::new("action");
        fs::create_dir_all(folder.path("bin")).unwrap();
        for (name, text) in [("bin/carat", FAKE_CARAT), ("bin/gh", FAKE_GH)] {
            let path = folder.write(name, text);
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let measure = "[measure]\nprimary = \"memory.rss.final\"\n";
        folder.write("memory.toml", &fake_experiment("memory", measure));
        for name in ["old", "outputs", "summary", "path"] {
            folder.write(name, "");
        }
        Self { folder, outputs: BTreeMap::new() }
    }

    fn step(&mut self, name: &str, inputs: &[(&str, &str)]) -> Ran {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/action");
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new("/bin/bash");
        command
            .arg(scripts.join(name))
            .current_dir(self.folder.path("."))
            .env("PATH", format!("{}:{path}", self.folder.path("bin").display()))
            .env("PROGRAM_UNDER_TEST", env!("CARGO_BIN_EXE_carat"))
            .env("RUNNER_TEMP", self.folder.path("tmp"))
            .env("TMPDIR", self.folder.path("tmp"))
            .env("GITHUB_OUTPUT", self.folder.path("outputs"))
            .env("GITHUB_STEP_SUMMARY", self.folder.path("summary"))
            .env("GITHUB_PATH", self.folder.path("path"))
            .env("GITHUB_REPOSITORY", "shop/app")
            .envs(inputs.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let ran = finish(command.spawn().unwrap());
        let lines = self.read("outputs");
        let pairs = lines.lines().filter_map(|line| line.split_once('='));
        self.outputs = pairs.map(|(name, value)| (name.into(), value.into())).collect();
        ran
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path(name)).unwrap_or_default()
    }

    fn compare(&mut self, budget: &str, blocks: &str) -> String {
        let inputs = [("EXPERIMENT", "memory.toml"), ("BUDGET", budget), ("BLOCKS", blocks)];
        self.step("compare", &inputs).assert_code(0);
        self.outputs["code"].clone()
    }

    fn verdict(&mut self, code: &str, undecided: &str) -> Ran {
        self.step("verdict", &[("CODE", code), ("UNDECIDED", undecided)])
    }
}

#[test]
fn the_action_ends_as_the_budgets_do_and_writes_the_verdict_once() {
    for (budget, blocks, code) in [
        ("  memory.rss.final<+9%  \n\n", "8", "0"),
        ("memory.rss.final<+9%\nmemory.rss.final<+1%\n", "8", "99"),
        ("memory.rss.final<+2%", "3", "3"),
    ] {
        let mut job = Job::new();
        assert_eq!(job.compare(budget, blocks), code, "{budget}");
        let ended = job.verdict(code, "fail").code.unwrap();
        assert_eq!(ended.to_string(), code);
        let summary = job.read("summary");
        assert!(summary.starts_with("<!-- carat -->\n") && summary.contains("other"), "{summary}");
        assert!(Path::new(&job.outputs["page"]).is_file());
        let comment = job.outputs["comment"].clone();
        let inputs = [("NUMBER", "7"), ("COMMENT", comment.as_str())];
        job.step("comment", &inputs).assert_code(0);
        job.folder.write("old", "4711\n");
        job.step("comment", &inputs).assert_code(0);
        let asked = job.read("asked");
        let first = format!("api repos/shop/app/issues/7/comments -F body=@{comment}");
        let then = format!("api -X PATCH repos/shop/app/issues/comments/4711 -F body=@{comment}");
        assert_eq!(asked.lines().collect::<Vec<_>>(), [first, then]);
    }
}

#[test]
fn a_gate_without_a_budget_or_without_a_program_fails_and_what_is_not_proven_passes_only_if_asked()
{
    let mut job = Job::new();
    job.step("compare", &[("EXPERIMENT", "memory.toml"), ("BUDGET", " \n\n")])
        .assert_code(1)
        .assert_says("has no line");
    job.verdict("3", "pass").assert_code(0).assert_says("::warning::");
    job.verdict("99", "pass").assert_code(99);
    job.verdict("4", "pass").assert_code(4);
    let none = [("CARAT", ""), ("PATH", "/nowhere")];
    job.step("install", &none).assert_code(1).assert_says("there is no carat in PATH");
}

#[test]
fn an_experiment_that_cannot_be_read_fails_with_its_own_code_and_leaves_a_word_in_the_summary() {
    let mut job = Job::new();
    job.folder.write("memory.toml", "name = 1\n");
    let code = job.compare("memory.rss.final<+2%", "");
    assert!(code != "0" && code != "99", "{code}");
    assert!(job.read("summary").contains("before a trial was kept"));
    let ended = job.verdict(&code, "fail").code.unwrap();
    assert_eq!(ended.to_string(), code);
}
