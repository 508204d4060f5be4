//! Damaged and hostile results files, and symbolic links where Carat writes.

use crate::faults::fake::{FIGURES, experiment, trials};
use crate::faults::score::{Score, ensure, tries};
use crate::support::Folder;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

const COMPARE: [&str; 4] = ["compare", "file.toml", "--fake", FIGURES];

fn compared(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write("file.toml", &experiment("file"));
    folder.run(&COMPARE).assert_code(3);
    folder
}

#[test]
fn a_damaged_file_is_refused_or_read_and_never_written_to() {
    let folder = compared("damaged");
    let whole = fs::read(folder.path("file.carat")).unwrap();
    let mut random = ChaCha12Rng::seed_from_u64(3);
    let mut score = Score::default();
    for _ in 0..tries(40) {
        let mut bytes = whole.clone();
        match random.random_range(0..3) {
            0 => bytes.truncate(random.random_range(0..whole.len())),
            1 => {
                let place = random.random_range(0..whole.len());
                bytes[place] ^= 1 << random.random_range(0..8);
            }
            _ => {
                let begin = random.random_range(0..whole.len() - 600);
                let length = random.random_range(1..600);
                random.fill(&mut bytes[begin..begin + length]);
            }
        }
        fs::write(folder.path("d.carat"), &bytes).unwrap();
        let ran = folder.run(&["report", "d.carat", "--json"]);
        let is_answered =
            ran.code == Some(0) || (ran.code == Some(1) && ran.talk.contains("d.carat"));
        let same = fs::read(folder.path("d.carat")).unwrap() == bytes;
        score.count(ensure(is_answered && same, || format!("unchanged {same}: {ran:?}")));
    }
    score.lost = "nothing: a refused file is unchanged".into();
    score.finish();
}

#[test]
fn a_number_that_no_trial_can_have_is_refused_and_named() {
    let folder = compared("impossible");
    let json = folder.run(&["report", "file.carat", "--json"]).out;
    let name = "memory.pss.final";
    for (value, said) in [("-5.0", "is -5, below zero"), ("9e999", "is no finite number")] {
        fs::copy(folder.path("file.carat"), folder.path("f.carat")).unwrap();
        let file = rusqlite::Connection::open(folder.path("f.carat")).unwrap();
        let change = format!("UPDATE metric SET value = {value} WHERE name = '{name}'");
        assert!(file.execute(&change, []).unwrap() > 0);
        drop(file);
        for command in [&["report", "f.carat", "--json"][..], &["stats", "f.carat"]] {
            let ran = folder.run(command);
            ran.assert_code(1).assert_says(said).assert_says(name);
            assert!(ran.out.is_empty(), "{ran:?}");
        }
    }
    for (change, of) in [("margin = -1.0", "experiment"), ("seconds = 9e999", "trial")] {
        fs::copy(folder.path("file.carat"), folder.path("f.carat")).unwrap();
        let file = rusqlite::Connection::open(folder.path("f.carat")).unwrap();
        file.execute(&format!("UPDATE {of} SET {change}"), []).unwrap();
        drop(file);
        folder.run(&["report", "f.carat", "--json"]).assert_code(1).assert_says("is no amount");
    }
    let mut exported: serde_json::Value = serde_json::from_str(&json).unwrap();
    exported["results"]["trials"][0]["metrics"][name] = (-5.0).into();
    folder.write("f.json", &exported.to_string());
    folder.run(&["report", "f.json"]).assert_code(1).assert_says("is -5, below zero");
}

#[test]
fn intact_trials_of_a_damaged_file_are_salvaged_and_the_rest_is_run_again() {
    let folder = compared("salvage");
    let whole = fs::read(folder.path("file.carat")).unwrap();
    let expected = trials(&folder, "file.carat");
    let mut score = Score::default();
    for cut in [1, 2, 4, 8] {
        let damaged = &whole[..whole.len() - cut * 4096];
        fs::write(folder.path("d.carat"), damaged).unwrap();
        folder.run(&["report", "d.carat"]).assert_code(1).assert_says("carat salvage d.carat -o");
        let ran = folder.run(&["salvage", "d.carat", "-o", "new.carat"]);
        ran.assert_code(0).assert_says("were lost").assert_says("-o new.carat --resume\n");
        folder.run(&[&COMPARE[..], &["--resume", "-o", "new.carat"]].concat()).assert_code(3);
        let same = trials(&folder, "new.carat") == expected;
        let kept = fs::read(folder.path("d.carat")).unwrap() == damaged;
        score.count(ensure(same && kept, || format!("{cut} pages less: {same} {kept}")));
        fs::remove_file(folder.path("new.carat")).unwrap();
    }
    folder.run(&["salvage", "d.carat", "-o", "file.carat"]).assert_code(1).assert_says("exists");
    score.lost = "trials on lost pages; they are listed and run again".into();
    score.finish();
}

#[test]
fn a_results_file_that_names_another_folder_makes_carat_remove_nothing() {
    let folder = compared("hostile");
    let mine = folder.path("carat-mine");
    fs::create_dir(&mine).unwrap();
    fs::write(mine.join("processes"), format!("{} 0\n", std::process::id())).unwrap();
    fs::set_permissions(&mine, fs::Permissions::from_mode(0o755)).unwrap();
    symlink(&mine, folder.path("carat-link")).unwrap();
    let other = folder.path("photos");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("processes"), "").unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o700)).unwrap();
    for named in [&mine, &folder.path("carat-link"), &other, &folder.path("")] {
        let file = rusqlite::Connection::open(folder.path("file.carat")).unwrap();
        file.execute(
            "INSERT OR REPLACE INTO runner VALUES (1, 4194303, 1, '', ?1)",
            [named.display().to_string()],
        )
        .unwrap();
        drop(file);
        folder.run(&[&COMPARE[..], &["--resume"]].concat()).assert_code(3);
        assert!(mine.join("processes").is_file() && other.join("processes").is_file());
    }
}

#[test]
fn symbolic_links_where_carat_writes_are_not_followed() {
    let folder = Folder::new("links");
    folder.write("file.toml", &experiment("file"));
    let precious = folder.write("precious", "precious");
    let trap = folder.path("trap");
    fs::create_dir(&trap).unwrap();
    for cache in ["evil", "good"] {
        fs::create_dir(folder.path(cache)).unwrap();
    }
    symlink(&trap, folder.path("evil/carat")).unwrap();
    for name in ["file.html", "file.html.part", "named.html"] {
        symlink(&precious, folder.path(name)).unwrap();
    }
    let mut command = folder.carat(&COMPARE);
    command.env("XDG_CACHE_HOME", folder.path("evil")).env("HOME", folder.path("good"));
    let ran = command.output().unwrap();
    assert_eq!(ran.status.code(), Some(3), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(fs::read_dir(&trap).unwrap().count(), 0, "libraries were written through a link");
    // Root unpacks where every user can read, because a server may change its user.
    let is_root = rustix::process::geteuid().is_root();
    assert!(is_root || folder.path("good/.cache/carat").is_dir());
    symlink(&precious, folder.path("link.carat")).unwrap();
    folder
        .run(&[&COMPARE[..], &["-o", "link.carat"]].concat())
        .assert_code(2)
        .assert_says("exists");
    let refused = folder.run(&["report", "file.carat", "-o", "named.html"]);
    refused.assert_code(1).assert_says("name another file with -o");
    for page in ["file.html", "named.html"] {
        assert_eq!(fs::read_link(folder.path(page)).unwrap(), Path::new(&precious), "{page}");
    }
    // A link to earlier output is replaced, and what it leads to stays.
    folder.run(&["report", "file.carat", "-o", "real.html"]).assert_code(0);
    let page = fs::read_to_string(folder.path("real.html")).unwrap();
    fs::write(folder.path("kept.html"), format!("{page}<!-- kept -->")).unwrap();
    symlink(folder.path("kept.html"), folder.path("linked.html")).unwrap();
    folder.run(&["report", "file.carat", "-o", "linked.html"]).assert_code(0);
    assert!(fs::symlink_metadata(folder.path("linked.html")).unwrap().is_file());
    assert!(fs::read_to_string(folder.path("kept.html")).unwrap().ends_with("<!-- kept -->"));
    symlink(&precious, folder.path("true.recording.log")).unwrap();
    let ran = folder.run(&["record", "--", "true"]);
    assert_ne!(ran.code, Some(0), "{ran:?}");
    ran.assert_says("true.recording.log");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
}

/// Changes a copy of `file.carat` by SQL and asserts that a report and a salvage say `words`, and compute nothing.
fn assert_refused(folder: &Folder, sql: &str, words: &str) {
    fs::copy(folder.path("file.carat"), folder.path("evil.carat")).unwrap();
    let file = rusqlite::Connection::open(folder.path("evil.carat")).unwrap();
    file.execute_batch(&format!("PRAGMA foreign_keys = OFF; PRAGMA writable_schema = ON; {sql}"))
        .unwrap();
    drop(file);
    let before = fs::read(folder.path("evil.carat")).unwrap();
    folder.run(&["report", "evil.carat"]).assert_code(1).assert_says(words);
    assert!(fs::read(folder.path("evil.carat")).unwrap() == before, "{sql}");
}

#[test]
fn a_results_file_that_would_compute_or_is_larger_than_any_is_refused_with_words() {
    let folder = compared("evil");
    let table = "is not a table as carat makes them";
    let costly = "CHECK (length(hex(zeroblob(400000000))) > 0)";
    let checked = format!(
        "UPDATE sqlite_schema SET sql = replace(sql, 'log_tail   TEXT NOT NULL', 'log_tail   TEXT NOT NULL {costly}') \
         WHERE name = 'trial';"
    );
    for sql in [
        checked.as_str(),
        "CREATE VIEW v AS SELECT hex(zeroblob(900000000));",
        "CREATE TRIGGER t AFTER INSERT ON runner BEGIN DELETE FROM trial; END;",
        "CREATE INDEX i ON trial (abs(seconds));",
        "ALTER TABLE trial ADD COLUMN more TEXT AS (hex(zeroblob(100)));",
    ] {
        assert_refused(&folder, sql, table);
        folder.run(&["salvage", "evil.carat", "-o", "new.carat"]).assert_code(1).assert_says(table);
    }
    let many = "WITH RECURSIVE n(x) AS (SELECT 100 UNION ALL SELECT x + 1 FROM n WHERE x < 5099) \
                INSERT INTO variant SELECT x, 'v' || x, '{}' FROM n;";
    assert_refused(&folder, many, "at most 1000 are read");
    let long = "UPDATE trial SET log_tail = hex(zeroblob(75000000)) WHERE rowid = 1;";
    assert_refused(&folder, long, "longer than any that carat writes");
    assert_refused(&folder, "PRAGMA journal_mode = WAL;", "write-ahead log");
    let retyped = "UPDATE sqlite_schema SET sql = replace(sql, 'UNIQUE (block, variant)', 'UNIQUE (variant, block)') \
                   WHERE name = 'trial';";
    assert_refused(&folder, retyped, "defined in another way");
}
