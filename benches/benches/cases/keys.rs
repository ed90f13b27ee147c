//! The key codec: paths to keys, any text to segments and back, namespaces.

use std::hint::black_box;

use coord::{
    Dir, Key,
    api::{decode_segment, encode_segment},
};

use super::Bench;

const PATH: &str = "/services/billing/10.0.0.7:8080";
const TEXT: &str = "dubbo://10.0.0.1:20880/org.acme.Billing?version=1.0.0&side=provider";

pub(crate) fn cases(bench: &mut impl Bench) {
    let key = Key::parse(PATH).expect("a key");
    let namespace = Dir::parse("/teams/payments").expect("a directory");
    let (inside, segment) = (namespace.join_key(&key), encode_segment(TEXT));
    bench.case("keys", "parse", || Key::parse(black_box(PATH)));
    bench.case("keys", "encode a segment", || encode_segment(black_box(TEXT)));
    bench.case("keys", "decode a segment", || decode_segment(black_box(&segment)));
    bench.case("keys", "into a namespace", || black_box(&namespace).join_key(&key));
    bench.case("keys", "out of a namespace", || black_box(&namespace).strip_key(&inside));
}
