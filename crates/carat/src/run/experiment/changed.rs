//! Results of an experiment file that was changed since: what changed, and which trials still count.

use crate::config::{Experiment, planned_content, trial_id};
use crate::store::{FreshFile, Store, StoreError, rename_new};
use carat_model::{
    ExperimentInfo, HIDDEN, LoadReport, LoadTemplate, Outcome, Trial, is_secret_name, one_line,
    shorten,
};
use carat_report::OutputForm;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// Findings whose severity follows from the load's limit of errors.
const LIMITED: [&str; 6] =
    ["errors", "missing", "duplicate", "disconnects", "late-deliveries", "missing-results"];
/// Characters shown of a value.
const VALUE: usize = 60;
/// Changes shown at most.
const CHANGES: usize = 20;

/// Why the trials in a results file do not count for the changed experiment file.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The results file.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The changes make other trials.
    #[error(
        "{path} has the results of `{name}` as it was before these changes:\n{changes}\n{why}: undo the changes, or use `carat compare --fresh`, which begins anew and moves the old results aside"
    )]
    Changed {
        path: PathBuf,
        name: String,
        /// A line per changed key.
        changes: String,
        /// Why the trials do not count.
        why: &'static str,
    },
}

fn is_free(file: &Path) -> bool {
    file.symlink_metadata().is_err()
}

/// Moves a results file and its page aside, under the first free name like `NAME.old-1.carat`, and returns that.
pub(super) fn move_aside(path: &Path) -> Result<PathBuf, StoreError> {
    let mut names = (1..).map(|number| numbered(path, number));
    // Both names must be free, because a page has the name of its results.
    let free = names.find(|aside| is_free(aside) && is_free(&aside.with_extension("html")));
    let aside = free.unwrap_or_else(|| path.to_owned());
    rename_new(path, &aside).map_err(|error| StoreError::io(&aside, error))?;
    let page = path.with_extension("html");
    // There need not be a page, and a file of the user can have its name.
    if !std::fs::read(&page).is_ok_and(|content| OutputForm::Page.wrote(&content)) {
        return Ok(aside);
    }
    match rename_new(&page, &aside.with_extension("html")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io(&page, error)),
        _ => Ok(aside),
    }
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.file_stem().map(OsString::from).unwrap_or_default();
    name.push(format!(".old-{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// Replaces a results file by one of the changed plan with the trials that still count, and keeps the old file beside it.
/// The second value says what changed and what was kept.
///
/// # Errors
/// If the trials do not count for the new plan. Nothing is changed then.
pub(super) fn adopt(
    store: Store,
    experiment: &Experiment,
    fresh: &ExperimentInfo,
) -> Result<(Store, String), ChangeError> {
    let (path, begun, trials) = (store.path().to_owned(), store.info()?, store.trials()?);
    // SQLite must not have the file open when it is renamed.
    drop(store);
    let change = PlanChange::new(&path, &begun, experiment, fresh)?;
    if let Some(why) = change.refusal(&trials) {
        let (name, changes) = (begun.name.clone(), change.lines());
        return Err(ChangeError::Changed { path, name, changes, why });
    }
    let info = change.info();
    let kept: Vec<Trial> = trials
        .iter()
        .filter(|trial| change.still_counts(trial))
        .map(|t| renamed(t, &info))
        .collect();
    // Complete before the old file is moved, so that the name is missing for a moment only.
    let fresh = FreshFile::beside(&path).map_err(|error| StoreError::io(&path, error))?;
    Store::create(fresh.path(), &info)?.add(&kept)?;
    let aside = move_aside(&path)?;
    fresh.publish_new().map_err(|error| StoreError::io(&path, error))?;
    let text = format!(
        "the experiment file has changed since:\n{}\n{} of {} finished trials still count; {} keeps all of them",
        change.lines(),
        kept.len(),
        trials.len(),
        aside.display()
    );
    Ok((Store::resume(&path, &info)?, text))
}

fn renamed(trial: &Trial, info: &ExperimentInfo) -> Trial {
    let id = trial_id(&info.plan_hash, info.seed, trial.block, &trial.variant);
    Trial { id, ..trial.clone() }
}

/// A plan as it was when the experiment began, and as it is now.
struct PlanChange<'a> {
    begun: &'a ExperimentInfo,
    fresh: &'a ExperimentInfo,
    old: Experiment,
    new: &'a Experiment,
}

impl<'a> PlanChange<'a> {
    fn new(
        path: &Path,
        begun: &'a ExperimentInfo,
        new: &'a Experiment,
        fresh: &'a ExperimentInfo,
    ) -> Result<Self, StoreError> {
        if begun.plan_text == fresh.plan_text {
            // The same text has another hash only in another canonical form.
            return Err(StoreError::OlderPlan { path: path.to_owned() });
        }
        let old = Experiment::parse(&begun.plan_text, path, &new.folder).ok();
        // Another name is another experiment, however similar.
        let Some(old) = old.filter(|_| begun.name == fresh.name) else {
            return Err(StoreError::OtherPlan { path: path.to_owned(), found: begun.name.clone() });
        };
        Ok(Self { begun, fresh, old, new })
    }

    /// Why none of the trials counts; `None` if some may.
    fn refusal(&self, trials: &[Trial]) -> Option<&'static str> {
        let (old, new) = (&self.old.trials, &self.new.trials);
        let other_seed =
            new.seed != old.seed && new.seed.is_some_and(|seed| seed != self.begun.seed);
        // Block 0 is the warm-up, whose figures are never compared.
        let compared = trials.iter().any(|trial| trial.block > 0 && trial.outcome == Outcome::Ok);
        if !self.old.measures_like(self.new) {
            Some("trials before and after them cannot be compared")
        } else if other_seed && !trials.is_empty() {
            Some("the order of the finished trials was drawn from the old seed")
        } else if compared
            && (new.max, new.margin, new.attempts) != (old.max, old.margin, old.attempts)
        {
            Some(
                "another `max`, `margin` or `attempts` after looking at results would not be evidence",
            )
        } else {
            None
        }
    }

    /// Whether a trial ends in the same way under the new limit of errors.
    fn still_counts(&self, trial: &Trial) -> bool {
        let loads = [&self.old, self.new].map(|one| one.task.generated_load());
        // Without a load of the generator there is no limit, so it cannot have changed.
        let [old, new] = loads.map(|load| load.map_or(0.0, LoadTemplate::errors));
        let limited = |report: &LoadReport| {
            report.flags.iter().any(|flag| LIMITED.contains(&flag.code.as_str()))
        };
        let has_errors = trial.load.as_ref().is_some_and(limited);
        match trial.outcome {
            // What one limit refused need not be refused by another.
            Outcome::LoadInvalid => old == new,
            Outcome::Ok => new >= old || !has_errors,
            _ => true,
        }
    }

    /// What the new results file fixes: the new plan with the seed, and a number of blocks that the file does not change.
    fn info(&self) -> ExperimentInfo {
        // Blocks added after looking would not be evidence, so the number stays as it was begun.
        let same_budget = self.old.trials.max == self.new.trials.max;
        let max_blocks = if same_budget { self.begun.max_blocks } else { self.fresh.max_blocks };
        ExperimentInfo { seed: self.begun.seed, max_blocks, ..self.fresh.clone() }
    }

    /// A line per key with its old and its new value.
    fn lines(&self) -> String {
        let (old, new) = (values(&self.begun.plan_text), values(&self.fresh.plan_text));
        let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
        keys.sort();
        keys.dedup();
        keys.retain(|key| old.get(*key) != new.get(*key));
        let shown = keys.iter().take(CHANGES).map(|key| {
            let [before, after] =
                [old.get(*key), new.get(*key)].map(|value| shown_value(key, value));
            format!("  {key}: {before} → {after}")
        });
        let mut lines: Vec<String> = shown.collect();
        if keys.len() > CHANGES {
            lines.push(format!("  and {} more", keys.len() - CHANGES));
        }
        lines.join("\n")
    }
}

fn shown_value(key: &str, value: Option<&String>) -> String {
    let Some(value) = value else { return "not set".to_owned() };
    if is_secret_name(key) {
        return HIDDEN.to_owned();
    }
    shorten(&one_line(value), VALUE)
}

/// The value of every key of an experiment file, as TOML; a variant's key contains its name.
fn values(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    if let Ok(table) = text.parse::<toml::Table>() {
        add_values("", &table, &mut found);
    }
    // A changed file of the load is a change that the tables do not show.
    let content = planned_content(text);
    found.extend(
        content.map(|(key, sha256)| (format!("content of {key}"), format!("SHA-256 {sha256}"))),
    );
    found
}

fn add_values(prefix: &str, table: &toml::Table, found: &mut BTreeMap<String, String>) {
    for (key, value) in table {
        let key = format!("{prefix}{key}");
        match value {
            toml::Value::Table(inner) => add_values(&format!("{key}."), inner, found),
            toml::Value::Array(items) if items.iter().any(toml::Value::is_table) => {
                for (item, number) in items.iter().filter_map(toml::Value::as_table).zip(1_u32..) {
                    // By name where there is one, so that a variant in another place is no change.
                    let name = item.get("name").and_then(toml::Value::as_str);
                    let name = name.map_or_else(|| number.to_string(), str::to_owned);
                    add_values(&format!("{key}.{name}."), item, found);
                }
            }
            other => drop(found.insert(key, other.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_file_has_the_same_ending_as_before() {
        assert_eq!(numbered(Path::new("a/real.carat"), 2), Path::new("a/real.old-2.carat"));
        assert_eq!(numbered(Path::new("real"), 1), Path::new("real.old-1"));
    }

    #[test]
    fn keys_of_variants_have_their_names() {
        let text = "name = 'x'\n[load.http]\nrequests = 3\n[[variant]]\nname = 'a'\nsettings = { arena_max = 2 }";
        let values = values(text);
        assert_eq!(values["load.http.requests"], "3");
        assert_eq!(values["variant.a.settings.arena_max"], "2");
    }

    #[test]
    fn the_content_of_a_file_is_a_value_of_the_plan() {
        let sha256 = "ab".repeat(32);
        let text = format!("name = 'x'\n# content of load.http.data: SHA-256 {sha256}\n");
        let content = &values(&text)["content of load.http.data"];
        assert_eq!(content, &format!("SHA-256 {sha256}"));
        assert_eq!(shown_value("a key", Some(content)).chars().count(), VALUE);
    }
}
