//! Items and documents as types of the program's own. No error shows a value: it may be a secret.

use std::{collections::BTreeMap, fmt::Display};

use coord_api::{Error, ErrorKind, Result};
use serde::de::{DeserializeOwned, Deserializer, IntoDeserializer, Visitor, value::MapDeserializer};

use super::Format;

/// Whether `text` is a document in this format.
pub(super) fn parses(format: Format, text: &str) -> Result<()> {
    use serde::de::IgnoredAny;
    let parsed = match format {
        Format::Text => return Ok(()),
        Format::Json => serde_json::from_str::<IgnoredAny>(text).map(drop).map_err(|error| told(&error)),
        Format::Yaml => serde_norway::from_str::<IgnoredAny>(text).map(drop).map_err(|error| told(&error)),
        Format::Toml => toml::from_str::<toml::Table>(text).map(drop).map_err(|error| in_toml(&error, text)),
    };
    parsed.map_err(|why| {
        Error::invalid("the document is not in its format")
            .with_context("format", format)
            .with_context("why", why)
    })
}

/// Reads a document.
pub(super) fn document<T: DeserializeOwned>(format: Format, text: &str) -> Result<T> {
    let read = match format {
        Format::Json => serde_json::from_str(text).map_err(|error| told(&error)),
        Format::Yaml => serde_norway::from_str(text).map_err(|error| told(&error)),
        Format::Toml => toml::from_str(text).map_err(|error| in_toml(&error, text)),
        Format::Text => {
            T::deserialize(text.into_deserializer()).map_err(|error: serde_json::Error| told(&error))
        }
    };
    read.map_err(|why| {
        Error::new(ErrorKind::Malformed, "the document does not fit the type that it is read as")
            .with_context("format", format)
            .with_context("why", why)
    })
}

/// Reads items by the fields of a struct, or as a map.
pub(super) fn items<T: DeserializeOwned>(items: &BTreeMap<String, String>) -> Result<T> {
    let entries = items.iter().map(|(key, value)| (key.as_str(), Value { key, value }));
    T::deserialize(MapDeserializer::<_, serde_json::Error>::new(entries)).map_err(|error| {
        let why = told(&error);
        let misfit = Error::new(ErrorKind::Malformed, "the items do not fit the type that they are read as");
        match why.split_once(AT) {
            Some((item, why)) => misfit.with_context("item", item).with_context("why", why),
            None => misfit.with_context("why", why),
        }
    })
}

/// Between the key of an item and what is wrong with it, in the text of an error. No key can forge it: a line of a
/// shown error holds no control character.
const AT: &str = "\u{1}";

/// The value of one item, which becomes what its field wants.
struct Value<'a> {
    key: &'a str,
    value: &'a str,
}

impl Value<'_> {
    fn misfit(&self, expected: impl Display) -> serde_json::Error {
        let key = self.key.replace(AT, "");
        serde::de::Error::custom(format_args!("{key}{AT}expected {expected}"))
    }
}

impl<'de> IntoDeserializer<'de, serde_json::Error> for Value<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! parsed {
    ($($method:ident $visit:ident $type:ty),+ $(,)?) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, serde_json::Error> {
            match self.value.trim().parse::<$type>() {
                Ok(value) => visitor.$visit(value),
                Err(_) => Err(self.misfit(stringify!($type))),
            }
        }
    )+};
}

macro_rules! as_json {
    ($($method:ident($($argument:ident: $type:ty),*)),+ $(,)?) => {$(
        fn $method<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, serde_json::Error> {
            let mut json = serde_json::Deserializer::from_str(self.value);
            let read = (&mut json).$method($($argument,)* visitor);
            read.and_then(|value| json.end().map(|()| value)).map_err(|error| self.misfit(format_args!("JSON: {}", told(&error))))
        }
    )+};
}

impl<'de> Deserializer<'de> for Value<'de> {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_str(self.value)
    }

    /// An item that is there is not `None`, also if it is empty.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        let name: serde::de::value::StrDeserializer<'_, Self::Error> = self.value.into_deserializer();
        visitor.visit_enum(name).map_err(|error| self.misfit(format_args!("a variant: {}", told(&error))))
    }

    parsed! {
        deserialize_bool visit_bool bool,
        deserialize_i8 visit_i8 i8, deserialize_i16 visit_i16 i16,
        deserialize_i32 visit_i32 i32, deserialize_i64 visit_i64 i64, deserialize_i128 visit_i128 i128,
        deserialize_u8 visit_u8 u8, deserialize_u16 visit_u16 u16,
        deserialize_u32 visit_u32 u32, deserialize_u64 visit_u64 u64, deserialize_u128 visit_u128 u128,
        deserialize_f32 visit_f32 f32, deserialize_f64 visit_f64 f64,
        deserialize_char visit_char char,
    }

    as_json! {
        deserialize_seq(), deserialize_map(), deserialize_unit(),
        deserialize_tuple(len: usize),
        deserialize_tuple_struct(name: &'static str, len: usize),
        deserialize_struct(name: &'static str, fields: &'static [&'static str]),
        deserialize_unit_struct(name: &'static str),
    }

    serde::forward_to_deserialize_any! { str string bytes byte_buf identifier ignored_any }
}

/// The text of a TOML error, which shows the line that is wrong, without that line.
fn in_toml(error: &toml::de::Error, text: &str) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map_or(0, |before| before.matches('\n').count() + 1);
    format!("{} at line {line}", without_values(error.message()))
}

/// The text of an error without the values in it.
fn told(error: &impl Display) -> String {
    without_values(&error.to_string())
}

/// Hides what serde's messages quote of a value: anything in double quotes, and in backticks where those hold what was
/// found. Names of fields stay.
fn without_values(message: &str) -> String {
    let found = |what: &str| message.contains(what);
    let backticks = found("invalid type") || found("invalid value") || found("unknown variant");
    let mut shown = String::with_capacity(message.len());
    let mut within = None;
    let mut chars = message.chars();
    while let Some(c) = chars.next() {
        match within {
            Some(_) if c == '\\' => drop(chars.next()),
            Some(quote) if c == quote => {
                shown.push(quote);
                within = None;
            }
            Some(_) => {}
            None => {
                shown.push(c);
                if c == '"' || (c == '`' && backticks) {
                    shown.push_str("***");
                    within = Some(c);
                }
            }
        }
        // What follows is what would have fitted.
        if within.is_none() && shown.ends_with(", expected") {
            shown.push_str(chars.as_str());
            break;
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "lowercase")]
    enum Level {
        Low,
        High,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Wanted {
        text: String,
        number: i64,
        share: f64,
        on: bool,
        level: Level,
        maybe: Option<u8>,
        none: Option<u8>,
        list: Vec<u8>,
    }

    fn good() -> BTreeMap<String, String> {
        let items = [
            ("text", ""),
            ("number", " -5 "),
            ("share", "0.5"),
            ("on", "true"),
            ("level", "high"),
            ("maybe", "7"),
            ("list", "[1, 2]"),
            ("unwanted", "x"),
        ];
        items.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    }

    /// BB-239 (<https://github.com/alibaba/spring-cloud-alibaba/pull/4333>): an empty text was taken for a missing one.
    #[test]
    fn each_item_becomes_what_its_field_wants_and_an_empty_text_is_a_text() {
        let wanted: Wanted = items(&good()).unwrap();
        let expected = Wanted {
            text: String::new(),
            number: -5,
            share: 0.5,
            on: true,
            level: Level::High,
            maybe: Some(7),
            none: None,
            list: vec![1, 2],
        };
        assert_eq!(wanted, expected);
        assert_eq!(items::<BTreeMap<String, String>>(&good()).unwrap(), good());
    }

    #[test]
    fn a_wrong_item_is_named_and_its_value_is_not_shown() {
        for (key, value) in [
            ("number", "hunter2"),
            ("share", "hunter2"),
            ("on", "hunter2"),
            ("level", "hunter2"),
            ("maybe", ""),
            ("maybe", "300"),
            ("list", "[\"hunter2\"]"),
            ("list", "hunter2"),
            ("list", "[1] hunter2"),
        ] {
            let mut wrong = good();
            wrong.insert(key.to_owned(), value.to_owned());
            let error = items::<Wanted>(&wrong).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Malformed);
            assert!(error.context().any(|(name, item)| name == "item" && item == key), "{error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        let mut missing = good();
        missing.remove("number");
        let error = items::<Wanted>(&missing).unwrap_err();
        assert!(error.to_string().contains("missing field `number`"), "{error}");
    }

    #[test]
    fn a_wrong_document_says_where_and_what_was_expected_and_shows_no_value() {
        #[derive(Debug, Deserialize)]
        struct Port {
            #[expect(dead_code, reason = "only its type counts")]
            port: u16,
        }
        for (format, text) in [
            (Format::Json, "{\"port\": \"hunter\\\"2\"}"),
            (Format::Yaml, "port: hunter\"2\n"),
            (Format::Toml, "\nport = \"hunter\\\"2\""),
        ] {
            let error = document::<Port>(format, text).unwrap_err();
            let told = error.to_string();
            assert!(told.contains("u16") && told.contains("line"), "{told}");
            assert!(!told.contains("hunter") && !told.contains("2\""), "{told}");
        }
        let error = document::<Port>(Format::Json, "{\"port\": 70000}").unwrap_err();
        assert!(!error.to_string().contains("70000"), "{error}");
        assert_eq!(document::<String>(Format::Text, "any: [").unwrap(), "any: [");
        assert!(document::<Port>(Format::Text, "1").is_err());
    }
}
