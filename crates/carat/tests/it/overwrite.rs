//! No command overwrites or moves a file that is not its own earlier output.

use crate::support::{Folder, fake_experiment};
use std::fs;
use std::os::unix::fs::symlink;

const FAKE: [&str; 6] = ["compare", "fake.toml", "--blocks", "2", "--fake", "71e6:1e5,70e6:1e5"];

/// A folder with an experiment and its results, `fake.carat`.
fn compared() -> Folder {
    let folder = Folder::new("overwrite");
    folder.write("fake.toml", &fake_experiment("fake", ""));
    folder.run(&FAKE).assert_code(3);
    folder
}

fn read(folder: &Folder, name: &str) -> Vec<u8> {
    fs::read(folder.path(name)).unwrap()
}

#[test]
fn a_report_replaces_nothing_but_an_earlier_report_of_its_format() {
    let folder = compared();
    let report = |arguments: &[&str]| folder.run(&[&["report", "fake.carat"], arguments].concat());
    folder.write("config.ru", "run App\n");
    fs::copy(folder.path("fake.carat"), folder.path("other.carat")).unwrap();
    symlink("fake.carat", folder.path("link")).unwrap();
    fs::hard_link(folder.path("fake.carat"), folder.path("hard")).unwrap();
    for name in ["config.ru", "other.carat", "fake.carat", "link", "hard", "fake.toml"] {
        let before = read(&folder, name);
        for format in ["html", "md", "json", "csv", "figures", "openmetrics", "text"] {
            let refused = report(&["--format", format, "-o", name]);
            refused.assert_code(1).assert_says("name another file with -o");
            assert_eq!(read(&folder, name), before, "{name} {format}");
        }
    }
    for format in ["html", "md", "json", "csv", "figures", "openmetrics"] {
        let write = || report(&["--format", format, "-o", "report"]);
        write().assert_code(0);
        write().assert_code(0);
        let other = if format == "md" { "html" } else { "md" };
        report(&["--format", other, "-o", "report"]).assert_code(1).assert_says("remove it");
        fs::remove_file(folder.path("report")).unwrap();
    }
    // An empty file, such as one of mktemp(1), has nothing to lose.
    folder.write("empty", "");
    report(&["--format", "text", "-o", "empty"]).assert_code(0);
    report(&["-o", "/dev/stdout"]).assert_code(0).assert_says("<!DOCTYPE html>");
}

#[test]
fn a_report_never_replaces_what_it_is_made_of() {
    let folder = compared();
    folder.run(&["report", "fake.carat", "--json", "-o", "fake.json"]).assert_code(0);
    symlink("fake.json", folder.path("link.json")).unwrap();
    let before = read(&folder, "fake.json");
    for name in ["fake.json", "link.json"] {
        let refused = folder.run(&["report", "fake.json", "--share", "--json", "-o", name]);
        refused.assert_code(1).assert_says("is read by this command");
        assert_eq!(read(&folder, "fake.json"), before, "{name}");
    }
}

#[test]
fn a_page_beside_results_replaces_nothing_of_the_user() {
    let folder = compared();
    folder.write("fake.html", "<h1>Mine</h1>\n");
    folder.run(&["report", "fake.carat"]).assert_code(1).assert_says("name another file with -o");
    let compared = folder.run(&[&FAKE[..], &["--resume"]].concat());
    compared.assert_code(3).assert_says("fake.html is left as it is");
    folder.run(&[&FAKE[..], &["--fresh"]].concat()).assert_code(3);
    assert_eq!(read(&folder, "fake.html"), b"<h1>Mine</h1>\n");
}

#[test]
fn fresh_moves_only_results_files() {
    let folder = compared();
    folder.write("config.ru", "run App\n");
    folder.write("lines.jsonl", "{\"schema\": \"carat.recording/1\"}\n");
    // The header of a database of another program.
    let mut database = b"SQLite format 3\0".to_vec();
    database.resize(4096, 0);
    fs::write(folder.path("development.sqlite3"), database).unwrap();
    let names = || {
        let mut names: Vec<_> =
            fs::read_dir(folder.path(".")).unwrap().map(|one| one.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    for name in ["fake.toml", "config.ru", "lines.jsonl", "development.sqlite3"] {
        let content = read(&folder, name);
        for options in [&["--fresh"][..], &[]] {
            let refused = folder.run(&[&FAKE[..], &["-o", name], options].concat());
            refused.assert_code(2).assert_says("is not a results file of carat");
            assert!(!refused.talk.contains("--resume"), "{}", refused.talk);
            assert_eq!(read(&folder, name), content, "{name} {options:?}");
            assert_eq!(names(), before, "{name} {options:?}");
        }
    }
    // What is damaged or empty may be the rest of a results file.
    let mut damaged = read(&folder, "fake.carat");
    damaged[5000..].fill(0xa5);
    for content in [damaged, Vec::new()] {
        fs::write(folder.path("fake.carat"), content).unwrap();
        folder.run(&[&FAKE[..], &["--fresh"]].concat()).assert_code(3).assert_says("fake.old-");
    }
}

#[test]
fn salvage_names_no_option_that_it_does_not_have() {
    let folder = compared();
    let refused = folder.run(&["salvage", "fake.carat", "-o", "fake.toml"]);
    refused.assert_code(1).assert_says("fake.toml exists already; name a new file with -o");
    assert!(!refused.talk.contains("--"), "{}", refused.talk);
}

#[test]
fn a_heap_dump_replaces_only_an_earlier_dump() {
    let folder = Folder::new("overwrite");
    let own = std::process::id().to_string();
    folder.write("config.ru", "run App\n");
    folder.write("kept.pb.gz", "profile");
    for name in ["config.ru", "kept.pb.gz"] {
        let before = read(&folder, name);
        let refused = folder.run(&["heap-dump", &own, "-o", name]);
        refused.assert_code(1).assert_says("name another file with -o");
        assert_eq!(read(&folder, name), before, "{name}");
    }
    folder
        .write("old.jsonl", "{\"type\":\"ROOT\", \"root\":\"vm\", \"references\":[\"0x7f00\"]}\n");
    // This process is no Ruby, which is said only where the file may be written.
    let refused = folder.run(&["heap-dump", &own, "-o", "old.jsonl"]);
    assert!(!refused.talk.contains("-o"), "{}", refused.talk);
}
