//! What a listener of one key is told.

use std::collections::BTreeMap;

use super::{
    History, Stats, Verdict, Violation, What,
    facts::{Stored, Told},
};

/// How far a listener has come.
struct Listener<'h> {
    key: &'h str,
    /// The place of what it was told last among the values that the key has had.
    at: Option<usize>,
    last: usize,
}

/// A listener is told values that the key has had, each once and in order, and in the end the one that it has. It may miss
/// some in between.
///
/// # Errors
/// `told-back`: a value that the key never had, or not since what was told before; `told-final`: settled, and what was
/// told last is not what the store has.
pub fn told(history: &History) -> Verdict {
    let mut stats = Stats::default();
    let mut values: BTreeMap<&str, Vec<Option<u64>>> = BTreeMap::new();
    let mut listeners: BTreeMap<u64, Listener<'_>> = BTreeMap::new();
    for (at, what) in history.facts() {
        match what {
            What::Stored(Stored::Put { key, value, .. }) => {
                values.entry(key).or_insert_with(|| vec![None]).push(Some(*value));
            }
            What::Stored(Stored::Gone { key, .. }) => {
                values.entry(key).or_insert_with(|| vec![None]).push(None)
            }
            What::Told(Told::Opened { listener, key }) => {
                values.entry(key).or_insert_with(|| vec![None]);
                listeners.insert(*listener, Listener { key, at: None, last: at });
            }
            What::Told(Told::Value { listener, value }) => {
                let Some(listener) = listeners.get_mut(listener) else { continue };
                let had = values.get(listener.key).map_or(&[][..], Vec::as_slice);
                let from = listener.at.map_or(0, |at| at + 1);
                stats.judged += 1;
                stats.contended += usize::from(had.len() > from + 1);
                // The first that fits: it leaves most to come.
                let Some(place) = had.iter().skip(from).position(|had| had == value) else {
                    let message = format!("{}: told {value:?} of the past", listener.key);
                    return Err(Violation::new("told-back", message, [listener.last, at]));
                };
                (listener.at, listener.last) = (Some(from + place), at);
            }
            What::Told(Told::Settled { listener }) => {
                let Some(listener) = listeners.get(listener) else { continue };
                let had = values.get(listener.key).map_or(&[][..], Vec::as_slice);
                let told = listener.at.and_then(|at| had.get(at));
                if told.is_none() || told != had.last() {
                    let message =
                        format!("{}: {told:?} was told last, and it is {:?}", listener.key, had.last());
                    return Err(Violation::new("told-final", message, [listener.last, at]));
                }
            }
            _ => {}
        }
    }
    Ok(stats)
}

#[cfg(test)]
mod tests {
    use super::{
        super::story::{breaks, story},
        *,
    };

    fn put(value: u64) -> What {
        Stored::Put { key: "/k".into(), revision: value, value, session: None }.into()
    }

    fn gone() -> What {
        Stored::Gone { key: "/k".into(), revision: 9, with_session: false }.into()
    }

    fn value(value: Option<u64>) -> What {
        Told::Value { listener: 1, value }.into()
    }

    fn opened() -> What {
        Told::Opened { listener: 1, key: "/k".into() }.into()
    }

    fn settled() -> What {
        Told::Settled { listener: 1 }.into()
    }

    #[test]
    fn values_come_in_order_and_some_are_missed() {
        let history = [
            opened(),
            value(None),
            put(1),
            put(2),
            value(Some(2)),
            gone(),
            put(3),
            value(Some(3)),
            settled(),
        ];
        assert_eq!(told(&story(history)).unwrap().judged, 3);
        told(&story([opened(), value(None), put(1), gone(), value(None), settled()])).unwrap();
    }

    #[test]
    fn nothing_comes_twice_or_from_the_past() {
        breaks(told(&story([opened(), put(1), put(2), value(Some(2)), value(Some(1))])), "told-back");
        breaks(told(&story([opened(), put(1), value(Some(1)), value(Some(1))])), "told-back");
        breaks(told(&story([opened(), put(1), value(Some(7))])), "told-back");
        breaks(told(&story([opened(), put(1), value(Some(1)), value(None)])), "told-back");
    }

    #[test]
    fn the_last_is_what_the_store_has() {
        breaks(told(&story([opened(), put(1), value(Some(1)), put(2), settled()])), "told-final");
        breaks(told(&story([opened(), settled()])), "told-final");
    }
}
