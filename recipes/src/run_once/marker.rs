//! What the store keeps of a run.

use bytes::Bytes;
use coord_api::{Entry, Error, ErrorKind, FencingToken, Nonce, Result, Revision};

/// How far a run came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkerState {
    /// It began. Whether it runs on, failed or fell over, its marker does not know.
    Started,
    /// It ended well.
    Finished,
}

/// What the store keeps of a run: the text `<state> <epoch> <nonce> <id of the leader>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    state: MarkerState,
    by: String,
    epoch: FencingToken,
    nonce: Nonce,
}

impl Marker {
    pub(super) fn new(by: &str, epoch: FencingToken, nonce: Nonce) -> Self {
        Self { state: MarkerState::Started, by: by.to_owned(), epoch, nonce }
    }

    /// How far it came.
    #[must_use]
    pub const fn state(&self) -> MarkerState {
        self.state
    }

    /// The id of the leader that ran it.
    #[must_use]
    pub fn by(&self) -> &str {
        &self.by
    }

    /// The epoch of that leader.
    #[must_use]
    pub const fn epoch(&self) -> FencingToken {
        self.epoch
    }

    pub(super) fn finished(mut self) -> Self {
        self.state = MarkerState::Finished;
        self
    }

    pub(super) fn write(&self) -> Bytes {
        let state = match self.state {
            MarkerState::Started => "started",
            MarkerState::Finished => "finished",
        };
        format!("{state} {} {} {}", self.epoch, self.nonce, self.by).into()
    }

    pub(super) fn read(entry: &Entry) -> Result<Self> {
        parse(&entry.value).ok_or_else(|| {
            Error::new(ErrorKind::Malformed, "this key is no marker of a job").with_context("key", &entry.key)
        })
    }
}

fn parse(value: &[u8]) -> Option<Marker> {
    let mut words = std::str::from_utf8(value).ok()?.splitn(4, ' ');
    let state = match words.next()? {
        "started" => MarkerState::Started,
        "finished" => MarkerState::Finished,
        _ => return None,
    };
    let epoch: u128 = words.next()?.parse().ok()?;
    let (high, low) = (u32::try_from(epoch >> 64).ok()?, u64::try_from(epoch & u128::from(u64::MAX)).ok()?);
    let nonce = Nonce::from_uuid(words.next()?)?;
    let by = words.next()?.to_owned();
    Some(Marker { state, by, epoch: FencingToken::new(high, Revision::new(low)), nonce })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_reads_back_whatever_the_leader_is_called() {
        for by in ["node-1", "", "a b  c", "\u{e9}\n"] {
            for epoch in
                [FencingToken::new(0, Revision::new(7)), FencingToken::new(3, Revision::new(u64::MAX))]
            {
                let marker = Marker::new(by, epoch, Nonce::new(5));
                assert_eq!(parse(&marker.write()), Some(marker.clone()));
                let finished = marker.finished();
                assert_eq!(parse(&finished.write()), Some(finished));
            }
        }
    }

    #[test]
    fn other_data_is_no_marker() {
        let nonce = Nonce::new(5);
        let huge = u128::MAX;
        for other in [
            "",
            "started",
            "done 1 x y",
            &format!("started -1 {nonce} a"),
            &format!("started 1 {nonce}"),
            &format!("started {huge} {nonce} a"),
        ] {
            assert_eq!(parse(other.as_bytes()), None, "{other:?}");
        }
        assert_eq!(parse(&[0xff, 0xfe]), None);
    }
}
