//! What is measured, for whoever measures it.

mod keys;
mod layers;
mod line;
mod reducer;

/// Takes one case after another.
pub(crate) trait Bench {
    /// Measures `op`, which may be called any number of times.
    fn case<R>(&mut self, group: &str, name: &str, op: impl FnMut() -> R);
}

/// All cases. Each has a name of its own in its group.
pub(crate) fn all(bench: &mut impl Bench) {
    keys::cases(bench);
    line::cases(bench);
    reducer::cases(bench);
    layers::cases(bench);
}
