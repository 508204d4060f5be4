//! `carat completions` and `carat man`: from the binary itself, because an installed binary has no build step.

use crate::cli::{Exit, output};
use clap::{Args, Command};
use clap_complete::Shell;

/// Arguments of `carat completions`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  carat completions bash > ~/.local/share/bash-completion/completions/carat\n  \
    carat completions zsh > ~/.zfunc/_carat"
)]
pub(crate) struct CompletionsArgs {
    /// Which shell
    shell: Shell,
}

pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "carat", &mut script);
    output::print_data(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Fine)
}

/// The manual page of carat, with every command's own page after it.
pub(crate) fn man(mut command: Command) -> anyhow::Result<Exit> {
    // Gives every command its full name.
    command.build();
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        clap_mangen::Man::new(sub.clone()).render(&mut page)?;
    }
    output::print_data(&String::from_utf8_lossy(&page))?;
    Ok(Exit::Fine)
}
