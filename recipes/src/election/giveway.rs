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

use std::{
    collections::{BTreeMap, BTreeSet},
    future::pending,
};

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
pub(super) async fn asked(session: &Session, line: &Dir, notes: &Dir, own: &Key, priority: u32) {
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

/// Looks once whether to step back; if not, waits until that may change.
async fn look(coord: &Coord, dir: &Dir, notes: &Dir, own: &Key, priority: u32) -> Result<bool> {
    let left = coord.list(notes).await?;
    let read = Notes::read(&left.children);
    let notes = Seen::Children(notes.clone(), left.revision);
    if !read.matter_to(priority) {
        coord.wait(&notes).await?;
        return Ok(false);
    }
    let line = coord.list(dir).await?;
    if line.position(own).is_some_and(|at| read.say_step_back(&line.children, at, priority)) {
        return Ok(true);
    }
    if read.name_others_than(&line.children) {
        // The notes may be newer than what we see of the line.
        let line = Seen::Children(dir.clone(), line.revision);
        tokio::select! {
            biased;
            woken = coord.wait(&notes) => woken?,
            woken = coord.wait(&line) => woken?,
        }
    } else {
        coord.wait(&notes).await?;
    }
    Ok(false)
}

/// The priority that a candidate left for others to see.
pub(super) fn priority(notes: &[Child], candidate: &Child) -> u32 {
    Notes::read(notes).priority(candidate)
}

/// Notes, read. What strangers wrote is passed over.
#[derive(Debug, Default, PartialEq, Eq)]
struct Notes<'a> {
    /// By the name of the entry.
    priorities: BTreeMap<&'a str, u32>,
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

    fn priority(&self, candidate: &Child) -> u32 {
        self.priorities.get(candidate.key.name()).copied().unwrap_or_default()
    }

    /// Whether a look at the line can be worth it.
    fn matter_to(&self, priority: u32) -> bool {
        !self.wishes.is_empty() || self.priorities.values().any(|other| *other > priority)
    }

    /// Whether a note names an entry that is not in the line.
    fn name_others_than(&self, line: &[Child]) -> bool {
        let names: BTreeSet<_> = line.iter().map(|child| child.key.name()).collect();
        let wished = self.wishes.iter().filter_map(|wish| wish.rsplit_once('=')).map(|(_, other)| other);
        self.priorities.keys().copied().chain(wished).any(|name| !names.contains(name))
    }

    /// Whether the candidate at `line[at]` should leave and join anew.
    fn say_step_back(&self, line: &[Child], at: usize, priority: u32) -> bool {
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
fn read_priority(text: &str) -> Option<(u32, &str)> {
    let (priority, entry) = text.split_once('-')?;
    Some((priority.parse().ok()?, entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn children(names: &[&str]) -> Vec<Child> {
        let child = |name: &&str| Child::new(Key::from_store(&format!("/e/{name}")), None, None);
        names.iter().map(child).collect()
    }

    fn steps_back(notes: &[&str], line: &[&str], who: &str, priority: u32) -> bool {
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
        let (notes, line) = (["priority-5-c", "priority-5-d", "priority-3-b"], ["a", "x", "b", "c", "d"]);
        for (who, priority, expected) in
            [("a", 0, false), ("x", 0, true), ("b", 3, true), ("c", 5, false), ("d", 5, false)]
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
    fn a_note_about_an_entry_that_is_not_seen_yet_is_noticed() {
        let line = children(&["a", "b"]);
        for (notes, unseen) in [
            (&["priority-5-b", "handover-a=b=n"][..], false),
            (&["priority-5-c"][..], true),
            (&["handover-a=c=n"][..], true),
            (&["readme"][..], false),
        ] {
            assert_eq!(Notes::read(&children(notes)).name_others_than(&line), unseen, "{notes:?}");
        }
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
        let odd = children(&["priority-4294967295--", "priority-1-a-1-b", "priority--1-c"]);
        assert_eq!(Notes::read(&odd).priorities, BTreeMap::from([("-", u32::MAX), ("a-1-b", 1)]));
    }
}
