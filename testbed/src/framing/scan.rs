//! Walking over frames that begin with a header of fixed size.

/// A position in a stream of frames with headers of `N` bytes.
#[derive(Debug)]
pub(super) struct Scan<const N: usize> {
    head: [u8; N],
    have: usize,
    /// Bytes to the end of the frame.
    body: u64,
    lost: bool,
}

/// The next thing in the stream.
#[derive(Debug)]
pub(super) enum Piece<'a, const N: usize> {
    /// Part of a frame's body.
    Body(&'a [u8]),
    /// A whole header; the caller must now say how long the body is, or give up.
    Head([u8; N]),
    /// Nothing more for now; the start of a header may be kept back.
    End,
}

impl<const N: usize> Default for Scan<N> {
    fn default() -> Self {
        Scan { head: [0; N], have: 0, body: 0, lost: false }
    }
}

impl<const N: usize> Scan<N> {
    pub(super) fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Piece<'a, N> {
        if self.lost || self.body > 0 {
            let limit = if self.lost { u64::MAX } else { self.body };
            let take = usize::try_from(limit).unwrap_or(usize::MAX).min(bytes.len());
            let (now, rest) = bytes.split_at(take);
            *bytes = rest;
            self.body = self.body.saturating_sub(take as u64);
            if !now.is_empty() {
                return Piece::Body(now);
            }
        }
        if bytes.is_empty() {
            return Piece::End;
        }
        let take = (N - self.have).min(bytes.len());
        let (now, rest) = bytes.split_at(take);
        *bytes = rest;
        self.head[self.have..self.have + take].copy_from_slice(now);
        self.have += take;
        if self.have < N {
            return Piece::End;
        }
        self.have = 0;
        Piece::Head(self.head)
    }

    /// The frame whose header was just read has a body of this many bytes.
    pub(super) fn body(&mut self, length: u64) {
        self.body = length;
    }

    /// This is not the protocol it was taken for: everything from here on is body.
    pub(super) fn give_up(&mut self) {
        self.lost = true;
    }
}
