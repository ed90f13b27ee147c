//! Runs the suite against any store, and the simulation, and writes what came out.

#[cfg(feature = "labs")]
mod check;
mod say;
mod simulate;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The conformance suite of coord.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[cfg(feature = "labs")]
    #[command(flatten)]
    Check(check::Check),
    /// Runs every recipe under faults that a seed decides, and judges what happened.
    Simulate(simulate::Simulate),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        #[cfg(feature = "labs")]
        Command::Check(check) => check.execute(),
        Command::Simulate(simulate) => simulate.execute(),
    }
}
