//! The lives of holds, gathered from their facts.

use std::collections::BTreeMap;

use super::{
    History, What,
    facts::{Hold, Line, Mode, Token, Why},
};

/// One call of `acquire` and what became of it. Moments are indices of events.
#[derive(Debug)]
pub(super) struct Ask<'a> {
    pub(super) name: &'a str,
    pub(super) owner: u64,
    pub(super) mode: Mode,
    pub(super) group: Option<u64>,
    pub(super) asked: usize,
    pub(super) refused: Option<usize>,
    pub(super) granted: Option<Grant>,
    believed: Option<usize>,
    pub(super) releasing: Option<usize>,
    ended: Option<usize>,
    entry_gone: Option<(usize, Why)>,
}

/// The moment of a grant, and what was granted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) at: usize,
    pub(super) token: Token,
    pub(super) entry: u64,
}

impl Ask<'_> {
    /// The last moment at which the hold surely believed in itself and had a right to.
    ///
    /// An entry that an operator deletes ends the right at once, but the belief only when its client is told; promise
    /// G2 is about sessions and does not cover that gap.
    pub(super) fn last_belief(&self) -> Option<usize> {
        let last = self.granted.map(|grant| grant.at).max(self.believed).max(self.releasing)?;
        match self.entry_gone {
            Some((gone, Why::Operator)) => Some(last.min(gone)),
            _ => Some(last),
        }
    }

    /// When the client was told that the hold is over.
    pub(super) const fn ended(&self) -> Option<usize> {
        self.ended
    }

    /// When and why the entry left the line.
    pub(super) const fn entry_gone(&self) -> Option<(usize, Why)> {
        self.entry_gone
    }

    /// The first event that made way for others: release called, loss told, entry gone. `usize::MAX` if none did.
    pub(super) fn made_way(&self) -> usize {
        let gone = self.entry_gone.map(|(at, _)| at);
        [self.releasing, self.ended, gone].into_iter().flatten().min().unwrap_or(usize::MAX)
    }
}

/// All asks of a history, by id.
pub(super) fn asks(history: &History) -> BTreeMap<u64, Ask<'_>> {
    let mut asks: BTreeMap<u64, Ask<'_>> = BTreeMap::new();
    let mut gone: BTreeMap<(&str, u64), (usize, Why)> = BTreeMap::new();
    for (at, what) in history.facts() {
        match what {
            What::Hold(Hold::Asked { ask, name, owner, mode, group }) => {
                asks.insert(
                    *ask,
                    Ask {
                        name,
                        owner: *owner,
                        mode: *mode,
                        group: *group,
                        asked: at,
                        refused: None,
                        granted: None,
                        believed: None,
                        releasing: None,
                        ended: None,
                        entry_gone: None,
                    },
                );
            }
            What::Hold(hold) => follow(&mut asks, at, hold),
            What::Line(Line::Left { name, entry, why }) => {
                gone.insert((name, *entry), (at, *why));
            }
            _ => {}
        }
    }
    for ask in asks.values_mut() {
        ask.entry_gone = ask.granted.and_then(|grant| gone.get(&(ask.name, grant.entry)).copied());
    }
    asks
}

fn follow(asks: &mut BTreeMap<u64, Ask<'_>>, at: usize, hold: &Hold) {
    let (Hold::Asked { ask, .. }
    | Hold::Granted { ask, .. }
    | Hold::Refused { ask }
    | Hold::Believed { ask }
    | Hold::Releasing { ask }
    | Hold::Ended { ask, .. }) = hold;
    let Some(found) = asks.get_mut(ask) else { return };
    match hold {
        Hold::Asked { .. } => {}
        Hold::Granted { token, entry, .. } => {
            found.granted = Some(Grant { at, token: *token, entry: *entry });
        }
        Hold::Refused { .. } => found.refused = Some(at),
        Hold::Believed { .. } => found.believed = Some(at),
        Hold::Releasing { .. } => found.releasing = found.releasing.or(Some(at)),
        Hold::Ended { .. } => found.ended = found.ended.or(Some(at)),
    }
}

/// The granted asks of each name, in the order of their grants.
pub(super) fn grants<'h>(asks: &'h BTreeMap<u64, Ask<'h>>) -> BTreeMap<&'h str, Vec<(&'h Ask<'h>, Grant)>> {
    let mut names: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for ask in asks.values() {
        if let Some(grant) = ask.granted {
            names.entry(ask.name).or_default().push((ask, grant));
        }
    }
    for grants in names.values_mut() {
        grants.sort_by_key(|(_, grant)| grant.at);
    }
    names
}

/// Whether two holds of one name cannot be had together, whoever else is there. Permits are counted, not paired.
pub(super) const fn exclude(one: Mode, other: Mode) -> bool {
    !matches!((one, other), (Mode::Shared, Mode::Shared) | (Mode::Permits { .. }, Mode::Permits { .. }))
}

/// How many permits a hold takes.
pub(super) const fn permits(mode: Mode) -> u64 {
    match mode {
        Mode::Permits { take, .. } => take,
        Mode::Exclusive | Mode::Shared => 0,
    }
}
