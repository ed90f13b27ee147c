//! Slips in the names of commands.

use std::ffi::OsString;

use clap::{
    Command,
    error::{ContextKind, ContextValue, Error, ErrorKind},
};

/// Adds the command that was meant, if clap found none: it misses slips in short names, such as `gte` for `get`.
pub(crate) fn with_nearest(mut error: Error, coord: &Command, args: &[OsString]) -> Error {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    if error.kind() != ErrorKind::InvalidSubcommand || error.get(ContextKind::SuggestedSubcommand).is_some() {
        return error;
    }
    // Where the slip is: in the innermost command that is right.
    let inner =
        args.iter().skip(1).fold(coord, |command, arg| command.find_subcommand(arg).unwrap_or(command));
    let near = inner
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
