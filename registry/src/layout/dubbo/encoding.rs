//! Percent-encoding as Java's `URLEncoder` does it: what Dubbo makes of a URL before it becomes the name of a node.

use coord_api::{Error, ErrorKind, Result};

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// One segment for any text, byte for byte what `URLEncoder.encode(text, "UTF-8")` gives.
///
/// Letters, digits and `.-*_` stay, a space becomes `+`, and every other byte of UTF-8 becomes `%` and two upper-case
/// digits. Two texts never become one.
pub(super) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 2);
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'*' | b'_' => out.push(char::from(byte)),
            b' ' => out.push('+'),
            _ => {
                out.push('%');
                out.push(char::from(HEX[usize::from(byte >> 4)]));
                out.push(char::from(HEX[usize::from(byte & 15)]));
            }
        }
    }
    out
}

/// The text that a segment stands for.
///
/// Takes more than [`encode`] gives, as Java does: lower-case digits, and characters that need no `%`.
///
/// # Errors
/// [`Malformed`](ErrorKind::Malformed) for a `%` without two hexadecimal digits, and for bytes that are not UTF-8.
pub(super) fn decode(segment: &str) -> Result<String> {
    let mut out = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
                match (digit(), digit()) {
                    (Some(high), Some(low)) => u8::try_from(high * 16 + low).unwrap_or_default(),
                    _ => return Err(malformed("a % is not followed by two hexadecimal digits", segment)),
                }
            }
            _ => byte,
        });
    }
    String::from_utf8(out)
        .map_err(|error| malformed("the decoded bytes are not UTF-8", segment).with_source(error))
}

fn malformed(why: &'static str, segment: &str) -> Error {
    Error::new(ErrorKind::Malformed, why).with_context("name", segment)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

    use super::*;

    #[test]
    fn a_url_is_encoded_as_java_does() {
        // From `URLEncoder.encode(text, "UTF-8")` of a JDK 17.
        for (text, encoded) in [
            (
                "dubbo://10.0.0.1:20880/com.foo.Bar?a=b&c=d e",
                "dubbo%3A%2F%2F10.0.0.1%3A20880%2Fcom.foo.Bar%3Fa%3Db%26c%3Dd+e",
            ),
            ("~!*'()-._+%", "%7E%21*%27%28%29-._%2B%25"),
            ("配置 ü\u{1f512}", "%E9%85%8D%E7%BD%AE+%C3%BC%F0%9F%94%92"),
            ("\0\n\u{7f}", "%00%0A%7F"),
            ("", ""),
        ] {
            assert_eq!(encode(text), encoded);
            assert_eq!(decode(encoded).unwrap(), text);
        }
    }

    #[test]
    fn what_others_write_is_read_leniently_and_refused_when_broken() {
        assert_eq!(decode("a%2fb~c/d").unwrap(), "a/b~c/d");
        for broken in ["%", "%2", "%zz", "%+1", "a%ff", "%é"] {
            let error = decode(broken).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Malformed, "{broken}");
            assert!(error.context().any(|fact| fact == ("name", broken)), "{error}");
        }
    }

    /// Every text comes back, no two texts become one segment, and each segment is one of our grammar but for its
    /// length.
    #[test]
    fn encoding_is_injective() {
        let mut rng = StdRng::seed_from_u64(7);
        let alphabet: Vec<char> = "abZ09 +%/:?=&;*-._~\0\u{e000}é漢\u{1f512}".chars().collect();
        let mut seen = HashMap::new();
        for _ in 0..20_000 {
            let text: String =
                (0..rng.random_range(0..8)).filter_map(|_| alphabet.choose(&mut rng)).collect();
            let encoded = encode(&text);
            assert_eq!(decode(&encoded).unwrap(), text);
            assert!(
                encoded.bytes().all(|b| b.is_ascii_alphanumeric() || b"+%*-._".contains(&b)),
                "{encoded}"
            );
            let before = seen.insert(encoded, text.clone());
            assert!(before.is_none_or(|before| before == text));
        }
    }
}
