//! Slips: in the names of commands, and in where a command to run begins.

use std::ffi::OsString;

use clap::{
    Command,
    builder::StyledStr,
    error::{ContextKind, ContextValue, Error, ErrorKind},
};

/// Adds what was probably meant to an error about the arguments.
pub(crate) fn with_tip(error: Error, coord: &Command, args: &[OsString]) -> Error {
    match error.kind() {
        ErrorKind::InvalidSubcommand => with_nearest(error, coord, args),
        ErrorKind::UnknownArgument => with_dashes(error, coord, args),
        _ => error,
    }
}

/// The innermost command that is right.
fn inner<'c>(coord: &'c Command, args: &[OsString]) -> &'c Command {
    args.iter().skip(1).fold(coord, |command, arg| command.find_subcommand(arg).unwrap_or(command))
}

/// Adds where the command to run begins: `coord lock /l ./backup.sh` misses the `--`.
fn with_dashes(mut error: Error, coord: &Command, args: &[OsString]) -> Error {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidArg) else { return error };
    let runs = inner(coord, args).get_positionals().any(clap::Arg::is_last_set);
    if runs && !wrong.starts_with('-') {
        let tip = StyledStr::from(format!("a command to run and its arguments go behind '--': '-- {wrong}'"));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    error
}

/// Adds the command that was meant, if clap found none: it misses slips in short names, such as `gte` for `get`.
fn with_nearest(mut error: Error, coord: &Command, args: &[OsString]) -> Error {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    if error.get(ContextKind::SuggestedSubcommand).is_some() {
        return error;
    }
    let near = inner(coord, args)
        .get_subcommands()
        .map(|command| (strsim::damerau_levenshtein(wrong, command.get_name()), command.get_name()))
        .filter(|(distance, name)| *distance <= 1 + name.len() / 4)
        .min();
    if let Some((_, name)) = near {
        let tip = ContextValue::Strings(vec![name.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, tip);
    }
    error
}
