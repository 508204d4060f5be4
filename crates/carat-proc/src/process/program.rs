//! What a process is, by its title or its command line.

use carat_model::host::{ProcessRole, ServerName};

/// Words of a command line that are looked at; what they run stands before.
const WORDS: usize = 64;

/// What a process says that it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    pub name: ServerName,
    /// Its role, where its title says.
    pub role: Option<ProcessRole>,
}

/// How a server begins its title, which program it is, and the role that this means.
const TITLES: &[(&str, &str, Option<ProcessRole>)] = &[
    ("puma: cluster worker ", "puma", Some(ProcessRole::Worker)),
    ("puma ", "puma", None),
    ("sidekiqswarm", "sidekiq", Some(ProcessRole::Master)),
    ("sidekiq ", "sidekiq", None),
    ("unicorn master", "unicorn", Some(ProcessRole::Master)),
    ("unicorn worker[", "unicorn", Some(ProcessRole::Worker)),
    ("unicorn_rails master", "unicorn", Some(ProcessRole::Master)),
    ("unicorn_rails worker[", "unicorn", Some(ProcessRole::Worker)),
    ("PassengerAgent watchdog", "passenger", Some(ProcessRole::Watchdog)),
    ("Passenger watchdog", "passenger", Some(ProcessRole::Watchdog)),
    ("PassengerAgent server", "passenger", Some(ProcessRole::Core)),
    ("PassengerAgent core", "passenger", Some(ProcessRole::Core)),
    ("Passenger core", "passenger", Some(ProcessRole::Core)),
    ("Passenger AppPreloader: ", "passenger", Some(ProcessRole::Preloader)),
    ("Passenger RubyApp: ", "passenger", Some(ProcessRole::Worker)),
    ("pitchfork monitor", "pitchfork", Some(ProcessRole::Master)),
    ("pitchfork master", "pitchfork", Some(ProcessRole::Master)),
    ("pitchfork", "pitchfork", None),
    ("resque-", "resque", None),
    ("thin server ", "thin", None),
    ("solid-queue-supervisor(", "solid_queue", Some(ProcessRole::Master)),
    ("solid-queue-fork-supervisor(", "solid_queue", Some(ProcessRole::Master)),
    ("solid-queue-", "solid_queue", Some(ProcessRole::Worker)),
    ("delayed_job", "delayed_job", None),
    ("spring server", "spring", None),
    ("spring app", "spring", None),
    ("foreman: master", "foreman", None),
];
/// Programs that are known by the name of their script.
const SCRIPTS: [&str; 22] = [
    "puma",
    "pumactl",
    "sidekiq",
    "unicorn",
    "unicorn_rails",
    "passenger",
    "pitchfork",
    "resque",
    "thin",
    "falcon",
    "jekyll",
    "irb",
    "rake",
    "rackup",
    "spring",
    "good_job",
    "delayed_job",
    "foreman",
    "shoryuken",
    "rspec",
    "rails",
    "karafka",
];
/// Commands of `rails` with their short forms.
const RAILS: [(&str, &str); 7] = [
    ("server", "rails server"),
    ("s", "rails server"),
    ("runner", "rails runner"),
    ("r", "rails runner"),
    ("console", "rails console"),
    ("c", "rails console"),
    ("test", "rails test"),
];
/// Options of Ruby whose value is the next word.
const WITH_VALUE: [&str; 14] = [
    "-r",
    "-I",
    "-C",
    "-E",
    "-X",
    "--enable",
    "--disable",
    "--encoding",
    "--external-encoding",
    "--internal-encoding",
    "--dump",
    "--backtrace-limit",
    "--crash-report",
    "--parser",
];

/// The words of `/proc/PID/cmdline`. A title that took its place has blanks instead of nulls.
pub fn words_of(cmdline: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(cmdline);
    // A title is padded to the length of the command line that it overwrote.
    let text = text.trim_end_matches(['\0', ' ']);
    let separator = if text.contains('\0') { '\0' } else { ' ' };
    text.split(separator).filter(|word| !word.is_empty()).take(WORDS).map(str::to_owned).collect()
}

/// What a process is by its words; `None` if they name no Ruby and no server that is known.
pub fn program(words: &[String]) -> Option<Program> {
    // A title first: it tells version and role, and its blanks would read as a command's words.
    of_title(&words.join(" ")).or_else(|| of_command(words))
}

fn of_title(title: &str) -> Option<Program> {
    let (start, program, role) = TITLES.iter().find(|(start, ..)| title.starts_with(start))?;
    let rest = title[start.len()..].trim_start();
    let mut name = ServerName { program: (*program).to_owned(), ..ServerName::default() };
    match *program {
        "puma" => {
            name.app = bracketed(title);
            // After `puma: cluster worker ` stands the worker's number, which is no version.
            name.version = version(rest).filter(|_| role.is_none());
        }
        "sidekiq" => {
            name.version = version(rest);
            name.app =
                // Sidekiq without a tag goes on with its busy threads, as in `[0 of 5 busy]`.
                rest.split(' ').nth(1).filter(|app| !app.starts_with('[')).map(str::to_owned);
        }
        "passenger" => {
            let app = rest.split(" (").next().filter(|app| !app.is_empty());
            // An agent serves every app, and what follows its name is none of them.
            name.app = app.map(str::to_owned).filter(|_| !is_agent(role.as_ref()));
        }
        // In brackets stand the class of a job, or pids: `Processing mail since 1700000000 [MailJob]`.
        "resque" => name.version = version(rest),
        "thin" => name.app = bracketed(title),
        _ => {}
    }
    Some(Program { name, role: role.or_else(|| role_in(program, title)) })
}

fn is_agent(role: Option<&ProcessRole>) -> bool {
    matches!(role, Some(ProcessRole::Watchdog | ProcessRole::Core))
}

/// Roles that stand later in a title.
fn role_in(program: &str, title: &str) -> Option<ProcessRole> {
    match program {
        "pitchfork" if title.contains("worker[") => Some(ProcessRole::Worker),
        "pitchfork" if title.contains("mold") => Some(ProcessRole::Preloader),
        "resque" if title.contains("Processing ") => Some(ProcessRole::Worker),
        "resque" if title.contains("Forked ") => Some(ProcessRole::Master),
        _ => None,
    }
}

/// The text in the last brackets at the end, as Puma shows the name of an app.
fn bracketed(title: &str) -> Option<String> {
    let inner = title.strip_suffix(']')?.rsplit_once('[')?.1;
    (!inner.is_empty()).then(|| inner.to_owned())
}

/// The version that a text begins with.
fn version(text: &str) -> Option<String> {
    let word = text.split([' ', ':', '(']).next()?;
    let is_version = word.starts_with(|c: char| c.is_ascii_digit())
        && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '.');
    is_version.then(|| word.to_owned())
}

/// What `ruby … script …` or a script of a known name runs.
fn of_command(words: &[String]) -> Option<Program> {
    let first = base(words.first()?);
    let is_ruby = is_rubys_name(first);
    if !is_ruby && !SCRIPTS.contains(&first) && first != "bundle" {
        return None;
    }
    let mut rest = words.iter().skip(usize::from(is_ruby)).map(String::as_str);
    let mut script = None;
    while let Some(word) = rest.next() {
        match word {
            // What follows is the text of a program, which is no name.
            "-e" => return Some(named("ruby -e", None)),
            _ if WITH_VALUE.contains(&word) => drop(rest.next()),
            _ if word.starts_with('-') => {}
            // `bundle exec`: what counts is the command behind it.
            _ if matches!(base(word), "bundle" | "bundler") => drop(rest.next()),
            _ => {
                script = Some(word);
                break;
            }
        }
    }
    let Some(script) = script else { return Some(named("ruby", None)) };
    let known = base(script);
    if known == "rails" {
        let command = rest.find(|word| !word.starts_with('-')).unwrap_or_default();
        let known = RAILS.iter().find(|(word, _)| *word == command);
        return Some(named(known.map_or("rails", |(_, name)| name), None));
    }
    let program = SCRIPTS.iter().find(|name| **name == known);
    Some(match program {
        Some(program) => named(program, None),
        None => named("ruby", Some(known)),
    })
}

fn named(program: &str, app: Option<&str>) -> Program {
    let (program, app) = (program.to_owned(), app.map(str::to_owned));
    Program { name: ServerName { program, version: None, app }, role: None }
}

fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// `ruby`, `ruby3.1`, `ruby-3.1` and the like.
pub(crate) fn is_rubys_name(name: &str) -> bool {
    let version = name.strip_prefix("ruby");
    version.is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || ".-".contains(c)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ProcessRole::{Core, Master, Preloader, Watchdog, Worker};

    fn found(cmdline: &str) -> Option<Program> {
        program(&words_of(cmdline.as_bytes()))
    }

    /// An empty text is none.
    fn expected(program: &str, version: &str, app: &str, role: Option<ProcessRole>) -> Program {
        let [version, app] =
            [version, app].map(|text| Some(text.to_owned()).filter(|text| !text.is_empty()));
        Program { name: ServerName { program: program.to_owned(), version, app }, role }
    }

    #[test]
    fn servers_are_known_by_the_titles_that_they_set() {
        for (title, name, version, app, role) in [
            ("puma 6.6.0 (tcp://0.0.0.0:3000) [blog]", "puma", "6.6.0", "blog", None),
            ("puma: cluster worker 1: 4312 [blog]", "puma", "", "blog", Some(Worker)),
            ("sidekiq 7.2.0 shop [0 of 5 busy]", "sidekiq", "7.2.0", "shop", None),
            ("unicorn master -c u.rb", "unicorn", "", "", Some(Master)),
            ("unicorn worker[3] -c u.rb", "unicorn", "", "", Some(Worker)),
            ("Passenger watchdog", "passenger", "", "", Some(Watchdog)),
            ("Passenger core", "passenger", "", "", Some(Core)),
            ("Passenger AppPreloader: /srv/a", "passenger", "", "/srv/a", Some(Preloader)),
            ("Passenger RubyApp: /srv/a (production)", "passenger", "", "/srv/a", Some(Worker)),
            ("resque-2.6.0: Waiting for *", "resque", "2.6.0", "", None),
            ("resque-2.6.0: Forked 7 at 1700000000", "resque", "2.6.0", "", Some(Master)),
            (
                "resque-2.6.0: Processing mail since 1 [MailJob]",
                "resque",
                "2.6.0",
                "",
                Some(Worker),
            ),
            ("resque-pool-manager[blog]: managing [7, 8]", "resque", "", "", None),
            ("pitchfork (gen:2) worker[0] - requests: 7", "pitchfork", "", "", Some(Worker)),
            ("thin server (0.0.0.0:3000) [app]", "thin", "", "app", None),
            ("solid-queue-worker(1.0.0): waiting for jobs", "solid_queue", "", "", Some(Worker)),
        ] {
            let expected = expected(name, version, app, role);
            assert_eq!(found(&format!("{title}\0\0\0")), Some(expected), "{title}");
        }
    }

    #[test]
    fn programs_are_known_by_their_script_whatever_stands_before_it() {
        for (line, name, app) in [
            ("ruby\0/usr/bin/puma\0-w\x002\0", "puma", ""),
            ("/usr/bin/ruby3.1\0-W0\0-r\0x\0bin/rails\0runner\0p 1\0", "rails runner", ""),
            ("ruby\0bin/rails\0s\0", "rails server", ""),
            ("ruby\0/usr/bin/bundle\0exec\0jekyll\0serve\0", "jekyll", ""),
            ("irb\0", "irb", ""),
            ("ruby\0-e\0sleep\0", "ruby -e", ""),
            ("ruby\0--disable\0gems\0/usr/bin/puma\0", "puma", ""),
            ("ruby\0--disable=gems\0-W0\0/usr/bin/puma\0", "puma", ""),
            ("ruby\0-I\0lib\0work/job.rb\0--token=x\0", "ruby", "job.rb"),
            ("ruby\0", "ruby", ""),
        ] {
            assert_eq!(found(line), Some(expected(name, "", app, None)), "{line:?}");
        }
        for line in ["", "\0", "vim\0ruby\0", "rubyfmt\0x\0", "python3\0puma\0"] {
            assert_eq!(found(line), None, "{line:?}");
        }
    }
}
