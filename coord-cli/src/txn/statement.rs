//! One check or write, as text or as JSON.

use base64::{Engine, prelude::BASE64_STANDARD};
use coord::{Check, Key, Lifetime, Op, Revision, Version};
use serde_json::{Map, Value};

/// A check or a write.
#[derive(Debug)]
pub(super) struct Statement {
    /// Its line of standard input, or its number among the arguments.
    pub(super) at: usize,
    word: &'static str,
    pub(super) action: Action,
}

/// What a statement does.
#[derive(Debug)]
pub(super) enum Action {
    Check(Check),
    Write(Op),
}

/// The words that a statement may begin with, and what follows the key.
const WORDS: [(&str, Rest); 8] = [
    ("absent", Rest::Nothing),
    ("exists", Rest::Nothing),
    ("version", Rest::Number),
    ("created", Rest::Number),
    ("create", Rest::Value),
    ("update", Rest::Value),
    ("put", Rest::Value),
    ("delete", Rest::Nothing),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Nothing,
    Number,
    Value,
}

impl Statement {
    /// Reads `WORD KEY REST`, or `{"WORD": KEY, "value": …}` with `"number"` for the two checks that have one.
    pub(super) fn parse(at: usize, text: &str) -> Result<Self, String> {
        let (word, action) =
            if text.trim_start().starts_with('{') { from_json(text) } else { from_text(text) }?;
        Ok(Self { at, word, action })
    }

    pub(super) const fn word(&self) -> &'static str {
        self.word
    }

    pub(super) fn key(&self) -> &str {
        match &self.action {
            Action::Check(check) => check.key().as_str(),
            Action::Write(op) => op.key().as_str(),
        }
    }

    /// The statement without its value, which may be a secret.
    pub(super) fn short(&self) -> String {
        match &self.action {
            Action::Check(Check::Version(key, version)) => format!("version {key} {version}"),
            Action::Check(Check::Created(key, revision)) => format!("created {key} {revision}"),
            _ => format!("{} {}", self.word, self.key()),
        }
    }

    /// What it means that this one did not hold.
    pub(super) const fn refusal(&self) -> &'static str {
        match &self.action {
            Action::Check(Check::Absent(_)) | Action::Write(Op::Create { .. }) => "the key is there",
            Action::Check(Check::Version(..)) => "the key is absent, or in another version",
            Action::Check(Check::Created(..)) => "the key is absent, or was created by another revision",
            _ => "the key is absent",
        }
    }
}

fn from_text(text: &str) -> Result<(&'static str, Action), String> {
    let (word, after) = text.trim_start().split_once(' ').unwrap_or((text.trim(), ""));
    let (word, rest) = known(word)?;
    let (key, after) = after.trim_start().split_once(' ').unwrap_or((after.trim(), ""));
    let number = || {
        let number = after.trim().parse::<u64>();
        number.map_err(|_| format!("{word} KEY N needs a whole number behind the key, not {after:?}"))
    };
    match rest {
        Rest::Nothing if !after.trim().is_empty() => {
            Err(format!("{word} KEY takes nothing behind the key; a key with a space is given in JSON"))
        }
        Rest::Nothing => action(word, key, 0, Vec::new()),
        Rest::Number => action(word, key, number()?, Vec::new()),
        // As it is, spaces included: only one stands between key and value.
        Rest::Value => action(word, key, 0, after.as_bytes().to_vec()),
    }
}

fn from_json(text: &str) -> Result<(&'static str, Action), String> {
    let form = || {
        r#"in JSON a statement is {"put": "/key", "value": "text"}, {"version": "/key", "number": 7} or the like"#
            .to_owned()
    };
    let mut object: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let number = object.remove("number");
    let value = object.remove("value");
    let mut rest = object.into_iter();
    let (Some((word, Value::String(key))), None) = (rest.next(), rest.next()) else { return Err(form()) };
    let (word, takes) = known(&word)?;
    match (takes, number, value) {
        (Rest::Nothing, None, None) => action(word, &key, 0, Vec::new()),
        (Rest::Number, Some(number), None) => {
            action(word, &key, number.as_u64().ok_or_else(form)?, Vec::new())
        }
        (Rest::Value, None, Some(value)) => action(word, &key, 0, bytes(&value).ok_or_else(form)?),
        _ => Err(form()),
    }
}

fn action(
    word: &'static str,
    key: &str,
    number: u64,
    value: Vec<u8>,
) -> Result<(&'static str, Action), String> {
    let key = Key::parse(key).map_err(|error| error.to_string())?;
    let action = match word {
        "absent" => Action::Check(Check::Absent(key)),
        "exists" => Action::Check(Check::Exists(key)),
        "version" => Action::Check(Check::Version(key, Version::new(number))),
        "created" => Action::Check(Check::Created(key, Revision::new(number))),
        "create" => Action::Write(Op::Create { key, value: value.into(), lifetime: Lifetime::Persistent }),
        "update" => Action::Write(Op::Update { key, value: value.into() }),
        "put" => Action::Write(Op::Put { key, value: value.into() }),
        _ => Action::Write(Op::Delete { key }),
    };
    Ok((word, action))
}

fn known(word: &str) -> Result<(&'static str, Rest), String> {
    WORDS.into_iter().find(|(known, _)| *known == word).ok_or_else(|| {
        let words = WORDS.map(|(word, _)| word).join(", ");
        format!("unknown word {word:?}; a statement begins with one of {words}")
    })
}

/// The bytes of a value as `get -o json` writes it.
fn bytes(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Object(object) if object.len() == 1 => {
            BASE64_STANDARD.decode(object.get("base64")?.as_str()?).ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Vec<u8> {
        match Statement::parse(1, text).unwrap().action {
            Action::Write(op) => op.value().to_vec(),
            Action::Check(check) => panic!("{check:?}"),
        }
    }

    #[test]
    fn a_value_is_the_rest_of_the_line_as_it_is() {
        assert_eq!(value("put /a  two  words "), b" two  words ");
        assert_eq!(value("create /a"), b"");
        assert_eq!(value(r#"{"put": "/a b", "value": "x\ny"}"#), b"x\ny");
        assert_eq!(value(r#"{"update": "/a", "value": {"base64": "/wA="}}"#), [0xff, 0]);
    }

    #[test]
    fn what_is_no_statement_is_told_with_the_reason() {
        for (text, part) in [
            ("gone /a", "unknown word \"gone\""),
            ("absent /a b", "in JSON"),
            ("absent", "at least one segment"),
            ("version /a", "whole number"),
            ("version /a -1", "whole number"),
            ("put /a//b x", "segment"),
            ("{", "not JSON"),
            (r#"{"put": "/a"}"#, "in JSON a statement is"),
            (r#"{"put": "/a", "value": 7}"#, "in JSON a statement is"),
            (r#"{"absent": "/a", "value": "x"}"#, "in JSON a statement is"),
            (r#"{"put": "/a", "create": "/b", "value": ""}"#, "in JSON a statement is"),
            (r#"{"version": "/a", "number": 1.5}"#, "in JSON a statement is"),
        ] {
            let why = Statement::parse(1, text).expect_err(text);
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}
