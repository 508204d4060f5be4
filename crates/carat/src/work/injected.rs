//! What a server is started with, and the process that verifies it.

use crate::run::start_verifier;
use crate::target::install::find_libraries;
use crate::target::{
    InjectError, InjectRequest, Injection, Libraries, LibraryError, ProgramSearch, ReplaceError,
    create_pages, inject, new_token, replace_process, search_path_with, set_tree,
};
use anyhow::Context;
use carat_settings::{Scrub, Settings};
use carat_wire::env;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The program that runs the command, as seen from here: Ruby, if the command is a Ruby script.
pub(crate) fn find_ruby(program: &str, settings: &Settings) -> Option<PathBuf> {
    let path = search_path_with(settings, std::env::var("PATH").ok());
    // In another root the server begins in that root's top folder.
    let (root, dir) = settings.root().map_or((Path::new("/"), Path::new("")), |root| (root, root));
    ProgramSearch { path: &path, root, dir }.ruby(program)
}

/// Programs that start another one where other files are, but with the same environment.
const CHANGING_FILES: [&str; 7] =
    ["chroot", "fakechroot", "proot", "schroot", "bwrap", "firejail", "nsenter"];
/// Options by which unshare(1) does.
const OTHER_ROOT: [&str; 2] = ["-R", "--root"];

/// The word of a command that gives the server other files; none behind the name of a Ruby or of one of its scripts, where words
/// are the server's.
fn changing_files(command: &[String], is_ruby: impl Fn(&str) -> bool) -> Option<&str> {
    let words: Vec<&str> =
        command.iter().map(String::as_str).take_while(|word| !is_ruby(word)).collect();
    let unshared = words.iter().position(|word| base(word) == Some("unshare"));
    let has_root = |words: &[&str]| {
        words.iter().any(|word| OTHER_ROOT.iter().any(|option| word.starts_with(option)))
    };
    let mut names = words.iter().filter_map(|word| base(word));
    names
        .find(|name| CHANGING_FILES.contains(name))
        .or_else(|| unshared.filter(|at| has_root(&words[*at..])).map(|_| "unshare"))
}

/// The name of a program without its folder.
fn base(program: &str) -> Option<&str> {
    Path::new(program).file_name()?.to_str()
}

/// The libraries, if the server can load them.
fn libraries(settings: &Settings, command: &[String]) -> Result<Libraries, LibraryError> {
    let is_ruby = |word: &str| {
        let ruby = find_ruby(word, settings);
        let name = ruby.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("ruby"))
    };
    if let Some(root) = settings.root() {
        return Err(LibraryError::OutsideRoot(root.to_owned()));
    }
    match changing_files(command, is_ruby) {
        Some(name) => Err(LibraryError::OtherFiles(name.to_owned())),
        None => find_libraries(),
    }
}

/// The server that this process becomes.
pub(crate) struct ReplacingServer<'a> {
    pub(crate) command: &'a [String],
    pub(crate) settings: &'a Settings,
    /// The program that runs the command, if it is a Ruby.
    pub(crate) ruby: Option<PathBuf>,
    pub(crate) scrub: Scrub,
}

/// Becomes the server. Returns why it could not.
///
/// # Errors
/// Where a setting cannot be applied.
pub(crate) fn become_server(
    server: &ReplacingServer<'_>,
    verify: bool,
    messages: &mut impl Write,
) -> anyhow::Result<ReplaceError> {
    let request = InjectRequest {
        settings: server.settings,
        given: BTreeMap::new(),
        inherited: &|name| std::env::var(name).ok(),
        ruby: server.ruby.as_deref(),
        probe: false,
        scrub: server.scrub,
    };
    let injection = injected(&request, server.command, verify, messages)?;
    warn(&injection, messages)?;
    Ok(replace_process(server.command, &injection))
}

/// What the server is started with. If it cannot be verified, it is started all the same, with a message.
///
/// # Errors
/// Where a setting cannot be applied.
fn injected(
    request: &InjectRequest<'_>,
    command: &[String],
    verify: bool,
    messages: &mut impl Write,
) -> anyhow::Result<Injection> {
    let has_settings =
        request.settings.chosen().next().is_some() || request.settings.variables().next().is_some();
    if verify && !has_settings {
        writeln!(messages, "carat verify: nothing to verify, because no setting was chosen")?;
    }
    // First with the verifier, which needs other variables.
    let verify = verify && has_settings;
    let hindrance = match verify.then(|| inject_verified(request, command)) {
        Some(Ok(injection)) => return Ok(injection),
        Some(Err(error)) => Some(error),
        None => None,
    };
    let injection = match inject(request, || libraries(request.settings, command)) {
        Err(InjectError::Library(error)) => {
            return inject_without_libraries(request, verify, &error, messages);
        }
        found => found?,
    };
    if let Some(error) = hindrance {
        writeln!(messages, "carat verify: not verified: {error:#}")?;
    }
    Ok(injection)
}

/// Injects what verifying needs besides, and starts the verifier.
fn inject_verified(request: &InjectRequest<'_>, command: &[String]) -> anyhow::Result<Injection> {
    let scrub = match request.scrub {
        Scrub::Nothing => Scrub::Verifier,
        _ => Scrub::Everything,
    };
    let request = InjectRequest { given: BTreeMap::new(), probe: true, scrub, ..*request };
    let mut injection = inject(&request, || libraries(request.settings, command))?;
    verify(request.settings, &mut injection)?;
    Ok(injection)
}

/// Leaves out what needs carat's libraries, because a server without it is better than none.
fn inject_without_libraries(
    request: &InjectRequest<'_>,
    verify: bool,
    error: &LibraryError,
    messages: &mut impl Write,
) -> anyhow::Result<Injection> {
    let mut settings = request.settings.clone();
    let mut missing = settings.remove_runtime();
    if verify {
        missing.push("--verify".to_owned());
    }
    if settings.preloads() && request.scrub.has_settings() {
        missing.push("keeping LD_PRELOAD from the server's programs".to_owned());
    }
    writeln!(messages, "carat exec: without {}: {error}", missing.join(", "))?;
    let request = InjectRequest {
        settings: &settings,
        given: request.given.clone(),
        probe: false,
        scrub: Scrub::Nothing,
        ..*request
    };
    Ok(inject(&request, || Err(LibraryError::NoCandidate))?)
}

/// Prints the warnings about the settings.
pub(super) fn warn(injection: &Injection, messages: &mut impl Write) -> io::Result<()> {
    let mut warnings = injection.applied.warnings.iter();
    warnings.try_for_each(|warning| writeln!(messages, "carat exec: {warning}"))
}

/// Starts a process that says on stderr which settings are in effect, as soon as it knows.
fn verify(settings: &Settings, injection: &mut Injection) -> anyhow::Result<()> {
    let pages = create_pages().with_context(|| {
        let folder = std::env::temp_dir();
        format!("cannot write in {}; set TMPDIR to a folder that can be written", folder.display())
    })?;
    // Below the token of a run that this server may be part of.
    let outer = std::env::var(env::TOKEN).map(|token| format!("{token}/")).unwrap_or_default();
    let token = format!("{outer}{}", new_token());
    set_tree(&mut injection.env, &token, &pages);
    // In the verifier, which is another process by then.
    // If stderr is closed, nobody reads it.
    let say = |line: &str| drop(writeln!(io::stderr(), "carat verify: {line}"));
    let done = || drop(std::fs::remove_dir_all(&pages));
    let started = start_verifier(settings, &injection.applied, &token, say, done);
    if started.is_err() {
        // Without a verifier nobody would remove them.
        let _ = std::fs::remove_dir_all(&pages);
    }
    started.context("cannot start the verifier")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_gives_the_server_other_files_is_known_before_the_name_of_a_ruby() {
        for (command, expected) in [
            ("chroot /srv ruby app.rb", Some("chroot")),
            ("env A=b /usr/sbin/chroot /srv ruby app.rb", Some("chroot")),
            ("setpriv --reuid nobody bwrap --bind / / ruby app.rb", Some("bwrap")),
            ("unshare --mount --root=/srv ruby app.rb", Some("unshare")),
            ("unshare --mount ruby app.rb", None),
            ("ruby app.rb chroot", None),
            ("ruby unshare -R", None),
            ("nice -n 5 ruby app.rb", None),
        ] {
            let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
            assert_eq!(changing_files(&words, |word| word == "ruby"), expected, "{command}");
        }
    }
}
