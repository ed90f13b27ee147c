//! Numbers from a seed.

/// A small generator (splitmix64), written out so that a line that replays a run means the same with every version of
/// every dependency.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// The stream number `stream` of `seed`: streams do not disturb each other.
    pub(crate) const fn new(seed: u64, stream: u64) -> Self {
        Self(mix(seed ^ mix(stream.wrapping_add(1))))
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number from `from` up to, and not including, `to`; `from` if there is none.
    pub(crate) const fn range(&mut self, from: u64, to: u64) -> u64 {
        let drawn = self.next();
        if to <= from { from } else { from + drawn % (to - from) }
    }

    /// True with this probability, in thousandths.
    pub(crate) const fn chance(&mut self, thousandths: u64) -> bool {
        self.next() % 1000 < thousandths
    }
}

const fn mix(number: u64) -> u64 {
    let a = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    b ^ (b >> 31)
}
