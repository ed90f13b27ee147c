//! The `coord` command, as parts that its tests can call. The user's page is `docs/cli.md`.

mod age;
mod args;
mod bench;
mod config;
mod config_path;
#[cfg(feature = "conformance")]
mod conformance;
mod copy;
mod doctor;
mod exit;
mod explain;
mod generate;
mod input;
mod keys;
mod metrics;
mod output;
mod run;
mod service;
mod sessions;
mod slip;
mod store;
mod txn;
mod walk;
mod watch;

use std::{ffi::OsString, io::Write, process::ExitCode};

use clap::{CommandFactory, Parser};
use tracing_subscriber::EnvFilter;

pub use self::metrics::METRICS;
pub use args::{Cli, Command};
pub use exit::{Failure, code};
pub use output::Format;
pub use run::args::OnLost;

use output::Output;

/// The whole command: reads the arguments of the process, runs, and tells how it ended.
#[must_use]
pub fn main() -> ExitCode {
    let mut args: Vec<OsString> = std::env::args_os().collect();
    if let Some(helper) = run::helper(&args) {
        return ExitCode::from(helper(&args.split_off(2)));
    }
    // A bug is one line for the user, not a backtrace.
    std::panic::set_hook(Box::new(|panic| {
        let place =
            panic.location().map_or_else(String::new, |at| format!(" at {}:{}", at.file(), at.line()));
        exit::say(&format!("internal error{place}: please report this"));
    }));
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => {
            let error = slip::with_tip(error, &Cli::command(), &args);
            // Help and version go to standard output and are no failure. If nobody reads them, so be it.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { code::USAGE } else { code::YES });
        }
    };
    let ran = std::panic::catch_unwind(|| {
        log_to_stderr(cli.verbose);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        match runtime {
            Ok(runtime) => runtime.block_on(run(cli, &mut std::io::stdout())),
            Err(error) => exit::report(&Failure::from(error)),
        }
    });
    ExitCode::from(ran.unwrap_or(code::FAILED))
}

/// Runs one command with its data written to `out`, and returns its exit code. Reports failures on standard error.
pub async fn run(cli: Cli, out: &mut (dyn Write + Send)) -> u8 {
    match dispatch(cli, out).await {
        Ok(code) => code,
        Err(failure) => exit::report(&failure),
    }
}

async fn dispatch(cli: Cli, out: &mut (dyn Write + Send)) -> Result<u8, Failure> {
    let source = store::Source { url: cli.url, file: cli.config };
    let mut out = Output::new(out, cli.output);
    match cli.command {
        Command::Lock(args) => Box::pin(run::lock(&source, &args, cli.verbose)).await,
        Command::Elect(args) => Box::pin(run::elect(&source, &args, cli.verbose)).await,
        Command::Semaphore(args) => Box::pin(run::semaphore(&source, &args, cli.verbose)).await,
        Command::Once(args) => Box::pin(run::once(&source, &args, cli.verbose)).await,
        Command::Barrier(args) => Box::pin(run::barrier(&source, &args, cli.verbose)).await,
        Command::Get(args) => keys::get(&source.connect().await?, &mut out, &args).await,
        Command::Put(args) => keys::put(&source.connect().await?, &mut out, args).await,
        Command::Ls(args) => keys::ls(&source.connect().await?, &mut out, &args).await,
        Command::Del(args) => keys::del(&source.connect().await?, &mut out, &args).await,
        Command::Watch(args) => watch::watch(&source.connect().await?, &mut out, &args).await,
        Command::Txn(args) => txn::txn(&source, &mut out, args).await,
        Command::Explain(args) => explain::explain(source.connect().await?, &mut out, &args).await,
        Command::Sessions(args) => sessions::sessions(source.connect().await?, &mut out, &args).await,
        Command::Copy(args) => Box::pin(copy::copy(&source, &mut out, *args)).await,
        Command::Config(args) => config::run(&source.connect().await?, &mut out, *args).await,
        Command::Service(args) => Box::pin(service::run(&source, &mut out, args)).await,
        Command::ServeMetrics(args) => Box::pin(self::metrics::serve(&source, &mut out, args)).await,
        Command::Doctor => doctor::doctor(&source, &mut out).await,
        Command::Bench(args) => Box::pin(bench::bench(&source, &mut out, &args)).await,
        #[cfg(feature = "conformance")]
        Command::Conformance(args) => conformance::conformance(&source, &mut out, args).await,
        Command::ConfigPath => config_path::config_path(&source, &mut out),
        Command::Completions(args) => generate::completions(&mut out, &args),
        Command::Man(args) => generate::man(&mut out, &args),
    }
}

/// Warnings and worse, or what `COORD_LOG` says in the syntax of `tracing`.
///
/// What is risky in the set-up of the store is for `doctor` to tell, not for every command each time.
fn log_to_stderr(verbose: bool) {
    let level = if verbose { "info" } else { "warn,coord_api::config=error" };
    let filter = EnvFilter::try_from_env("COORD_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    // Fails only if a logger is there already, which then does the work.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .try_init();
}
