//! Keys, directories and their one grammar.
//!
//! The grammar is what every store takes: ZooKeeper's rules are the narrowest, so they are everybody's.

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use crate::{Error, Result};

/// Longest segment, in bytes of UTF-8.
const SEGMENT_MAX: usize = 255;
/// Longest key, in bytes of UTF-8.
const KEY_MAX: usize = 1024;

/// The name of one value: an absolute path such as `/locks/orders`.
///
/// Grammar: segments separated by `/`, at most 1,024 bytes in all. A segment is 1 to 255 bytes of UTF-8, is not
/// `.` or `..`, and holds no `/`, no control character and no character that ZooKeeper refuses (private use,
/// U+FFF0 and above). Keys are case-sensitive. The leading `/` may be left out; `a/b` and `/a/b` are one key.
/// Text of unknown origin becomes a segment by [`Key::encode`].
///
/// No key is an ancestor of another (the leaf rule): write to `/a/b` or to `/a/b/c`, not to both. The memory
/// backend refuses it; ZooKeeper would lose a value.
///
/// ```
/// # use coord_api::{Dir, Key};
///
/// let key = Key::parse("services/billing/10.0.0.7")?;
/// assert_eq!(key.as_str(), "/services/billing/10.0.0.7");
/// assert_eq!(key.name(), "10.0.0.7");
/// assert_eq!(key.parent(), Dir::parse("/services/billing")?);
/// assert!(Key::parse("/a/../b").is_err());
/// # Ok::<(), coord_api::Error>(())
/// ```
#[derive(Clone)]
pub struct Key {
    text: Arc<str>,
    /// Where the path begins: a key as it is seen from a namespace shares its text, so that a listing copies none.
    from: usize,
}

/// What keys live in: a path such as `/locks`, or the root `/`.
///
/// A directory needs no creation and no deletion: it is there while a key is below it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dir(Arc<str>); // without trailing slash; the root is ""

impl Key {
    /// Parses a path.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) that names the rule which the path breaks.
    pub fn parse(path: &str) -> Result<Self> {
        let body = path.strip_prefix('/').unwrap_or(path);
        if body.is_empty() {
            return Err(Error::invalid("a key needs at least one segment").with_context("key", path));
        }
        check_path(body).map_err(|e| e.with_context("key", path))?;
        Ok(Self::of(format!("/{body}").into()))
    }

    const fn of(text: Arc<str>) -> Self {
        Self { text, from: 0 }
    }

    /// The key in `dir` that stands for any text at all, by [`encode_segment`].
    ///
    /// ```
    /// # use coord_api::{Dir, Key};
    ///
    /// let key = Key::encode(&Dir::parse("/providers")?, "dubbo://10.0.0.1:20880/a?b=c")?;
    /// assert_eq!(key.name(), "dubbo:%2F%2F10.0.0.1:20880%2Fa?b=c");
    /// # Ok::<(), coord_api::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) if the result is empty or too long.
    pub fn encode(dir: &Dir, text: &str) -> Result<Self> {
        dir.key(&encode_segment(text))
    }

    /// A key found in a store, whoever wrote it.
    ///
    /// For backends: foreign names may break the grammar and must still be shown, waited for and respected in a
    /// line. `path` must start with `/`.
    #[must_use]
    pub fn from_store(path: &str) -> Self {
        debug_assert!(path.starts_with('/'), "a stored path is absolute: {path:?}");
        Self::of(path.into())
    }

    /// The whole path, with its leading `/`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text[self.from..]
    }

    /// The last segment.
    #[must_use]
    pub fn name(&self) -> &str {
        self.as_str().rsplit_once('/').map_or(self.as_str(), |(_, name)| name)
    }

    /// The directory that this key is in.
    #[must_use]
    pub fn parent(&self) -> Dir {
        Dir(self.as_str().rsplit_once('/').map_or("", |(dir, _)| dir).into())
    }

    /// This path as a directory.
    #[must_use]
    pub fn as_dir(&self) -> Dir {
        match self.from {
            0 => Dir(Arc::clone(&self.text)),
            _ => Dir(self.as_str().into()),
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Dir {
    /// The root directory, `/`.
    #[must_use]
    pub fn root() -> Self {
        Self("".into())
    }

    /// Parses a path; `/` and the empty text are the root, one trailing slash is allowed.
    ///
    /// # Errors
    /// As [`Key::parse`].
    pub fn parse(path: &str) -> Result<Self> {
        let body = path.strip_prefix('/').unwrap_or(path);
        let body = body.strip_suffix('/').unwrap_or(body);
        if body.is_empty() {
            return if path.len() <= 1 {
                Ok(Self::root())
            } else {
                Err(empty_segment().with_context("dir", path))
            };
        }
        check_path(body).map_err(|e| e.with_context("dir", path))?;
        Ok(Self(format!("/{body}").into()))
    }

    /// The whole path, with its leading `/`; the root is `/`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        if self.0.is_empty() { "/" } else { &self.0 }
    }

    /// Whether this is the root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// What every key in this directory starts with: the path and one slash.
    ///
    /// The slash keeps neighbours apart: `/app2/x` is not in `/app`.
    #[must_use]
    pub fn prefix(&self) -> String {
        format!("{}/", self.0)
    }

    /// The key `name` in this directory; `name` may have several segments.
    ///
    /// # Errors
    /// As [`Key::parse`].
    pub fn key(&self, name: &str) -> Result<Key> {
        Key::parse(&format!("{}/{name}", self.0))
    }

    /// The directory `name` in this directory; `name` may have several segments.
    ///
    /// # Errors
    /// As [`Key::parse`].
    pub fn dir(&self, name: &str) -> Result<Self> {
        self.key(name).map(|key| key.as_dir())
    }

    /// Whether `key` is in this directory or below it.
    #[must_use]
    pub fn contains(&self, key: &Key) -> bool {
        self.relative(key).is_some()
    }

    /// The path of `key` from here, without leading slash; `None` if it is not below.
    #[must_use]
    pub fn relative<'k>(&self, key: &'k Key) -> Option<&'k str> {
        key.as_str().strip_prefix(&*self.0)?.strip_prefix('/')
    }

    /// The child of this directory on the way to `key`: `key` itself or a directory above it.
    #[must_use]
    pub fn child_towards(&self, key: &Key) -> Option<Key> {
        let name = self.relative(key)?.split('/').next()?;
        Some(Key::of(format!("{}/{name}", self.0).into()))
    }

    /// `key` moved below this directory: `/a` under `/app` becomes `/app/a`.
    ///
    /// For namespaces. The result is not checked against the length limit; the caller's key was.
    #[must_use]
    pub fn join_key(&self, key: &Key) -> Key {
        Key::of([&*self.0, key.as_str()].concat().into())
    }

    /// `dir` moved below this directory.
    #[must_use]
    pub fn join_dir(&self, dir: &Self) -> Self {
        Self([&*self.0, &*dir.0].concat().into())
    }

    /// `key` as seen from this directory; the inverse of [`Dir::join_key`].
    #[must_use]
    pub fn strip_key(&self, key: &Key) -> Option<Key> {
        // With the slash before it, the rest is a key.
        self.relative(key)
            .map(|rest| Key { text: Arc::clone(&key.text), from: key.text.len() - rest.len() - 1 })
    }
}

fn empty_segment() -> Error {
    Error::invalid("a segment is empty: two slashes in a row, or one at the end")
}

fn check_path(body: &str) -> Result<()> {
    if body.len() + 1 > KEY_MAX {
        return Err(Error::invalid("longer than 1,024 bytes").with_context("bytes", body.len() + 1));
    }
    body.split('/').try_for_each(check_segment)
}

fn check_segment(segment: &str) -> Result<()> {
    if segment.is_empty() {
        return Err(empty_segment());
    }
    if segment == "." || segment == ".." {
        return Err(Error::invalid("a segment is \".\" or \"..\"; paths are absolute"));
    }
    if segment.len() > SEGMENT_MAX {
        return Err(Error::invalid("a segment is longer than 255 bytes").with_context("bytes", segment.len()));
    }
    match segment.chars().find(|c| forbidden(*c)) {
        Some(c) => {
            Err(Error::invalid("a character that not every store takes; Key::encode makes it portable")
                .with_context("character", c.escape_unicode()))
        }
        None => Ok(()),
    }
}

/// Control characters, and what ZooKeeper's server refuses: it checks UTF-16 units, so everything beyond the
/// basic plane (two surrogates) falls under its ban of U+D800 to U+F8FF.
fn forbidden(c: char) -> bool {
    c.is_control() || matches!(c, '\u{E000}'..='\u{F8FF}' | '\u{FFF0}'..)
}

/// Makes any text one segment, so that two texts never become one.
///
/// Percent-encodes `%`, `/` and every character that the grammar refuses, and `.` where the whole text is `.`
/// or `..`. Everything else stays readable. The empty text becomes `%`, which no other text does.
///
/// ```
/// assert_eq!(coord_api::encode_segment("a/b 100%"), "a%2Fb 100%25");
/// ```
#[must_use]
pub fn encode_segment(text: &str) -> String {
    if text.is_empty() {
        return "%".to_owned();
    }
    let dots = text == "." || text == "..";
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '%' || c == '/' || forbidden(c) || (dots && c == '.') {
            let mut buffer = [0; 4];
            for byte in c.encode_utf8(&mut buffer).bytes() {
                out.push_str(&format!("%{byte:02X}"));
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// The text that [`encode_segment`] made a segment of; `None` for what it would never have made.
///
/// ```
/// use coord_api::decode_segment;
///
/// assert_eq!(decode_segment("a%2Fb 100%25").as_deref(), Some("a/b 100%"));
/// assert_eq!(decode_segment("%61"), None, "an `a` stays as it is");
/// ```
#[must_use]
pub fn decode_segment(segment: &str) -> Option<String> {
    if segment == "%" {
        return Some(String::new());
    }
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let decoded = if byte == b'%' { u8::try_from(digit()? * 16 + digit()?).ok()? } else { byte };
        bytes.push(decoded);
    }
    String::from_utf8(bytes).ok().filter(|text| encode_segment(text) == segment)
}

/// Anything that names a key: a [`Key`], or text in its grammar.
pub trait IntoKey {
    /// The key.
    ///
    /// # Errors
    /// As [`Key::parse`].
    fn into_key(self) -> Result<Key>;
}

/// Anything that names a directory: a [`Dir`], or text in its grammar.
pub trait IntoDir {
    /// The directory.
    ///
    /// # Errors
    /// As [`Dir::parse`].
    fn into_dir(self) -> Result<Dir>;
}

macro_rules! into_path {
    ($trait:ident, $method:ident, $type:ident) => {
        impl $trait for $type {
            fn $method(self) -> Result<$type> {
                Ok(self)
            }
        }
        impl $trait for &$type {
            fn $method(self) -> Result<$type> {
                Ok(self.clone())
            }
        }
        impl $trait for &str {
            fn $method(self) -> Result<$type> {
                $type::parse(self)
            }
        }
        impl $trait for String {
            fn $method(self) -> Result<$type> {
                $type::parse(&self)
            }
        }
        impl $trait for &String {
            fn $method(self) -> Result<$type> {
                $type::parse(self)
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self.as_str(), f)
            }
        }
        impl std::str::FromStr for $type {
            type Err = Error;
            fn from_str(path: &str) -> Result<$type> {
                $type::parse(path)
            }
        }
    };
}
into_path!(IntoKey, into_key, Key);
into_path!(IntoDir, into_dir, Dir);

#[cfg(test)]
#[path = "key_tests.rs"]
mod tests;
