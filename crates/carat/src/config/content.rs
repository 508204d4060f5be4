//! The content of a load's file as part of a plan: recorded requests, or the rows of values of users and jobs.
//!
//! A plan needs the file, and the file is not in the text of the plan. So the plan keeps the SHA-256 of the content in a
//! comment at the end of its text: results can be read without the file, and a changed file is a changed plan.

/// Begins the comment, before the key that names the file.
const COMMENT: &str = "# content of ";
/// Between the key and the digest.
const DIGEST: &str = ": SHA-256 ";

/// The content that the text of a plan names: the key of its file, such as `load.http.data`, and its SHA-256.
pub fn planned_content(plan: &str) -> Option<(&str, &str)> {
    // The last one, because it is appended at the end of the text.
    plan.lines().filter_map(comment).next_back()
}

/// The key of the file that `plan` names, if `other`, the text of another moment, does not name the same content of it.
pub fn changed_content<'a>(plan: &'a str, other: &str) -> Option<&'a str> {
    let planned = planned_content(plan)?;
    (planned_content(other) != Some(planned)).then_some(planned.0)
}

/// The text of a plan that names the content of the file of a key.
pub(super) fn with_content(plan: &str, key: &str, sha256: &str) -> String {
    // A comment must begin a line of its own.
    let end = if plan.is_empty() || plan.ends_with('\n') { "" } else { "\n" };
    format!("{plan}{end}{COMMENT}{key}{DIGEST}{sha256}\n")
}

/// The text as a user wrote it, also if the user copied it from a report.
pub(super) fn without_content(plan: &str) -> String {
    plan.split_inclusive('\n').filter(|line| comment(line.trim_end()).is_none()).collect()
}

/// Key and digest of a line that is such a comment.
fn comment(line: &str) -> Option<(&str, &str)> {
    let (key, sha256) = line.strip_prefix(COMMENT)?.split_once(DIGEST)?;
    // A user can write a comment that begins the same, so the digest is checked.
    let is_digest = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_digest.then_some((key, sha256))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Experiment;
    use std::fs;
    use std::path::Path;
    use tempfile::TempDir;

    const REPLAY: &str = "[load.http]\nreplay = 'a.log'\nrequests = 9";
    /// Every load with a file, with the key of that.
    const LOADS: [(&str, &str); 4] = [
        ("load.http.replay", REPLAY),
        (
            "load.http.data",
            "[load.http]\nrequests = 9\ndata = 'a.log'\n[[load.http.scenario]]\nname = 's'\nsteps = [{ get = '/' }]",
        ),
        (
            "load.sidekiq.data",
            "[load.sidekiq]\nredis = 'redis://h'\nclass = 'A'\njobs = 9\ndata = 'a.log'",
        ),
        (
            "load.sql_queue.data",
            "[load.sql_queue]\ndatabase = 'sqlite:q'\nclass = 'A'\njobs = 9\ndata = 'a.log'",
        ),
    ];

    fn plan(load: &str) -> String {
        let server = "name = 'r'\n[server]\ncommand = ['puma']\nready = { tcp = true }";
        format!("{server}\n{load}\n[[variant]]\nname = 'a'\n[[variant]]\nname = 'b'")
    }

    fn folder(load: &str) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x.toml"), plan(load)).unwrap();
        fs::write(folder.path().join("a.log"), "one").unwrap();
        folder
    }

    #[test]
    fn the_content_of_the_file_is_in_the_hash_of_the_plan() {
        for (key, load) in LOADS {
            let folder = folder(load);
            let read = || Experiment::read(&folder.path().join("x.toml")).unwrap();
            let first = read();
            assert_eq!(planned_content(&first.text).unwrap().0, key);
            fs::write(folder.path().join("a.log"), "two").unwrap();
            let second = read();
            assert_ne!(first.hash(), second.hash(), "{key}");
            assert_ne!(first.text, second.text, "{key}");
            assert!(!first.measures_like(&second), "{key}");
            fs::write(folder.path().join("a.log"), "one").unwrap();
            assert_eq!(read().hash(), first.hash(), "{key}");
        }
    }

    #[test]
    fn a_plan_without_the_digest_of_its_data_has_the_hash_that_it_had_before_that_counted() {
        let text = plan(LOADS[1].1);
        let old = Experiment::parse(&text, Path::new("x.toml"), Path::new("")).unwrap();
        let form = old.canonical();
        assert_eq!(form["load"]["measured"]["data"], "a.log", "{form:#}");
        // The content of another file than the load's is not that of its data.
        let other = with_content(&text, "load.http.replay", &"ab".repeat(32));
        let other = Experiment::parse(&other, Path::new("x.toml"), Path::new("")).unwrap();
        assert_eq!(other.hash(), old.hash());
    }

    #[test]
    fn a_plan_is_the_same_without_the_file_and_when_its_text_is_copied() {
        let folder = folder(REPLAY);
        let path = folder.path().join("x.toml");
        let first = Experiment::read(&path).unwrap();
        assert!(first.text.starts_with(&plan(REPLAY)), "{}", first.text);
        let alone = Experiment::parse(&first.text, &path, Path::new("/none")).unwrap();
        assert_eq!(alone.hash(), first.hash());
        fs::write(&path, &first.text).unwrap();
        assert_eq!(Experiment::read(&path).unwrap().hash(), first.hash());
        fs::remove_file(folder.path().join("a.log")).unwrap();
        let error = Experiment::read(&path).unwrap_err().to_string();
        assert!(error.contains("a.log") && error.contains("No such file"), "{error}");
    }

    #[test]
    fn a_comment_that_only_looks_like_one_of_carat_is_kept() {
        let text = format!("a\n{COMMENT}load.http.data{DIGEST}abc\n{COMMENT}b");
        assert_eq!(without_content(&text), text);
        assert_eq!(planned_content(&text), None);
    }
}
