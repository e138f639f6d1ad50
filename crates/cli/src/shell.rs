//! `thalweg completions` and `thalweg man`: completion scripts and manual pages.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::failure::{Context, Failure, Result};
use crate::output;

/// `thalweg completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg completions bash > ~/.local/share/bash-completion/completions/thalweg
  thalweg completions zsh > ~/.zfunc/_thalweg
  thalweg completions fish > ~/.config/fish/completions/thalweg.fish")]
pub struct CompletionsArgs {
    /// For which shell
    #[arg(value_enum)]
    shell: Shell,
}

/// `thalweg man`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg man | man -l -
  thalweg man get > thalweg-get.1
  thalweg man lab run > thalweg-lab-run.1")]
pub struct ManArgs {
    /// Of which command, such as `get` or `lab run` [default: the program's own page]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

impl CompletionsArgs {
    /// Prints the script on stdout.
    pub fn run(&self, mut program: Command) {
        let mut script = Vec::new();
        let name = program.get_name().to_owned();
        clap_complete::generate(self.shell, &mut program, name, &mut script);
        output::bytes(&script);
    }
}

impl ManArgs {
    /// Prints the page on stdout, as troff.
    ///
    /// # Errors
    ///
    /// When there is no such command.
    pub fn run(&self, mut program: Command) -> Result<()> {
        program.build();
        let mut command = &program;
        for name in &self.command {
            command = command.find_subcommand(name).ok_or_else(|| {
                let known: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
                let known = if known.is_empty() { "none".into() } else { known.join(", ") };
                Failure::usage(format!("{} has no command {name:?}; it has {known}", command.get_name()))
            })?;
        }
        let mut page = Vec::new();
        clap_mangen::Man::new(command.clone()).render(&mut page).context("cannot write the page")?;
        output::bytes(&page);
        Ok(())
    }
}
