//! What a release holds.

use std::{collections::BTreeMap, fmt};

use coord_api::{Error, Result};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{Digest, typed};

/// What a namespace holds: items, each a key and a value, or one whole document.
///
/// An empty value is a value, and no items at all are content too. `Debug` shows sizes and not values, which may be
/// secrets.
///
/// ```
/// # use coord_config_centre::{Content, Format};
/// let items = Content::items([("db.host", "10.0.0.1"), ("db.port", "5432")]);
/// assert_eq!(items.item("db.port"), Some("5432"));
///
/// let document = Content::document(Format::Toml, "port = 5432");
/// assert!(document.validate().is_ok());
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Keys and their values.
    Items(BTreeMap<String, String>),
    /// One document.
    Document {
        /// The language that it is written in.
        format: Format,
        /// The document, byte for byte as it was published.
        text: String,
    },
}

/// The language of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Format {
    /// JSON.
    Json,
    /// YAML, one document.
    Yaml,
    /// TOML.
    Toml,
    /// Any text. It has no types.
    Text,
}

impl Format {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Json, Self::Yaml, Self::Toml, Self::Text];

    /// The name in lower case: `json`, `yaml`, `toml`, `text`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Yaml => "yaml",
            Self::Toml => "toml",
            Self::Text => "text",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for Format {
    type Err = Error;

    /// Reads the name; `yml` and `txt` will do too.
    fn from_str(name: &str) -> Result<Self> {
        let name = match name {
            "yml" => "yaml",
            "txt" => "text",
            name => name,
        };
        let known = Self::ALL.into_iter().find(|format| format.as_str() == name);
        known.ok_or_else(|| {
            Error::invalid("no such format of documents")
                .with_context("format", name)
                .with_context("known", "json, yaml, toml, text")
        })
    }
}

impl Content {
    /// These items.
    pub fn items<K: Into<String>, V: Into<String>>(items: impl IntoIterator<Item = (K, V)>) -> Self {
        Self::Items(items.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }

    /// This document.
    pub fn document(format: Format, text: impl Into<String>) -> Self {
        Self::Document { format, text: text.into() }
    }

    /// The value of one item; `None` if there is no such item, or this is a document.
    #[must_use]
    pub fn item(&self, key: &str) -> Option<&str> {
        match self {
            Self::Items(items) => items.get(key).map(String::as_str),
            Self::Document { .. } => None,
        }
    }

    /// What it is, for messages: `items`, or the format of the document.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Items(_) => "items",
            Self::Document { format, .. } => format.as_str(),
        }
    }

    /// How long keys and values, or the document, are together, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Items(items) => items.iter().map(|(key, value)| key.len() + value.len()).sum(),
            Self::Document { text, .. } => text.len(),
        }
    }

    /// The SHA-256 of the content, whichever release holds it: equal content has equal digests.
    #[must_use]
    pub fn digest(&self) -> Digest {
        // Written with lengths, so that no two contents are written alike.
        let mut bytes = Vec::with_capacity(self.size() + 64);
        let mut part = |text: &str| {
            bytes.extend_from_slice(&(text.len() as u64).to_be_bytes());
            bytes.extend_from_slice(text.as_bytes());
        };
        part(self.kind());
        match self {
            Self::Items(items) => items.iter().for_each(|(key, value)| {
                part(key);
                part(value);
            }),
            Self::Document { text, .. } => part(text),
        }
        Digest::of(&bytes)
    }

    /// Refuses what no consumer could read: a document that is not in its format, an item without a name.
    ///
    /// # Errors
    /// [`InvalidArgument`](coord_api::ErrorKind::InvalidArgument) that says where, and shows no value.
    pub fn validate(&self) -> Result<()> {
        match self {
            Self::Items(items) if items.contains_key("") => Err(Error::invalid("an item has an empty key")),
            Self::Items(_) => Ok(()),
            Self::Document { format, text } => typed::parses(*format, text),
        }
    }

    /// Reads it as a type of the program's own.
    ///
    /// A document is read by its format; a text only as a `String`. Items are read by the fields of a struct, each
    /// value by what its field wants: numbers, `true` and `false`, text, an enum by the name of the variant; a field of
    /// another kind takes its value as JSON. Items that no field wants are left out, unless the type denies them.
    ///
    /// ```
    /// # use coord_config_centre::Content;
    /// #[derive(serde::Deserialize)]
    /// struct Database {
    ///     host: String,
    ///     port: u16,
    ///     replicas: Vec<String>,
    ///     #[serde(default)]
    ///     verbose: bool,
    /// }
    ///
    /// let items = Content::items([("host", "10.0.0.1"), ("port", "5432"), ("replicas", r#"["10.0.0.2"]"#)]);
    /// let database: Database = items.read()?;
    /// assert_eq!((database.port, database.verbose), (5432, false));
    ///
    /// let wrong = Content::items([("host", "h"), ("port", "many"), ("replicas", "[]")]).read::<Database>();
    /// assert!(wrong.is_err_and(|error| error.to_string().contains("item=port")));
    /// # Ok::<(), coord_api::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Malformed`](coord_api::ErrorKind::Malformed) that says which item or where in the document, and what was
    /// expected there. It shows no value.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        match self {
            Self::Items(items) => typed::items(items),
            Self::Document { format, text } => typed::document(*format, text),
        }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Items(items) => {
                let sizes =
                    items.iter().map(|(key, value)| (key, format_args!("{} bytes", value.len()).to_string()));
                f.debug_map().entries(sizes).finish()
            }
            Self::Document { format, text } => write!(f, "Document({format}, {} bytes)", text.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_contents_have_different_digests() {
        let contents = [
            Content::items::<&str, &str>([]),
            Content::items([("a", "")]),
            Content::items([("a", "b")]),
            Content::items([("ab", "")]),
            Content::items([("a", "b"), ("c", "d")]),
            Content::items([("a", "bcd")]),
            Content::document(Format::Text, ""),
            Content::document(Format::Text, "{}"),
            Content::document(Format::Json, "{}"),
        ];
        for (i, one) in contents.iter().enumerate() {
            for (j, other) in contents.iter().enumerate() {
                assert_eq!(one.digest() == other.digest(), i == j, "{i} {j}");
            }
        }
    }

    #[test]
    fn debug_shows_no_value() {
        for content in
            [Content::items([("db.password", "hunter2")]), Content::document(Format::Text, "hunter2")]
        {
            assert!(!format!("{content:?}").contains("hunter2"));
        }
    }

    #[test]
    fn what_is_no_document_of_its_format_is_refused() {
        for (format, good, bad) in [
            (Format::Json, "{\"a\": [1]}", "{\"a\": "),
            (Format::Yaml, "a:\n  - 1\n", "a: [1"),
            (Format::Toml, "a = [1]", "a = "),
        ] {
            assert!(Content::document(format, good).validate().is_ok(), "{format}");
            let error = Content::document(format, bad).validate().unwrap_err();
            assert!(error.to_string().contains("format"), "{error}");
        }
        assert!(Content::document(Format::Text, "a: [").validate().is_ok());
        assert!(Content::document(Format::Json, "").validate().is_err(), "no JSON at all");
        assert!(Content::items([("", "x")]).validate().is_err());
    }

    #[test]
    fn formats_read_back() {
        for format in Format::ALL {
            assert_eq!(format.as_str().parse::<Format>().unwrap(), format);
        }
        assert!("xml".parse::<Format>().is_err());
    }
}
