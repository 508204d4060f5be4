//! What a workload needs of the machine: Ruby and the gems of its Gemfile.

use std::collections::BTreeSet;
use std::process::Command;

/// Prints those of its arguments that are no installed gems. It runs without Bundler, as the workload's server does.
const FIND_MISSING: &str =
    "ARGV.each { |name| begin; gem(name); rescue LoadError; puts(name); end }";

/// Programs and gems that a workload needs and that are not installed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{workload} needs {}, which this machine lacks; run `sudo apt-get install --no-install-recommends {}`, or without Debian's packages {}",
    listed(.missing), packages(.missing), by_hand(.missing)
)]
pub(crate) struct MissingNeeds {
    workload: String,
    missing: Vec<String>,
}

/// Checks that Ruby and the gems of a Gemfile are installed.
pub(crate) fn check_needs(workload: &str, gemfile: &str) -> Result<(), MissingNeeds> {
    let gems: Vec<&str> = gems(gemfile).collect();
    let found = Command::new("ruby").args(["-e", FIND_MISSING]).args(&gems).output();
    let missing: Vec<String> = match found {
        Ok(output) if output.status.success() => {
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            printed.lines().map(str::to_owned).collect()
        }
        // Without a Ruby that runs, nothing is known of gems.
        _ => std::iter::once("ruby").chain(gems).map(str::to_owned).collect(),
    };
    match missing {
        missing if missing.is_empty() => Ok(()),
        missing => Err(MissingNeeds { workload: workload.to_owned(), missing }),
    }
}

/// The names of the gems in a Gemfile.
fn gems(gemfile: &str) -> impl Iterator<Item = &str> {
    let named = gemfile.lines().filter_map(|line| line.trim().strip_prefix("gem '"));
    named.filter_map(|rest| Some(rest.split_once('\'')?.0))
}

fn listed(missing: &[String]) -> String {
    match missing {
        [others @ .., last] if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => missing.concat(),
    }
}

/// Debian's packages, each once.
fn packages(missing: &[String]) -> String {
    let packages: BTreeSet<String> = missing
        .iter()
        .map(|name| match name.as_str() {
            "ruby" | "puma" => name.clone(),
            gem => format!("ruby-{}", gem.replace('_', "-")),
        })
        .collect();
    packages.into_iter().collect::<Vec<_>>().join(" ")
}

fn by_hand(missing: &[String]) -> String {
    let gems: Vec<&str> =
        missing.iter().map(String::as_str).filter(|name| *name != "ruby").collect();
    match gems.len() < missing.len() {
        true => format!("install Ruby 2.7 or later and `gem install {}`", gems.join(" ")),
        false => format!("`gem install {}`", gems.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEMFILE: &str = "source 'https://x'\n\ngem 'actionpack', '>= 6.0'\n  gem 'puma'\n# gem 'no'\ngem 'pg', require: false\n";

    #[test]
    fn the_gems_of_a_gemfile_are_its_needs() {
        assert_eq!(gems(GEMFILE).collect::<Vec<_>>(), ["actionpack", "puma", "pg"]);
    }

    #[test]
    fn what_is_missing_is_named_with_the_packages_and_the_gems_that_bring_it() {
        for (missing, expected) in [
            (
                &["pg"][..],
                "the demo needs pg, which this machine lacks; run `sudo apt-get install --no-install-recommends ruby-pg`, \
                 or without Debian's packages `gem install pg`",
            ),
            (
                &["ruby", "actionpack", "puma"],
                "the demo needs ruby, actionpack and puma, which this machine lacks; run \
                 `sudo apt-get install --no-install-recommends puma ruby ruby-actionpack`, or without Debian's packages \
                 install Ruby 2.7 or later and `gem install actionpack puma`",
            ),
        ] {
            let missing = missing.iter().map(|name| (*name).to_owned()).collect();
            let error = MissingNeeds { workload: "the demo".into(), missing };
            assert_eq!(error.to_string(), expected);
        }
    }
}
