//! `carat explain` inside the memory limit of the server that it reads: the server always survives.

use crate::memory_group::MemoryGroup;
use crate::outside_ruby::OutsideRuby;
use crate::support::{Folder, Group, Ran, finish, wait_until};
use rustix::fs::{CWD, Mode, mkfifoat};
use std::fs;
use std::process::{Command, Stdio};

/// The limit of the group, in bytes.
const LIMIT: u64 = 200_000_000;
/// Every option that reads more than the counts.
const OPTIONS: [&str; 3] = ["--owners", "--reach", "--unshared"];

/// A server that was forked from another one, in a group with a limit, in which carat runs too.
struct Limited {
    folder: Folder,
    ruby: OutsideRuby,
    // Removed after its processes have ended.
    group: MemoryGroup,
}

/// A command that runs another one, which is to be appended, in a group.
fn in_group(group: &MemoryGroup) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", r#"echo $$ > "$0/cgroup.procs" && exec "$@""#]).arg(&group.path);
    command
}

impl Limited {
    /// Server and child take so many bytes together.
    fn start(name: &str, bytes: u64) -> Self {
        let group = MemoryGroup::new(name, LIMIT);
        let mut command = in_group(&group);
        command.arg("ruby");
        let mut ruby = OutsideRuby::start_command(command);
        ruby.eval(&format!(
            "$fill = []; used = -> {{ File.read('/proc/self/statm').split[1].to_i * 4096 }}; \
             1000.times {{ |n| $fill << \"x#{{n}}\" * 12 }} while used.() < {bytes}; $fill.size"
        ));
        ruby.eval(
            "parent = Process.pid; $child = fork { sleep 0.05 while Process.ppid == parent }; 1",
        );
        Self { folder: Folder::new(name), ruby, group }
    }

    fn explain(&self, option: &str) -> Ran {
        self.run(&["explain", &self.ruby.pid.to_string(), option])
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let carat = self.folder.carat(arguments);
        let mut command = in_group(&self.group);
        command.arg(carat.get_program()).args(carat.get_args());
        let variables = carat.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.envs(variables).env_remove("RUBYOPT").stdin(Stdio::null());
        finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn assert_nobody_was_killed(&mut self, what: &str) {
        assert_eq!(self.group.oom_kills(), 0, "{what}");
        assert_eq!(
            self.ruby.eval("Process.wait($child, Process::WNOHANG).inspect"),
            "nil",
            "{what}"
        );
    }
}

/// Whether an answer to an option is in the text.
fn answers(ran: &Ran, option: &str) -> bool {
    let words = match option {
        "--owners" => "in malloc have a known holder",
        "--reach" => "reached",
        _ => "has private memory, compared with its parent",
    };
    ran.out.contains(words)
}

#[test]
fn in_the_group_of_a_server_at_three_quarters_of_its_limit_carat_answers_and_the_server_survives() {
    require!(Ruby);
    let mut limited = Limited::start("three-quarters", LIMIT / 4 * 3 - 20_000_000);
    for option in OPTIONS {
        let ran = limited.explain(option);
        limited.assert_nobody_was_killed(option);
        ran.assert_code(0);
        assert!(answers(&ran, option), "{option}: {}{}", ran.out, ran.talk);
    }
}

#[test]
fn without_room_in_its_group_carat_refuses_with_the_figures_and_the_server_survives() {
    require!(Ruby);
    let mut limited = Limited::start("no-room", LIMIT / 100 * 88);
    for option in OPTIONS {
        let ran = limited.explain(option);
        limited.assert_nobody_was_killed(option);
        let name = limited.group.path.file_name().unwrap().display().to_string();
        ran.assert_code(1).assert_says("of carat's own memory, and control group ");
        ran.assert_says(&format!("{name} has ")).assert_says(" left of its limit of 200.0 MB");
        // What the kernel counts is told all the same.
        ran.assert_says("code and files");
        assert!(!answers(&ran, option), "{option}: {}", ran.out);
    }
}

#[test]
fn with_twenty_megabytes_left_the_trees_and_the_nearness_of_the_limit_are_told_and_the_server_survives()
 {
    require!(Ruby);
    let mut limited = Limited::start("twenty", LIMIT - 20_000_000);
    let pid = limited.ruby.pid.to_string();
    let ran = limited.run(&["ps", &pid, "--json"]);
    limited.assert_nobody_was_killed("ps");
    let found: serde_json::Value = serde_json::from_str(&ran.assert_code(0).out).unwrap();
    // The kernel counts whole pages.
    let limit = &found["trees"][0]["group"]["limits"][0]["limit"];
    assert_eq!(limit.as_u64().unwrap(), LIMIT / 4096 * 4096, "{found}");
    assert!(
        found["trees"][0]["why"].as_str().unwrap().contains("of its limit of 200.0 MB"),
        "{found}"
    );
    let ran = limited.run(&["explain", &pid]);
    limited.assert_nobody_was_killed("explain");
    ran.assert_code(0).assert_says("of 200.0 MB used (").assert_says("; unexplained ");
}

#[test]
fn carat_offers_itself_to_the_kernel_if_memory_runs_out() {
    let folder = Folder::new("first-to-go");
    let page = folder.path("page");
    mkfifoat(CWD, &page, Mode::RUSR | Mode::WUSR).unwrap();
    let own = std::process::id().to_string();
    let mut carat = folder.carat(&["explain", &own, "--alone", "--no-look", "-o", "page"]);
    carat.stdout(Stdio::null());
    let mut carat = Group::start(carat);
    // It waits for a reader of the page.
    let score = format!("/proc/{}/oom_score_adj", carat.0.id());
    wait_until("carat is the first to go", || {
        fs::read_to_string(&score).is_ok_and(|score| score.trim() == "1000")
    });
    assert!(fs::read_to_string(&page).unwrap().contains("<html"));
    assert!(carat.0.wait().unwrap().success());
}
