//! `kill -9` of carat at random moments, then `--resume`.

use crate::faults::fake::{FIGURES, experiment};
use crate::faults::score::{Score, ensure, tries};
use crate::real_run::text;
use crate::support::{Folder, wait_until};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The trials of a file by identity, each with everything that carat says about it.
type Trials = BTreeMap<String, serde_json::Value>;

/// An experiment that is killed and resumed again and again until it is through.
struct Victim {
    folder: Folder,
    arguments: Vec<String>,
    /// Files that may stand beside the experiment when all is over.
    expected: Vec<String>,
}

impl Victim {
    fn new(name: &str, text: &str, options: &[&str]) -> Self {
        let folder = Folder::new(&format!("killed-{name}"));
        let file = format!("{name}.toml");
        folder.write(&file, text);
        let arguments = ["compare", &file, "--resume"].into_iter().chain(options.iter().copied());
        let arguments = arguments.map(str::to_owned).collect();
        let made = ["toml", "carat", "html"].map(|ending| format!("{name}.{ending}"));
        let expected = made.into_iter().chain(["tmp".to_owned()]).collect();
        Self { folder, arguments, expected }
    }

    /// Runs it, and kills it after `delay`; whether it had ended by itself.
    fn run(&self, delay: Duration) -> bool {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let mut command = self.folder.carat(&arguments);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let deadline = Instant::now() + delay;
        while Instant::now() < deadline {
            if child.try_wait().unwrap().is_some() {
                return true;
            }
            sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap().code().is_some()
    }

    /// The finished trials, read from a copy, so that the file itself stays as the kill left it.
    fn trials(&self) -> Result<Trials, String> {
        let copy = tempfile::tempdir().unwrap();
        let name = self.expected[1].as_str();
        for file in [name.to_owned(), format!("{name}-journal")] {
            let _ = fs::copy(self.folder.path(&file), copy.path().join(file));
        }
        let Ok(file) = rusqlite::Connection::open(copy.path().join(name)) else {
            return Ok(Trials::new());
        };
        let whole: String =
            file.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(said)?;
        ensure(whole == "ok", || format!("the file is broken: {whole}"))?;
        // Before the first transaction there is no table yet, and nothing to lose.
        let Ok(mut rows) = file.prepare("SELECT id, block, variant, outcome, detail FROM trial")
        else {
            return Ok(Trials::new());
        };
        let mut figures = file
            .prepare("SELECT group_concat(name || '=' || value) FROM metric WHERE trial = ?1")
            .map_err(said)?;
        let mut trials = Trials::new();
        let mut rows = rows.query([]).map_err(said)?;
        while let Some(row) = rows.next().map_err(said)? {
            let id: String = row.get(0).map_err(said)?;
            let figures: Option<String> =
                figures.query_row([&id], |row| row.get(0)).map_err(said)?;
            let place: (u32, String, String) =
                (row.get(1).unwrap(), row.get(2).unwrap(), row.get(3).unwrap());
            trials.insert(id, serde_json::json!([place, figures]));
        }
        Ok(trials)
    }

    /// What lies beside the experiment and should not.
    fn litter(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path("")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| !self.expected.contains(name)).collect()
    }

    /// What must hold at the end: nothing is left, and nothing is mounted.
    fn is_clean(&self) -> Result<(), String> {
        wait_until("no process is left", || self.folder.processes().is_empty());
        let left = self.folder.private_directories();
        ensure(left.is_empty(), || format!("left: {left:?}"))?;
        ensure(self.litter().is_empty(), || format!("left beside it: {:?}", self.litter()))?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let place = self.folder.path("").display().to_string();
        ensure(!mounts.contains(&place), || "a mount is left".to_owned())
    }
}

fn said(error: rusqlite::Error) -> String {
    error.to_string()
}

/// What kills have cost so far.
#[derive(Default)]
struct Toll {
    score: Score,
    /// Kills so far; every end that is looked at is one more try.
    kills: u32,
    finished: usize,
}

impl Toll {
    /// Kills `victim` after random times until it is through or `left` kills are done.
    fn take(&mut self, victim: &Victim, random: &mut ChaCha12Rng, longest: Duration, left: u32) {
        let mut before = Trials::new();
        let mut kills = 0;
        while kills < left {
            let delay = longest.mul_f64(random.random());
            if victim.run(delay) {
                break;
            }
            kills += 1;
            let after = victim.trials();
            let held = after.as_ref().map_err(Clone::clone).and_then(|after| {
                let kept = before.iter().all(|(id, trial)| after.get(id) == Some(trial));
                ensure(kept, || format!("after {delay:?} finished trials are missing or changed"))
            });
            self.score.count(held);
            before = after.unwrap_or(before);
            self.finished += before.len();
            self.kills += 1;
        }
    }

    fn finish(mut self) {
        let Self { finished, kills, .. } = self;
        let ends = self.score.tries - kills;
        self.score.lost = format!(
            "after {kills} kills and {ends} ends none of {finished} finished trials that were looked at; the trial under way"
        );
        self.score.finish();
    }
}

#[test]
fn kill_9_at_random_points_loses_no_finished_trial_and_leaves_nothing() {
    let fake = ["--fake", FIGURES, "--fake-pace", "3"];
    let mut whole = Victim::new("fake", &experiment("fake"), &fake);
    let began = Instant::now();
    assert!(whole.run(Duration::from_secs(100)), "an undisturbed run takes too long");
    let longest = began.elapsed();
    whole.is_clean().unwrap();
    let expected = whole.trials().unwrap();
    assert!(expected.len() > 20, "{} trials are too few to be killed among", expected.len());
    let (mut toll, mut random) = (Toll::default(), ChaCha12Rng::seed_from_u64(11));
    let wanted = tries(40);
    while toll.kills < wanted {
        whole = Victim::new("fake", &experiment("fake"), &fake);
        let left = wanted - toll.kills;
        toll.take(&whole, &mut random, longest, left);
        assert!(whole.run(Duration::from_secs(100)), "it never came to its end");
        let end = whole.trials().and_then(|trials| {
            ensure(trials == expected, || "another result than without a kill".to_owned())
        });
        toll.score.count(end.and_then(|()| whole.is_clean()));
    }
    toll.finish();
}

#[test]
fn kill_9_with_a_real_server_leaves_no_process_port_or_file() {
    require!(Ruby);
    let wanted = tries(40).div_ceil(10);
    let (mut toll, mut random) = (Toll::default(), ChaCha12Rng::seed_from_u64(12));
    while toll.kills < wanted {
        let mut victim = Victim::new("real", "", &[]);
        fs::create_dir(victim.folder.path("marks")).unwrap();
        victim.expected.push("marks".into());
        let behaving = text(&victim.folder, "60s", "DAEMON = '1'", "");
        victim.folder.write("real.toml", &behaving);
        let left = wanted - toll.kills;
        toll.take(&victim, &mut random, Duration::from_secs(4), left);
        // Whoever cleans up after the last kill does it without another run.
        let port = fs::read_to_string(victim.folder.path("marks/boot")).unwrap_or_default();
        if let Ok(port) = port.parse::<u16>() {
            wait_until("the port is free", || TcpListener::bind(("127.0.0.1", port)).is_ok());
        }
        assert!(victim.run(Duration::from_secs(100)), "it never came to its end");
        let end = victim.trials().and_then(|trials| {
            ensure(trials.len() == 4, || format!("{} trials instead of 4", trials.len()))
        });
        toll.score.count(end.and_then(|()| victim.is_clean()));
    }
    toll.finish();
}
