//! A number in one key that many change, each change counted once.
//!
//! Changes are compare and set. One whose reply was lost is neither repeated blindly nor given up: the value carries
//! the last intents that changed it, so that the one who changed it finds its own. Who loses the race a few times
//! stands in line for the next try, so that a crowd does not live on refusals.

use std::str;

use bytes::Bytes;
use coord_api::{
    Check, Coord, Entry, Error, ErrorKind, Freshness, Key, Lifetime, Op, Result, Retry, Session, Txn,
    TxnOutcome, kit::Backoff,
};

use crate::planted::{Bug, planted};
use crate::{
    dirs::beside,
    insist::{RETRY_CAP, insist},
    line::{Line, first_in_line},
};

/// The tag of the line for those who lost the race.
const TAG: &str = "lock-";
/// How often a change is tried before it stands in line.
const OPTIMISTIC: usize = 3;
/// How many intents a value carries.
const INTENTS: usize = 16;

/// The number as it is stored: `42`, or `42 7 <intents>` once it was changed here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Number {
    value: i64,
    /// How often it was changed: tells whether an intent that is not in the list may have been and was pushed out.
    changes: u64,
    /// The last intents, the latest first.
    intents: Vec<u64>,
}

/// What is to become of the number.
pub(crate) enum Decision {
    /// This value.
    Write(i64),
    /// It stays.
    Keep,
}

/// What became of the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    /// It was changed, once.
    To(i64),
    /// It stayed; `None` if there is none.
    Not(Option<i64>),
}

/// A key that holds a number.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    session: Session,
    /// Reads everything that was acknowledged to anybody.
    latest: Coord,
    key: Key,
    line: Line,
}

impl Cell {
    /// The number at `key`. The line of those who lost the race is in the directory `<key>.meta/turns`.
    pub(crate) fn new(session: &Session, key: Key) -> Result<Self> {
        let line = Line::new(session, beside(&key)?.dir("turns")?, TAG)?;
        let latest = session.coord().clone().with_freshness(Freshness::Latest);
        Ok(Self { session: session.clone(), latest, key, line })
    }

    pub(crate) const fn key(&self) -> &Key {
        &self.key
    }

    /// The number, with its entry; `None` if it is absent. Waits out lost connections while the session lives.
    pub(crate) async fn get(&self) -> Result<Option<(i64, Entry)>> {
        let entry = self.read().await?;
        entry.map(|entry| Ok((Number::parse(&entry)?.value, entry))).transpose()
    }

    /// Changes the number as `decide` says, once; asks again whenever somebody else was faster.
    ///
    /// `decide` gets the number, `None` if it is absent, and may refuse.
    ///
    /// # Cancel safety
    /// If the future is dropped, the change was made once or not at all.
    pub(crate) async fn change(
        &self,
        decide: impl Fn(Option<i64>) -> Result<Decision> + Send + Sync,
    ) -> Result<Changed> {
        for _ in 0..OPTIMISTIC {
            if let Some(changed) = self.attempt(&decide).await? {
                return Ok(changed);
            }
        }
        // Dropping it leaves the line in the background.
        let _turn = self.line.enter(Bytes::new(), first_in_line).await?;
        loop {
            if let Some(changed) = self.attempt(&decide).await? {
                return Ok(changed);
            }
        }
    }

    /// One look and one compare and set; `None` if somebody else was faster.
    async fn attempt(
        &self,
        decide: &(impl Fn(Option<i64>) -> Result<Decision> + Send + Sync),
    ) -> Result<Option<Changed>> {
        let entry = self.read().await?;
        let number = entry.as_ref().map(Number::parse).transpose()?;
        let value = match decide(number.as_ref().map(|number| number.value))? {
            Decision::Keep => return Ok(Some(Changed::Not(number.map(|number| number.value)))),
            Decision::Write(value) => value,
        };
        let number = number.unwrap_or_default();
        let intent = self.fresh_intent();
        let next = number.next(value, intent).encode();
        let txn = match &entry {
            Some(entry) if planted(Bug::CounterStuck) && entry.meta.version.get() > 0x7fff_ffff => {
                tokio::time::sleep(RETRY_CAP).await;
                return Ok(None);
            }
            Some(entry) => Txn::new()
                .check(Check::Version(self.key.clone(), entry.meta.version))
                .op(Op::Update { key: self.key.clone(), value: next }),
            None => Txn::new().create(&self.key, next, Lifetime::Persistent),
        };
        Ok(self.commit(txn, entry.as_ref(), number.changes, intent).await?.then_some(Changed::To(value)))
    }

    /// Whether `txn` was applied. It can be applied once only, so it may be sent again while nobody else was faster.
    async fn commit(&self, txn: Txn, before: Option<&Entry>, changes: u64, intent: u64) -> Result<bool> {
        let mut backoff = Backoff::new(RETRY_CAP);
        let mut ambiguous = None;
        loop {
            match (self.session.coord().commit(txn.clone()).await, &ambiguous) {
                (Ok(TxnOutcome::Committed(_)), _) => return Ok(true),
                // Refused at the first try.
                (Ok(TxnOutcome::Rejected(_)), None) => return Ok(false),
                // Refused perhaps by our own earlier try.
                (Ok(TxnOutcome::Rejected(_)), Some(_)) => {}
                (Err(error), _) if error.retry() == Retry::Ambiguous => ambiguous = Some(error),
                (Err(error), None) if error.retry() == Retry::Never => return Err(error),
                (Err(_), _) => {}
            }
            let Some(error) = ambiguous.take() else {
                self.session.ensure_valid()?;
                backoff.sleep(&self.latest.runtime()).await;
                continue;
            };
            if planted(Bug::CountsTwice) {
                return Ok(false);
            }
            // Nobody can tell any more once the store cannot be asked: the error of the write says so.
            let Ok(now) = self.read().await else { return Err(error) };
            let same = now.as_ref().map(|now| now.meta.modified) == before.map(|before| before.meta.modified);
            if same {
                // Not applied, or not yet: it is sent again, and one of the two is refused.
                ambiguous = Some(error);
                backoff.sleep(&self.latest.runtime()).await;
                continue;
            }
            let number = now.as_ref().map(Number::parse).transpose()?;
            match number.as_ref().and_then(|number| number.shows(changes, intent)) {
                Some(applied) => return Ok(applied),
                None => return Err(error),
            }
        }
    }

    async fn read(&self) -> Result<Option<Entry>> {
        self.session.ensure_valid()?;
        match insist(&self.session, || self.latest.get(&self.key)).await {
            Err(error) => Err(self.session.ensure_valid().err().unwrap_or(error)),
            read => read,
        }
    }

    fn fresh_intent(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.latest.runtime().nonce().get().to_be_bytes();
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

impl Number {
    /// The number after one more change.
    fn next(&self, value: i64, intent: u64) -> Self {
        let intents = [intent].into_iter().chain(self.intents.iter().copied()).take(INTENTS).collect();
        Self { value, changes: self.changes.saturating_add(1), intents }
    }

    /// Whether `intent`, which would have been change `changes + 1` or later, was applied; `None` if that cannot be
    /// told any more.
    fn shows(&self, changes: u64, intent: u64) -> Option<bool> {
        if self.intents.contains(&intent) {
            return Some(true);
        }
        // All changes since are in the list, and it is not.
        let since = self.changes.checked_sub(changes)?;
        (since <= self.intents.len() as u64).then_some(false)
    }

    fn encode(&self) -> Bytes {
        let intents: Vec<String> = self.intents.iter().map(|intent| format!("{intent:016x}")).collect();
        format!("{} {} {}", self.value, self.changes, intents.join(",")).into()
    }

    fn parse(entry: &Entry) -> Result<Self> {
        Self::from_text(&entry.value).ok_or_else(|| {
            Error::new(ErrorKind::Malformed, "the key holds something else than a number")
                .with_context("key", &entry.key)
        })
    }

    /// Reads what [`Number::encode`] wrote, or a plain decimal number.
    fn from_text(bytes: &[u8]) -> Option<Self> {
        let mut parts = str::from_utf8(bytes).ok()?.split(' ');
        let value = parts.next()?.parse().ok()?;
        let Some(changes) = parts.next() else { return Some(Self { value, ..Self::default() }) };
        let changes = changes.parse().ok()?;
        let intents = parts.next()?.split(',').map(|hex| u64::from_str_radix(hex, 16).ok());
        let intents: Vec<u64> = intents.collect::<Option<_>>()?;
        (parts.next().is_none() && intents.len() <= INTENTS).then_some(Self { value, changes, intents })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(value: i64, changes: u64, intents: &[u64]) -> Number {
        Number { value, changes, intents: intents.to_vec() }
    }

    #[test]
    fn what_is_written_reads_back() {
        for value in [0, -1, 1 << 31, 1 << 32, (1 << 53) + 1, i64::MIN, i64::MAX] {
            let written = number(value, 3, &[1, u64::MAX]);
            assert_eq!(Number::from_text(&written.encode()), Some(written));
        }
        assert_eq!(Number::from_text(b"42"), Some(number(42, 0, &[])));
    }

    #[test]
    fn what_others_wrote_is_no_number() {
        let long = format!("1 99 {}", ["0"; INTENTS + 1].join(","));
        for bad in
            ["", " ", "x", "1.5", "1 2", "1 x 0", "1 2 zz", "1 2 0 0", "9223372036854775808", "1 -1 0", &long]
        {
            assert_eq!(Number::from_text(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(Number::from_text(&[0xff]), None);
    }

    /// BB-301 (CURATOR-584): an ambiguous change is counted once.
    #[test]
    fn an_intent_is_found_ruled_out_or_unknown() {
        let before = number(5, 10, &[]);
        let mut now = before.next(6, 77);
        assert_eq!(now.shows(10, 77), Some(true));
        assert_eq!(now.shows(10, 88), Some(false), "all changes since are in the list");
        for other in 1..INTENTS as u64 {
            now = now.next(6, other);
            assert_eq!(now.shows(10, 77), Some(true), "after {other} more");
        }
        now = now.next(6, 999);
        assert_eq!(now.shows(10, 77), None, "it may have been pushed out");
        assert_eq!(number(1, 0, &[]).shows(10, 77), None, "somebody else wrote the key anew");
    }
}
