//! `completions` and `man`: what is made of the arguments themselves.

use std::{io, path::PathBuf};

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::{Cli, Failure, code, exit::say, output::Output};

/// Arguments of `completions`.
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Arguments of `man`.
#[derive(Args, Debug)]
pub struct ManArgs {
    /// The command whose page to print, such as `lock` or `config set`; that of coord itself without it
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    pub command: Vec<String>,

    /// Write the pages of all commands into this directory instead, as coord.1, coord-lock.1 and so on
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Writes the script that completes arguments in a shell.
pub(crate) fn completions(out: &mut Output<'_>, args: &CompletionsArgs) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "coord", &mut script);
    out.bytes(&script)?;
    Ok(code::YES)
}

/// Writes one manual page to the output, or all into a directory.
pub(crate) fn man(out: &mut Output<'_>, args: &ManArgs) -> Result<u8, Failure> {
    if let Some(dir) = &args.dir {
        std::fs::create_dir_all(dir)?;
        clap_mangen::generate_to(Cli::command(), dir)?;
        return Ok(code::YES);
    }
    let mut coord = Cli::command();
    // Without it the page of a command has neither the options of all commands nor its whole name.
    coord.build();
    let mut command = &coord;
    for name in &args.command {
        match command.find_subcommand(name) {
            Some(found) => command = found,
            None => {
                say(&format!("there is no command {:?}; `coord --help` lists them", args.command.join(" ")));
                return Ok(code::USAGE);
            }
        }
    }
    let page = page(command)?;
    out.bytes(&page)?;
    Ok(code::YES)
}

fn page(command: &clap::Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    Ok(page)
}
