//! Values that only the holders of a key can read.

use std::{collections::BTreeMap, fmt};

use base64::{Engine, prelude::BASE64_STANDARD};
use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use coord_api::{Error, ErrorKind, Result, Secret};

/// What an encrypted value begins with; the key's id and the rest in base64 follow.
const PREFIX: &str = "coord-sealed:1:";
const NONCE: usize = 24;
/// The longest id of a key.
const ID_LIMIT: usize = 64;

/// The keys with which values are encrypted: one for new values, and old ones that can still be read.
///
/// An encrypted value is text, `coord-sealed:1:<key id>:<base64>`: XChaCha20-Poly1305 with a random nonce. It is bound
/// to its namespace and item: moved to another place, it does not open. Whoever may write to the store can still put an
/// older value of the same item back; the audit trail shows that.
///
/// ```
/// use coord_api::Secret;
/// use coord_config_centre::Keyring;
///
/// let key = Secret::new("MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=");
/// let ring = Keyring::new("2026-01", &key)?;
/// let sealed = ring.seal("billing", "db.password", "hunter2")?;
/// assert!(!sealed.contains("hunter2"));
/// assert_eq!(ring.open("billing", "db.password", &sealed)?, "hunter2");
/// assert!(ring.open("billing", "db.user", &sealed).is_err());
/// # Ok::<(), coord_api::Error>(())
/// ```
#[derive(Clone)]
pub struct Keyring {
    current: String,
    keys: BTreeMap<String, XChaCha20Poly1305>,
}

impl Keyring {
    /// A ring with one key: 32 bytes as base64, or 32 characters that are no base64 of that length.
    ///
    /// The id is written in every value, so that the key can be found after a change of keys.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if the key has another length, or the id is empty, longer than
    /// 64 bytes, or has other characters than letters, digits, `.`, `_` and `-`. The error shows nothing of the key.
    pub fn new(id: impl Into<String>, key: &Secret) -> Result<Self> {
        let id = id.into();
        let keys = BTreeMap::from([(id.clone(), cipher(&id, key)?)]);
        Ok(Self { current: id, keys })
    }

    /// The same, able to open also what was sealed with this key.
    ///
    /// # Errors
    /// As [`Keyring::new`]; also if the ring has a key of this id.
    pub fn with_old(mut self, id: impl Into<String>, key: &Secret) -> Result<Self> {
        let id = id.into();
        let cipher = cipher(&id, key)?;
        if self.keys.contains_key(&id) {
            return Err(Error::invalid("two keys have one id").with_context("key_id", id));
        }
        self.keys.insert(id, cipher);
        Ok(self)
    }

    /// Encrypts the value of one item.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if it is sealed already.
    pub fn seal(&self, namespace: &str, item: &str, value: &str) -> Result<String> {
        if is_sealed(value) {
            return Err(Error::invalid("the value is sealed already").with_context("item", item));
        }
        let nonce: [u8; NONCE] = rand::random();
        let bound = bound_to(&self.current, namespace, item);
        let payload = Payload { msg: value.as_bytes(), aad: &bound };
        let sealed = self.key(&self.current, item)?.encrypt(&XNonce::from(nonce), payload);
        let sealed = sealed
            .map_err(|_| Error::invalid("the value is too long to be sealed").with_context("item", item))?;
        let bytes = [&nonce[..], &sealed].concat();
        Ok(format!("{PREFIX}{}:{}", self.current, BASE64_STANDARD.encode(bytes)))
    }

    /// Decrypts the value of one item; a value that is not sealed comes back as it is.
    ///
    /// # Errors
    /// All name the item. [`PermissionDenied`](ErrorKind::PermissionDenied) if the ring has no key of that id, or the
    /// key does not fit: it is another one, or the value was changed or moved here from another item.
    /// [`Malformed`](ErrorKind::Malformed) if it only begins like a sealed value.
    pub fn open(&self, namespace: &str, item: &str, value: &str) -> Result<String> {
        let Some(sealed) = value.strip_prefix(PREFIX) else { return Ok(value.to_owned()) };
        let malformed = || {
            Error::new(ErrorKind::Malformed, "a sealed value is damaged")
                .with_context("namespace", namespace)
                .with_context("item", item)
        };
        let (id, text) = sealed.split_once(':').ok_or_else(malformed)?;
        let bytes = BASE64_STANDARD.decode(text).map_err(|_| malformed())?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE>().ok_or_else(malformed)?;
        let bound = bound_to(id, namespace, item);
        let opened = self
            .key(id, item)
            .map_err(|error| error.with_context("namespace", namespace))?
            .decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: &bound })
            .map_err(|_| {
                Error::new(ErrorKind::PermissionDenied, "the key does not open this value")
                    .with_context("namespace", namespace)
                    .with_context("item", item)
                    .with_context("key_id", id)
            })?;
        String::from_utf8(opened).map_err(|_| malformed())
    }

    fn key(&self, id: &str, item: &str) -> Result<&XChaCha20Poly1305> {
        self.keys.get(id).ok_or_else(|| {
            Error::new(ErrorKind::PermissionDenied, "the key of this value is not given")
                .with_context("item", item)
                .with_context("key_id", id)
        })
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("current", &self.current).field("keys", &self.keys.keys()).finish()
    }
}

/// Whether a value is encrypted.
#[must_use]
pub fn is_sealed(value: &str) -> bool {
    value.starts_with(PREFIX)
}

fn cipher(id: &str, key: &Secret) -> Result<XChaCha20Poly1305> {
    let good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if id.is_empty() || id.len() > ID_LIMIT || !id.chars().all(good) {
        return Err(Error::invalid("the id of a key is up to 64 letters, digits, '.', '_' and '-'")
            .with_context("key_id", id));
    }
    let text = key.expose().trim();
    // 32 characters of base64 are 24 bytes, so the two forms cannot be taken for each other.
    let bytes = BASE64_STANDARD.decode(text).ok().filter(|bytes| bytes.len() == 32);
    let bytes = bytes.unwrap_or_else(|| text.as_bytes().to_vec());
    XChaCha20Poly1305::new_from_slice(&bytes)
        .map_err(|_| Error::invalid("a key is 32 bytes, or their base64").with_context("key_id", id))
}

/// What a value is bound to. Lengths keep the parts apart: no two places give one text.
fn bound_to(id: &str, namespace: &str, item: &str) -> Vec<u8> {
    format!("{PREFIX}{}:{id}{}:{namespace}{}:{item}", id.len(), namespace.len(), item.len()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(id: &str, byte: char) -> Keyring {
        Keyring::new(id, &Secret::new(byte.to_string().repeat(32))).unwrap()
    }

    #[test]
    fn what_is_sealed_opens_in_its_place_only() {
        let ring = ring("a", 'x');
        for value in ["", "hunter2", "über\n\0"] {
            let sealed = ring.seal("ns", "item", value).unwrap();
            assert_eq!(ring.open("ns", "item", &sealed).unwrap(), value);
            for (namespace, item) in [("ns", "other"), ("other", "item"), ("nsi", "tem")] {
                let error = ring.open(namespace, item, &sealed).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{namespace} {item}");
                assert!(error.to_string().contains(&format!("item={item}")), "{error}");
            }
        }
        assert_ne!(ring.seal("ns", "item", "same").unwrap(), ring.seal("ns", "item", "same").unwrap());
        assert_eq!(ring.open("ns", "item", "plain").unwrap(), "plain");
        let sealed = ring.seal("ns", "item", "v").unwrap();
        assert_eq!(ring.seal("ns", "item", &sealed).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }

    #[test]
    fn another_key_is_refused_and_old_keys_still_open() {
        let (old, other) = (ring("a", 'x'), ring("a", 'y'));
        let sealed = old.seal("ns", "db.password", "hunter2").unwrap();
        let error = other.open("ns", "db.password", &sealed).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("db.password"), "{error}");
        let new = ring("b", 'z');
        assert!(new.open("ns", "db.password", &sealed).unwrap_err().to_string().contains("key_id=a"));
        let both = new.with_old("a", &Secret::new("x".repeat(32))).unwrap();
        assert_eq!(both.open("ns", "db.password", &sealed).unwrap(), "hunter2");
        assert!(both.seal("ns", "i", "v").unwrap().starts_with("coord-sealed:1:b:"));
        assert_eq!(
            both.with_old("a", &Secret::new("x".repeat(32))).unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
    }

    #[test]
    fn damaged_values_are_errors() {
        let ring = ring("a", 'x');
        let sealed = ring.seal("ns", "i", "v").unwrap();
        for bad in [
            "coord-sealed:1:",
            "coord-sealed:1:a",
            "coord-sealed:1:a:",
            "coord-sealed:1:a:!!",
            "coord-sealed:1:a:AAAA",
        ] {
            assert_eq!(ring.open("ns", "i", bad).unwrap_err().kind(), ErrorKind::Malformed, "{bad}");
        }
        let renamed = sealed.replace(":a:", ":b:");
        let both = ring.with_old("b", &Secret::new("x".repeat(32))).unwrap();
        assert!(both.open("ns", "i", &renamed).is_err(), "the key's id is bound too");
    }

    #[test]
    fn keys_are_checked_and_never_shown() {
        for bad in ["", "short", &"x".repeat(31), &"x".repeat(33), "AAAA"] {
            let error = Keyring::new("a", &Secret::new(bad)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{bad}");
            assert!(bad.is_empty() || !error.to_string().contains(bad), "{error}");
        }
        for bad in ["", "a:b", "a b", &"x".repeat(65)] {
            assert!(Keyring::new(bad, &Secret::new("x".repeat(32))).is_err(), "{bad}");
        }
        let text = "0123456789abcdef0123456789abcdef";
        assert!(!format!("{:?}", Keyring::new("a", &Secret::new(text)).unwrap()).contains("0123"));
    }
}
