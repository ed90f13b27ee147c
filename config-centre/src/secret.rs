//! Which values must not be shown.

use std::borrow::Cow;

use serde_json::Value;

use crate::{Content, Format};

/// What is shown instead of a secret.
pub const MASK: &str = "******";

/// Words that make a key secret wherever they stand in it, also written together: `dbpassword`, `apitokens`.
const ANYWHERE: [&str; 9] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "apikey",
    "privatekey",
    "accesskey",
];

/// Words that must stand alone, since others contain them: `monkey`, `compass`, `author`.
const ALONE: [&str; 9] = ["key", "keys", "pwd", "pass", "auth", "pin", "salt", "dsn", "jwt"];

/// How a private key in PEM begins and ends.
const PRIVATE_KEY: &str = "PRIVATE KEY-----";

/// Whether a value under this key should be hidden from onlookers.
///
/// Judged by the words of the name, in any case and notation (`db.password`, `API_KEY`, `clientSecret`). Rather hides
/// one too many: whoever wants to see asks for it.
///
/// ```
/// use coord_config_centre::looks_secret;
///
/// assert!(looks_secret("db.password") && looks_secret("apiKey") && looks_secret("OAUTH-TOKEN"));
/// assert!(!looks_secret("monkey.count") && !looks_secret("db.host"));
/// ```
#[must_use]
pub fn looks_secret(key: &str) -> bool {
    words(key).iter().any(|word| ALONE.contains(&word.as_str()))
        || ANYWHERE.iter().any(|secret| joined(key).contains(secret))
}

/// Whether the value itself gives a secret away: a URL with a password, or a private key.
#[must_use]
pub fn holds_secret(value: &str) -> bool {
    value.contains(PRIVATE_KEY) || value.match_indices("://").any(|(at, _)| password_follows(&value[at..]))
}

/// The value as it may be shown: [`MASK`] if the key looks secret or the value holds a secret. Empty values stay: that
/// there is none is no secret.
#[must_use]
pub fn masked<'v>(key: &str, value: &'v str) -> Cow<'v, str> {
    if !value.is_empty() && (looks_secret(key) || holds_secret(value)) {
        return Cow::Borrowed(MASK);
    }
    Cow::Borrowed(value)
}

/// Whether `text`, from a `://` on, has `user:password@` before its host ends.
fn password_follows(text: &str) -> bool {
    let authority =
        text["://".len()..].split(['/', '?', '#', ' ', '"', '\'', '\n']).next().unwrap_or_default();
    authority
        .rsplit_once('@')
        .and_then(|(user, _)| user.split_once(':'))
        .is_some_and(|(_, word)| !word.is_empty())
}

/// The letters and digits of a key, in lower case.
fn joined(key: &str) -> String {
    key.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The words of a key, in lower case: cut at what is no letter or digit, and where a lower-case letter meets a capital.
fn words(key: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before_is_lower = false;
    for c in key.chars() {
        if !c.is_alphanumeric() || (before_is_lower && c.is_uppercase()) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
        before_is_lower = c.is_lowercase() || c.is_numeric();
    }
    words
}

/// The content as it may be shown: secrets are [masked].
///
/// A document with a secret in it is written anew, without its comments: good to look at, not to publish. In a text,
/// lines like `password = ...` and `token: ...` are masked.
///
/// ```
/// use coord_config_centre::{Content, Format, mask_content};
///
/// let items = Content::items([("db.host", "10.0.0.1"), ("db.password", "hunter2")]);
/// assert_eq!(mask_content(&items).item("db.password"), Some("******"));
///
/// let document = Content::document(Format::Json, r#"{"db": {"password": "hunter2"}}"#);
/// let Content::Document { text, .. } = mask_content(&document) else { unreachable!() };
/// assert!(!text.contains("hunter2"));
/// ```
#[must_use]
pub fn mask_content(content: &Content) -> Content {
    match content {
        Content::Items(items) => Content::items(items.iter().map(|(key, value)| (key, masked(key, value)))),
        Content::Document { format, text } => Content::document(*format, mask_document(*format, text)),
    }
}

/// A document without its secrets. One that is not in its format is treated as a text.
fn mask_document(format: Format, text: &str) -> String {
    let parsed: Option<Value> = match format {
        Format::Json => serde_json::from_str(text).ok(),
        Format::Yaml => serde_norway::from_str(text).ok(),
        Format::Toml => toml::from_str(text).ok(),
        Format::Text => None,
    };
    let Some(mut value) = parsed else { return mask_lines(text) };
    if !mask_value(&mut value, false) {
        return text.to_owned();
    }
    let written = match format {
        Format::Yaml => serde_norway::to_string(&value).ok(),
        Format::Toml => toml::to_string(&value).ok(),
        Format::Json | Format::Text => serde_json::to_string_pretty(&value).ok(),
    };
    // What cannot be written is not shown at all.
    written.unwrap_or_else(|| MASK.to_owned())
}

/// Masks every value below a key that looks secret; whether there was any.
fn mask_value(value: &mut Value, secret: bool) -> bool {
    match value {
        Value::Object(fields) => fields
            .iter_mut()
            .fold(false, |any, (key, value)| mask_value(value, secret || looks_secret(key)) | any),
        Value::Array(values) => values.iter_mut().fold(false, |any, value| mask_value(value, secret) | any),
        Value::String(text) if text.is_empty() || !(secret || holds_secret(text)) => false,
        Value::Null | Value::Bool(_) => false,
        Value::Number(_) if !secret => false,
        value => {
            *value = MASK.into();
            true
        }
    }
}

/// Masks what follows a secret name in a line, and lines that hold a secret.
fn mask_lines(text: &str) -> String {
    if text.contains(PRIVATE_KEY) {
        return MASK.to_owned(); // its lines do not say that they are of a key
    }
    let mask = |line: &str| match line.split_once(['=', ':']) {
        Some((name, value)) if looks_secret(name) && !value.trim().is_empty() => {
            let end = line[name.len()..].chars().next().map_or(name.len(), |c| name.len() + c.len_utf8());
            format!("{} {MASK}", &line[..end])
        }
        _ if holds_secret(line) => MASK.to_owned(),
        _ => line.to_owned(),
    };
    text.split('\n').map(mask).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_known_in_any_notation() {
        for key in [
            "password",
            "db.password",
            "DB_PASSWORD",
            "dbPassword",
            "dbpassword",
            "user-passwd",
            "smtp.pwd",
            "token",
            "github.tokens",
            "refreshToken",
            "api_key",
            "apiKey",
            "APIKEY",
            "tls.private-key",
            "key",
            "aws.credentials",
            "client_secret",
            "Secrets",
            "basic.auth",
            "db.dsn",
            "db.pass",
            "aws/access.key",
        ] {
            assert!(looks_secret(key), "{key}");
        }
        for key in
            ["", "monkey", "compass.north", "author", "keyspace", "db.host", "passenger", "authority", "ping"]
        {
            assert!(!looks_secret(key), "{key}");
        }
    }

    #[test]
    fn values_that_give_a_secret_away_are_known() {
        for value in [
            "redis://:hunter2@host/0",
            "see postgres://app:hunter2@db:5432/x for more",
            "http://a/ mysql://u:p@h",
            "-----BEGIN PRIVATE KEY-----\nMIIE",
            "-----BEGIN RSA PRIVATE KEY-----",
        ] {
            assert!(holds_secret(value), "{value}");
        }
        for value in ["", "http://host:80/a@b:c", "http://user@host", "http://user:@host", "://", "a@b:c"] {
            assert!(!holds_secret(value), "{value}");
        }
    }

    #[test]
    fn what_is_shown_has_no_secret_and_all_else() {
        for content in [
            Content::items([("db.password", "hunter2"), ("host", "10.0.0.1"), ("url", "x://u:hunter2@h")]),
            Content::document(
                Format::Json,
                r#"{"host": "10.0.0.1", "tokens": ["hunter2", {"a": "hunter2"}]}"#,
            ),
            Content::document(Format::Yaml, "host: 10.0.0.1\npassword: |\n  hunter2\n  hunter2\n"),
            Content::document(Format::Toml, "host = '10.0.0.1'\n[db]\npassword = 'hunter2'\nkey = 22"),
            Content::document(
                Format::Text,
                "host=10.0.0.1\nPASSWORD=hunter2=\ntoken: hunter2\nsee x://u:hunter2@h",
            ),
            Content::document(Format::Json, "{\"host\": 10.0.0.1\n\"password\": \"hunter2\""),
        ] {
            let shown = text(&mask_content(&content));
            assert!(!shown.contains("hunter2") && shown.contains(MASK), "{shown}");
            assert!(shown.contains("10.0.0.1"), "{shown}");
        }
        for content in [
            Content::items([("password", ""), ("a", "b")]),
            Content::document(Format::Toml, "# kept\nhost = 1 # too"),
            Content::document(Format::Text, "a: b\n\npassword:\n"),
        ] {
            assert_eq!(mask_content(&content), content, "nothing to hide");
        }
    }

    fn text(content: &Content) -> String {
        match content {
            Content::Items(items) => format!("{items:?}"),
            Content::Document { text, .. } => text.clone(),
        }
    }
}
