//! The pages that a reader follows: their commands are run, their experiments are accepted, and what is not run says why.

use crate::support::{Folder, Group, Ran, finish_within, wait_until};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long one command may take on a loaded machine.
const LONG: Duration = Duration::from_secs(400);

/// Pages without a command of their own, and where their commands are run.
const RUN_ELSEWHERE: [(&str, &str); 1] =
    [("how-to/fleet.md", "fleet_slurm, fleet_kubernetes and fleet_engines read that page")];

/// A block between fences: the words after the fence, its lines, and where it begins.
struct Block {
    info: String,
    lines: Vec<String>,
    place: String,
}

impl Block {
    fn commands(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter_map(|line| line.strip_prefix("$ "))
    }

    /// Why it is not run, if it is not.
    fn not_run(&self) -> Option<&str> {
        self.info.strip_prefix("console not run:").map(str::trim)
    }

    fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn blocks_of(page: &str, text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open = false;
    for (line, number) in text.lines().zip(1..) {
        match line.strip_prefix("```") {
            Some(_) if open => open = false,
            Some(info) => {
                let place = format!("{page}:{number}");
                blocks.push(Block { info: info.trim().into(), lines: Vec::new(), place });
                open = true;
            }
            None if open => blocks.last_mut().unwrap().lines.push(line.into()),
            None => {}
        }
    }
    blocks
}

fn blocks(page: &str) -> Vec<Block> {
    blocks_of(page, &fs::read_to_string(docs().join(page)).unwrap())
}

/// The how-to pages, and the tutorials whose commands are short.
fn pages() -> Vec<String> {
    let how_to = fs::read_dir(docs().join("how-to")).unwrap().map(|entry| entry.unwrap().path());
    let names = how_to.filter(|path| path.extension().is_some_and(|one| one == "md"));
    let names = names.map(|path| format!("how-to/{}", path.file_name().unwrap().to_str().unwrap()));
    let tutorials = ["tutorial/your-app.md", "tutorial/container.md"].map(String::from);
    let mut pages: Vec<String> = names.chain(tutorials).collect();
    pages.sort();
    pages
}

/// Carat as a reader runs it, but with one block of few requests and one jump to the end.
const SHORT: &str = r#"#!/bin/sh
case "$1 $*" in
*--dry-run*) ;;
compare*) set -- "$@" --blocks 1 ;;
esac
"$PROGRAM_UNDER_TEST" "$@"
code=$?
[ "$1" != init ] || sed -i 's/^requests = .*/requests = 60/' carat.toml
exit $code
"#;

const APP: &str = "run ->(env) { [200, {'content-type' => 'text/plain'}, ['hello']] }\n";

/// A folder with an app as a reader has it, and its server.
struct Reader {
    folder: Folder,
    server: Group,
}

impl Reader {
    fn new() -> Self {
        let folder = Folder::new("howto");
        for name in ["bin", "base", "head"] {
            fs::create_dir_all(folder.path(name)).unwrap();
        }
        ["config.ru", "base/config.ru", "head/config.ru"]
            .iter()
            .for_each(|name| drop(folder.write(name, APP)));
        let short = folder.write("bin/carat", SHORT);
        fs::set_permissions(short, fs::Permissions::from_mode(0o755)).unwrap();
        let log = fs::File::create(folder.path("puma.log")).unwrap();
        let mut puma = Command::new("puma");
        let socket = format!("unix://{}", folder.path("puma.sock").display());
        puma.args(["-w", "1", "--preload", "-b", &socket, "config.ru"])
            .current_dir(folder.path("."))
            .env_remove("RUBYOPT")
            .stdout(log);
        let server = Group::start(puma);
        wait_until("Puma's worker has booted", || {
            fs::read_to_string(folder.path("puma.log")).unwrap().contains("booted")
        });
        Self { folder, server }
    }

    /// The command with the process number of the reader's own server.
    fn run(&self, command: &str) -> Ran {
        let command = command.replace("PID", &self.server.0.id().to_string());
        let path = std::env::var("PATH").unwrap();
        let mut shell = Command::new("bash");
        shell
            .args(["-c", &command])
            .current_dir(self.folder.path("."))
            .env("PATH", format!("{}:{path}", self.folder.path("bin").display()))
            .env("PROGRAM_UNDER_TEST", env!("CARGO_BIN_EXE_carat"))
            .env("TMPDIR", self.folder.path("tmp"))
            .env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"))
            .env_remove("RUBYOPT")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        finish_within(LONG, shell.spawn().unwrap())
    }

    /// Writes the files of a page and runs its commands in order.
    fn follow(&self, page: &str) {
        for block in blocks(page) {
            if let Some((_, name)) = block.info.split_once(" file=") {
                self.folder.write(name, &block.text());
            }
            if block.info != "console" {
                continue;
            }
            for command in block.commands() {
                let ran = self.run(command);
                // One block decides nothing, and a budget is not proven by it.
                assert!(
                    matches!(ran.code, Some(0 | 3)),
                    "{}: `{command}` ended with {:?}\n{}{}",
                    block.place,
                    ran.code,
                    ran.out,
                    ran.talk
                );
            }
        }
    }
}

#[test]
fn a_reader_of_the_first_tutorial_gets_a_result() {
    require!(Puma, Jemalloc);
    let reader = Reader::new();
    reader.follow("tutorial/your-app.md");
    let made = fs::read_dir(reader.folder.path(".")).unwrap().map(|entry| entry.unwrap().path());
    assert!(made.filter(|path| path.extension().is_some_and(|one| one == "html")).count() == 1);
}

#[test]
fn the_commands_of_the_page_on_budgets_run() {
    require!(Puma);
    let reader = Reader::new();
    reader.follow("how-to/ci.md");
    let comment = fs::read_to_string(reader.folder.path("comment.md")).unwrap();
    assert!(comment.contains("head"), "{comment}");
}

#[test]
fn the_commands_of_every_other_how_to_page_run() {
    require!(Puma, Jemalloc);
    let reader = Reader::new();
    let done = ["tutorial/your-app.md", "how-to/ci.md"];
    for page in pages().iter().filter(|page| !done.contains(&page.as_str())) {
        reader.follow(page);
        // Its settings would hold for the next page too.
        let _ = fs::remove_file(reader.folder.path("carat.toml"));
    }
}

#[test]
fn a_how_to_page_has_a_command_that_is_run_and_says_of_any_other_why_it_is_not() {
    for page in pages() {
        let blocks = blocks(&page);
        let consoles: Vec<&Block> =
            blocks.iter().filter(|block| block.info.starts_with("console")).collect();
        for block in &consoles {
            assert!(block.info == "console" || block.not_run().is_some_and(|why| why.len() > 10));
            assert!(block.commands().count() > 0, "{}: no line begins with `$ `", block.place);
        }
        let elsewhere = RUN_ELSEWHERE.iter().any(|(name, _)| *name == page);
        let runs = consoles.iter().any(|block| block.not_run().is_none());
        // Nobody has a Mac here.
        assert!(
            runs || elsewhere || page == "how-to/mac.md",
            "{page}: none of its commands is run"
        );
    }
}

#[test]
fn every_experiment_on_these_pages_is_accepted() {
    let folder = Folder::new("experiments");
    for name in ["base", "head"] {
        fs::create_dir(folder.path(name)).unwrap();
    }
    let mut accepted = 0;
    for page in pages() {
        for block in blocks(&page) {
            let text = block.text();
            if !block.info.starts_with("toml") || !text.contains("[server]") {
                continue;
            }
            folder.write("page.toml", &text);
            let command = if text.contains("[goal]") { "tune" } else { "compare" };
            let ran = folder.run(&[command, "page.toml", "--dry-run"]);
            assert_eq!(ran.code, Some(0), "{}:\n{}{}", block.place, ran.out, ran.talk);
            accepted += 1;
        }
    }
    assert!(accepted >= 3, "{accepted}");
}

#[test]
fn the_blocks_of_a_page_are_read_with_their_words_and_lines() {
    let text = "text\n```toml file=a.toml\na = 1\n```\n```console not run: needs a Mac\n$ ls\n```\n```console\n$ pwd\n/\n```\n";
    let blocks = blocks_of("x.md", text);
    assert_eq!(blocks.len(), 3);
    assert_eq!(
        (blocks[0].info.as_str(), blocks[0].text().as_str()),
        ("toml file=a.toml", "a = 1\n")
    );
    assert_eq!(blocks[1].not_run(), Some("needs a Mac"));
    assert_eq!(
        (blocks[2].not_run(), blocks[2].commands().collect::<Vec<_>>()),
        (None, vec!["pwd"])
    );
    assert_eq!(blocks[2].place, "x.md:8");
}
