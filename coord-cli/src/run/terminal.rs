//! Lending the terminal to the command.
//!
//! The command is in a process group of its own, and only the group in the foreground may read from the terminal and
//! gets its Ctrl-C. So the command is put there while it runs, as a shell would.

use std::io::{IsTerminal, stdin};

use nix::{
    sys::signal::{SigSet, SigmaskHow, Signal},
    unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp},
};

/// Whether standard input is a terminal that is ours to lend.
pub(crate) fn is_ours() -> bool {
    stdin().is_terminal() && tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp())
}

/// Puts a process group into the foreground; also from the background.
pub(super) fn give_to(group: Pid) {
    // Who does this in the background is stopped by SIGTTOU, unless it is blocked.
    let mut ttou = SigSet::empty();
    ttou.add(Signal::SIGTTOU);
    let Ok(before) = ttou.thread_swap_mask(SigmaskHow::SIG_BLOCK) else { return };
    // It may fail if the terminal is gone, and then there is nothing to lend.
    let _ = tcsetpgrp(stdin(), group);
    let _ = before.thread_set_mask();
}

/// Takes the terminal back.
pub(crate) fn take_back() {
    give_to(getpgrp());
}
