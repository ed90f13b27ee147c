//! A listener that does not keep up is told the whole difference, and takes bounded memory.

use bytes::Bytes;
use coord_api::{Meta, Revision, Version};

use super::*;

fn entry(name: &str, modified: u64) -> Entry {
    let meta = Meta::new(Revision::new(1), Revision::new(modified), Version::new(modified), None);
    Entry::new(Key::parse(name).unwrap(), Bytes::from(vec![0; 10]), meta)
}

fn put(old: Option<Entry>, new: Entry) -> CacheEvent {
    CacheEvent::Changed(Change::Put { old, new })
}

fn initialized(entries: &[Entry]) -> CacheEvent {
    CacheEvent::Initialized { entries: entries.to_vec() }
}

/// Changes one key more often than the mailbox holds.
fn overflow(mailbox: &mut Mailbox, name: &str, mut known: Option<Entry>) -> Entry {
    let mut last = entry(name, 10);
    for modified in 10..10 + 2 * EVENTS_MAX as u64 {
        last = entry(name, modified);
        mailbox.push(put(known.replace(last.clone()), last.clone()));
    }
    last
}

#[test]
fn what_fits_is_told_one_by_one() {
    let mut mailbox = Mailbox::default();
    let events = [initialized(&[]), put(None, entry("a", 2)), put(Some(entry("a", 2)), entry("a", 3))];
    for event in events.clone() {
        mailbox.push(event);
    }
    assert_eq!([mailbox.pop(), mailbox.pop(), mailbox.pop()], events.map(Some));
    assert_eq!(mailbox.pop(), None);
    assert_eq!(mailbox.bytes, 0);
}

#[test]
fn what_does_not_fit_is_told_as_the_difference_to_what_was_read() {
    let mut mailbox = Mailbox::default();
    let (a, b) = (entry("a", 2), entry("b", 3));
    mailbox.push(initialized(&[a.clone(), b.clone()]));
    assert_eq!(mailbox.pop(), Some(initialized(&[a.clone(), b.clone()])));
    mailbox.push(CacheEvent::Changed(Change::Delete { old: b.clone() }));
    let last = overflow(&mut mailbox, "a", Some(a.clone()));
    let c = entry("c", 9000);
    mailbox.push(put(None, c.clone()));
    assert_eq!(
        mailbox.pop(),
        Some(CacheEvent::Resynced {
            changes: vec![
                Change::Put { old: Some(a), new: last },
                Change::Delete { old: b },
                Change::Put { old: None, new: c },
            ]
        })
    );
    assert_eq!(mailbox.pop(), None);
    mailbox.push(initialized(&[]));
    assert!(mailbox.folded.is_none(), "one by one again");
}

#[test]
fn a_listener_that_read_nothing_is_told_everything_there_is() {
    let mut mailbox = Mailbox::default();
    mailbox.push(initialized(&[entry("gone", 2)]));
    mailbox.push(CacheEvent::Changed(Change::Delete { old: entry("gone", 2) }));
    let last = overflow(&mut mailbox, "a", None);
    assert_eq!(mailbox.pop(), Some(initialized(&[last])));
}

#[test]
fn a_key_that_came_and_went_is_not_kept() {
    let mut mailbox = Mailbox::default();
    mailbox.push(initialized(&[]));
    mailbox.pop();
    overflow(&mut mailbox, "a", None);
    for i in 0..10 * EVENTS_MAX {
        let passing = entry(&format!("k{i}"), 5);
        mailbox.push(put(None, passing.clone()));
        mailbox.push(CacheEvent::Changed(Change::Delete { old: passing }));
    }
    assert_eq!(
        mailbox.folded.as_ref().map(|folded| folded.changes.len()),
        Some(1),
        "bounded by what is there"
    );
    assert!(mailbox.queue.is_empty());
}

#[test]
fn a_key_that_is_as_it_was_is_no_change() {
    let mut mailbox = Mailbox::default();
    let (a, b) = (entry("a", 2), entry("b", 2));
    mailbox.push(initialized(&[a.clone(), b.clone()]));
    mailbox.pop();
    overflow(&mut mailbox, "a", Some(a));
    mailbox.push(CacheEvent::Resynced { changes: vec![Change::Delete { old: b.clone() }] });
    mailbox.push(CacheEvent::Resynced { changes: vec![Change::Put { old: None, new: b }] });
    let Some(CacheEvent::Resynced { changes }) = mailbox.pop() else { panic!("folded") };
    assert_eq!(changes.len(), 1, "{changes:?}");
}

#[test]
fn large_values_are_folded_sooner_but_not_the_first_event() {
    let large = |modified| {
        let meta = Meta::new(Revision::new(1), Revision::new(modified), Version::new(modified), None);
        Entry::new(Key::parse("a").unwrap(), Bytes::from(vec![0; BYTES_MAX]), meta)
    };
    let mut mailbox = Mailbox::default();
    mailbox.push(initialized(&[large(2), entry("b", 2)]));
    assert!(mailbox.folded.is_none());
    mailbox.push(put(Some(large(2)), large(3)));
    assert!(mailbox.folded.is_some());
    assert_eq!(mailbox.pop(), Some(initialized(&[large(3), entry("b", 2)])));
}
