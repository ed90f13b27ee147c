//! Stepping back for another: priorities and hand-over.
//!
//! Notes lie in the directory `<name>.meta`, each an ephemeral key that names an entry of the line:
//!
//! * `priority-<n>-<entry>`: the candidate with this entry has priority `n`.
//! * `handover-<entry>=<other>=<nonce>`: the leader with the first entry wishes that the candidate with the other is next.
//!
//! A note of an entry that is gone means nothing. Two entries never change their order, so a candidate that sees
//! somebody behind it for whom it should step back leaves and joins anew; it does not do so twice for the same entry.
//! Notes that are wrong, late or forged can make candidates leave. They cannot make two lead.

use std::{collections::BTreeMap, future::pending};

use bytes::Bytes;
use coord_api::{Child, Coord, Dir, Key, Lifetime, Result, Retry, Seen, Session, kit::Backoff};

use crate::{
    insist::{RETRY_CAP, insist},
    line::delete_surely,
};

const PRIORITY: &str = "priority-";
const HANDOVER: &str = "handover-";

/// An ephemeral key that is ours alone and goes when this is dropped.
#[derive(Debug)]
pub(super) struct Note {
    session: Session,
    key: Key,
}

impl Note {
    async fn leave(session: &Session, key: Key) -> Result<Self> {
        let note = Self { session: session.clone(), key };
        // In a task of its own: a caller who goes away drops the note only when its write has ended.
        session
            .coord()
            .runtime()
            .run(async move {
                let coord = note.session.coord();
                // Refused means that an earlier try arrived: nobody else uses this name.
                insist(&note.session, || coord.create(&note.key, Bytes::new(), Lifetime::Session)).await?;
                Ok(note)
            })
            .await
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        let (session, key) = (self.session.clone(), self.key.clone());
        self.session.coord().runtime().spawn(async move {
            if let Err(error) = delete_surely(&session, &key).await {
                tracing::debug!(%key, %error, "a note was not deleted; it goes with its session");
            }
        });
    }
}

/// Leaves the leader's wish that `target` is next.
pub(super) async fn wish(session: &Session, notes: &Dir, leader: &Key, target: &Key) -> Result<Note> {
    // The nonce, because an earlier wish of the same words may still be on its way out.
    let nonce = session.coord().runtime().nonce();
    let name = format!("{HANDOVER}{}={}={nonce}", leader.name(), target.name());
    Note::leave(session, notes.key(&name)?).await
}

/// Returns once the candidate with the entry `own` should step back for another behind it. Leaves our priority for
/// the others to see meanwhile.
///
/// Never fails: who cannot read the notes stands where it stands.
pub(super) async fn asked(session: &Session, line: &Dir, notes: &Dir, own: &Key, priority: i32) {
    let coord = session.coord();
    let told = async {
        if priority == 0 {
            return Ok(None);
        }
        Note::leave(session, notes.key(&format!("{PRIORITY}{priority}-{}", own.name()))?).await.map(Some)
    };
    let _told = match told.await {
        Ok(note) => note,
        Err(error) => {
            tracing::warn!(%notes, %error, "the priority of a candidate could not be told to the others");
            None
        }
    };
    let mut backoff = Backoff::new(RETRY_CAP);
    loop {
        match look(coord, line, notes, own, priority).await {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) if error.retry() != Retry::Never => backoff.sleep(&coord.runtime()).await,
            Err(error) => {
                tracing::debug!(%notes, %error, "the notes of an election cannot be read; nobody is let pass");
                return pending().await;
            }
        }
    }
}

/// Looks once whether to step back; if not, waits until the notes change.
async fn look(coord: &Coord, line: &Dir, notes: &Dir, own: &Key, priority: i32) -> Result<bool> {
    let left = coord.list(notes).await?;
    let notes_now = Notes::read(&left.children);
    if notes_now.matter_to(priority) {
        let line = coord.list(line).await?.children;
        if line
            .iter()
            .position(|child| child.key == *own)
            .is_some_and(|at| notes_now.say_step_back(&line, at, priority))
        {
            return Ok(true);
        }
    }
    coord.wait(&Seen::Children(notes.clone(), left.revision)).await?;
    Ok(false)
}

/// The priority that a candidate left for others to see.
pub(super) fn priority(notes: &[Child], candidate: &Child) -> i32 {
    Notes::read(notes).priority(candidate)
}

/// Notes, read. What strangers wrote is passed over.
#[derive(Debug, Default, PartialEq, Eq)]
struct Notes<'a> {
    /// By the name of the entry.
    priorities: BTreeMap<&'a str, i32>,
    /// `<entry>=<other>`.
    wishes: Vec<&'a str>,
}

impl<'a> Notes<'a> {
    fn read(notes: &'a [Child]) -> Self {
        let mut read = Self::default();
        for note in notes {
            if let Some((priority, entry)) = note.key.name().strip_prefix(PRIORITY).and_then(read_priority) {
                read.priorities.insert(entry, priority);
            } else if let Some((wish, _)) =
                note.key.name().strip_prefix(HANDOVER).and_then(|wish| wish.rsplit_once('='))
            {
                read.wishes.push(wish);
            }
        }
        read
    }

    fn priority(&self, candidate: &Child) -> i32 {
        self.priorities.get(candidate.key.name()).copied().unwrap_or_default()
    }

    /// Whether a look at the line can be worth it.
    fn matter_to(&self, priority: i32) -> bool {
        !self.wishes.is_empty() || self.priorities.values().any(|other| *other > priority)
    }

    /// Whether the candidate at `line[at]` should leave and join anew.
    fn say_step_back(&self, line: &[Child], at: usize, priority: i32) -> bool {
        let (Some((leader, _)), behind) = (line.split_first(), &line[at + 1..]) else { return false };
        if at == 0 {
            return false;
        }
        let wished = |candidate: &Child| {
            let wish = format!("{}={}", leader.key.name(), candidate.key.name());
            self.wishes.iter().any(|other| *other == wish)
        };
        // The one who is called does not let anybody pass.
        !wished(&line[at])
            && behind.iter().any(|candidate| wished(candidate) || self.priority(candidate) > priority)
    }
}

/// Reads `<n>-<entry>`.
fn read_priority(text: &str) -> Option<(i32, &str)> {
    let sign = usize::from(text.starts_with('-'));
    let end = sign + text.get(sign..)?.find('-')?;
    Some((text[..end].parse().ok()?, &text[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn children(names: &[&str]) -> Vec<Child> {
        let child = |name: &&str| Child::new(Key::from_store(&format!("/e/{name}")), None, None);
        names.iter().map(child).collect()
    }

    fn steps_back(notes: &[&str], line: &[&str], who: &str, priority: i32) -> bool {
        let at = line.iter().position(|name| *name == who).unwrap();
        let notes = children(notes);
        let notes = Notes::read(&notes);
        notes.say_step_back(&children(line), at, priority) && notes.matter_to(priority)
    }

    #[test]
    fn those_between_the_leader_and_the_wished_for_step_back() {
        let (wish, line) = (["handover-a=d=n"], ["a", "b", "c", "d", "e"]);
        for (who, expected) in [("a", false), ("b", true), ("c", true), ("d", false), ("e", false)] {
            assert_eq!(steps_back(&wish, &line, who, 0), expected, "{who}");
        }
    }

    #[test]
    fn the_wish_of_a_leader_of_the_past_means_nothing() {
        assert!(!steps_back(&["handover-gone=d=n"], &["a", "b", "d"], "b", 0));
        assert!(!steps_back(&["handover-a=gone=n"], &["a", "b", "d"], "b", 0));
    }

    #[test]
    fn lower_priorities_let_higher_ones_pass_and_equals_do_not() {
        let (notes, line) = (["priority-5-c", "priority-5-d", "priority--3-b"], ["a", "x", "b", "c", "d"]);
        for (who, priority, expected) in
            [("a", 0, false), ("x", 0, true), ("b", -3, true), ("c", 5, false), ("d", 5, false)]
        {
            assert_eq!(steps_back(&notes, &line, who, priority), expected, "{who}");
        }
    }

    #[test]
    fn the_wished_for_does_not_give_way_to_a_priority() {
        let notes = ["handover-a=b=n", "priority-9-c"];
        assert!(!steps_back(&notes, &["a", "b", "c"], "b", 0));
    }

    #[test]
    fn foreign_and_broken_notes_are_passed_over() {
        let notes = children(&[
            "",
            "priority-",
            "priority-x-b",
            "priority--",
            "priority-99999999999-b",
            "handover-",
            "readme",
        ]);
        assert_eq!(Notes::read(&notes), Notes::default());
        let odd = children(&["priority-2147483647--", "priority--2147483648-a-1-b"]);
        let odd = Notes::read(&odd);
        assert_eq!(odd.priorities, BTreeMap::from([("-", i32::MAX), ("a-1-b", i32::MIN)]));
    }
}
