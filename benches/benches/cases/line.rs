//! The verdict on a line, for the last in it.

use std::hint::black_box;

use coord::{
    Key, Revision,
    api::{Child, Listing, Nonce},
};
use coord_recipes::micro;

use super::Bench;

pub(crate) fn cases(bench: &mut impl Bench) {
    for count in [1, 8, 64, 1000_u32] {
        let children: Vec<Child> = (0..count).map(entry).collect();
        let own = children.last().expect("one at least").key.clone();
        let line = Listing::new(children, Revision::new(1));
        bench.case("verdict", &format!("line of {count}"), || micro::verdict(black_box(&line), &own));
    }
}

/// Named as lines are on a store: they differ from their first segment's middle on.
fn entry(number: u32) -> Child {
    let nonce = Nonce::new(u128::from(number) << 96 | 0x5eed);
    let key = Key::parse(&format!("/locks/orders/{nonce}-lock-{number:010}")).expect("a key");
    Child::new(key, None, Some(nonce))
}
