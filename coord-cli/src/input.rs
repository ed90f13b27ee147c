//! What is read from standard input.

use std::io::{self, IsTerminal, Read};

use crate::exit::say;

/// All of standard input; somebody at a terminal is told that `what` is waited for.
pub(crate) fn stdin(what: &str) -> io::Result<Vec<u8>> {
    if io::stdin().is_terminal() {
        say(&format!("reading {what} from standard input; Ctrl-D ends it"));
    }
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes)?;
    Ok(bytes)
}
