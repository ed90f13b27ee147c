//! Who may pass, and what the others wait for.

use std::future::ready;

use coord_api::{Child, Key, Result, Seen};

use super::Place;

/// Whether it is our turn.
pub(crate) enum Verdict {
    /// It is.
    Granted,
    /// Not before one of these entries is gone.
    ///
    /// They must be such that the turn cannot come while all of them are there: nothing else wakes the waiter.
    Behind(Vec<Key>),
    /// Not before one of these is no longer true, with the same demand.
    Until(Vec<Seen>),
}

/// What gives the verdict. A closure over the line and our index in it is one.
pub(crate) trait Rule: Sync {
    /// The verdict for `place`, which stands at `line[at]`.
    fn judge(&self, place: &Place, line: &[Child], at: usize)
    -> impl Future<Output = Result<Verdict>> + Send;
}

impl<F: Fn(&[Child], usize) -> Verdict + Sync> Rule for F {
    fn judge(&self, _: &Place, line: &[Child], at: usize) -> impl Future<Output = Result<Verdict>> + Send {
        ready(Ok(self(line, at)))
    }
}

/// It is the turn of the first in line; everybody else waits for the one ahead.
pub(crate) fn first_in_line(line: &[Child], at: usize) -> Verdict {
    match at.checked_sub(1).map(|ahead| &line[ahead]) {
        None => Verdict::Granted,
        Some(ahead) => Verdict::Behind(vec![ahead.key.clone()]),
    }
}
