//! What other engines get: jobs that Kubernetes accepts, and the workflow of docs/how-to/fleet.md.

use crate::fleet_run::{FAKE, TestFleet};
use crate::needs::KUBERNETES_SCHEMAS;
use crate::support::{Ran, finish};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The oldest Kubernetes with `podReplacementPolicy` and limits per index by default.
const OLDEST_KUBERNETES: &str = "1.29";

/// Checks a job against the schemas of a version of Kubernetes, by default of the newest one.
fn validate(job: &Path, version: Option<&str>) -> Ran {
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", KUBERNETES_SCHEMAS.as_ref().unwrap());
    command.args(["-m", "kubernetes_validate", "--strict"]);
    if let Some(version) = version {
        command.args(["-k", version]);
    }
    command.arg(job);
    finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

#[test]
fn the_oldest_and_the_newest_kubernetes_accept_the_jobs_and_refuse_a_misspelt_one() {
    require!(KubernetesSchemas);
    let types =
        ["--on", "k8s:m7g=pool=m7g", "--on", "k8s:any", "--image", "registry.example/app:1"];
    let fleet = TestFleet::plan("kubernetes", &types);
    for version in [Some(OLDEST_KUBERNETES), None] {
        for name in ["k8s-m7g.yaml", "k8s-any.yaml"] {
            let job = fleet.folder.path("fleet").join(name);
            validate(&job, version).assert_code(0).assert_says("passed for resource job/carat-");
        }
        let job = fs::read_to_string(fleet.folder.path("fleet/k8s-any.yaml")).unwrap();
        let misspelt = job.replace("podReplacementPolicy", "podReplacmentPolicy");
        let misspelt = fleet.folder.write("misspelt.yaml", &misspelt);
        validate(&misspelt, version).assert_code(1).assert_says("podReplacmentPolicy");
    }
}

/// The workflow of GitHub Actions in docs/how-to/fleet.md, the last block of YAML there.
fn workflow() -> Value {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/fleet.md");
    let script = r"puts YAML.load(File.read(ARGV[0])[/.*^```yaml\n(.*?)^```/m, 1]).to_json";
    let mut ruby = Command::new("ruby");
    let parsed = ruby.args(["-ryaml", "-rjson", "-e", script]).arg(page).output().unwrap();
    serde_json::from_slice(&parsed.stdout).unwrap()
}

fn commands(job: &Value) -> Vec<&str> {
    let steps = job["steps"].as_array().unwrap().iter();
    let commands: Vec<&str> = steps.filter_map(|step| step["run"].as_str()).collect();
    assert!(!commands.is_empty(), "{job}");
    commands
}

/// The folder that an action of a job is given.
fn folder_of<'a>(job: &'a Value, action: &str) -> &'a str {
    let mut steps = job["steps"].as_array().unwrap().iter();
    let step =
        steps.find(|step| step["uses"].as_str().is_some_and(|uses| uses.starts_with(action)));
    step.unwrap()["with"]["path"].as_str().unwrap()
}

/// A runner of GitHub: it has what git keeps of the fleet's folder, and carat in its `PATH`.
struct TestRunner<'a> {
    fleet: &'a TestFleet,
    checkout: PathBuf,
}

impl<'a> TestRunner<'a> {
    fn new(fleet: &'a TestFleet, name: &str) -> Self {
        let checkout = fleet.folder.path(name);
        fs::create_dir_all(checkout.join("fleet")).unwrap();
        for entry in fs::read_dir(fleet.folder.path("fleet")).unwrap() {
            let file = entry.unwrap().path();
            if file.is_file() {
                fs::copy(&file, checkout.join("fleet").join(file.file_name().unwrap())).unwrap();
            }
        }
        Self { fleet, checkout }
    }

    fn run(&self, line: &str) -> Ran {
        let carat = self.fleet.folder.carat(&[]);
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new("sh");
        for (name, value) in carat.get_envs() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        let path = format!("{}:{path}", self.fleet.folder.path("bin").display());
        command.args(["-ec", line]).current_dir(&self.checkout).env("PATH", path);
        finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }
}

fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let file = entry.unwrap().path();
        fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
    }
}

#[test]
fn the_workflow_of_the_page_has_the_verdict_of_one_machine() {
    require!(Ruby);
    let workflow = workflow();
    let (block, verdict) = (&workflow["jobs"]["block"], &workflow["jobs"]["verdict"]);
    let fleet = TestFleet::plan("workflow", &["--blocks", "10"]);
    let carat = env!("CARGO_BIN_EXE_carat");
    // Servers are the only thing that this machine does not start.
    let program = format!(
        "#!/bin/sh\n[ \"$2\" != block ] || set -- \"$@\" --fake {FAKE}\nexec {carat} \"$@\"\n"
    );
    fs::create_dir(fleet.folder.path("bin")).unwrap();
    let program = fleet.folder.write("bin/carat", &program);
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();

    let artifacts = fleet.folder.path("artifacts");
    let numbers = block["strategy"]["matrix"]["block"].as_array().unwrap();
    assert_eq!(numbers.len() as u64, fleet.status()["types"][0]["planned"], "the matrix");
    for number in numbers {
        let runner = TestRunner::new(&fleet, &format!("runner-{number}"));
        for line in commands(block) {
            let line = line.replace("${{ matrix.block }}", &number.to_string());
            runner.run(&line).assert_code(0).assert_says("part  ");
        }
        copy_files(&runner.checkout.join(folder_of(block, "actions/upload-artifact")), &artifacts);
    }
    let runner = TestRunner::new(&fleet, "verdict");
    copy_files(&artifacts, &runner.checkout.join(folder_of(verdict, "actions/download-artifact")));
    let options = ["--fake", FAKE, "--blocks", "10", "--seed", "5", "-o", "one.carat"];
    let compared = fleet.folder.run(&[&["compare", "fake.toml"], &options[..]].concat());
    for line in commands(verdict) {
        assert_eq!(runner.run(line).code, compared.code, "{line}");
    }
    assert_eq!(fleet.conclusions("verdict/fleet/fake.carat"), fleet.conclusions("one.carat"));
    assert!(runner.checkout.join("fleet/fake.html").is_file(), "no page");
}
