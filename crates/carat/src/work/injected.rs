//! What a server is started with, and the process that verifies it.

use crate::run::{Verification, start_verifier};
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

/// The libraries, if the server can load them.
fn libraries(settings: &Settings) -> Result<Libraries, LibraryError> {
    match settings.root() {
        Some(root) => Err(LibraryError::OutsideRoot(root.to_owned())),
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
    let injection = injected(&request, verify, messages)?;
    warn(&injection, messages)?;
    Ok(replace_process(server.command, &injection))
}

/// What the server is started with. If it cannot be verified, it is started all the same, with a message.
///
/// # Errors
/// Where a setting cannot be applied.
fn injected(
    request: &InjectRequest<'_>,
    verify: bool,
    messages: &mut impl Write,
) -> anyhow::Result<Injection> {
    // First with the verifier, which needs other variables.
    let hindrance = match verify.then(|| inject_verified(request)) {
        Some(Ok(injection)) => return Ok(injection),
        Some(Err(error)) => Some(error),
        None => None,
    };
    let injection = match inject(request, || libraries(request.settings)) {
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
fn inject_verified(request: &InjectRequest<'_>) -> anyhow::Result<Injection> {
    let scrub = match request.scrub {
        Scrub::Nothing => Scrub::Verifier,
        _ => Scrub::Everything,
    };
    let request = InjectRequest { given: BTreeMap::new(), probe: true, scrub, ..*request };
    let mut injection = inject(&request, || libraries(request.settings))?;
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

/// Starts a process that reports on stderr which settings are in effect.
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
    let started = start_verifier(settings, &injection.applied, &token, |found| {
        print_findings(found);
        let _ = std::fs::remove_dir_all(&pages);
    });
    if started.is_err() {
        // Without a verifier nobody would remove them.
        let _ = std::fs::remove_dir_all(&pages);
    }
    started.context("cannot start the verifier")
}

fn print_findings(found: &Verification) {
    let mut messages = io::stderr();
    if let Verification::Unknown(why) = found {
        let _ = writeln!(messages, "carat verify: not verified: {why}");
    }
    for check in found.checks() {
        let _ = writeln!(messages, "carat verify: {check}");
    }
}
