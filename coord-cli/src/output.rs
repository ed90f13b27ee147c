//! How data is written.

use std::io::{self, IsTerminal, Write};

use base64::{Engine, prelude::BASE64_STANDARD};
use clap::ValueEnum;
use coord::{Entry, Meta};
use serde_json::{Map, Value, json};

/// How data is written to standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table on a terminal, plain text elsewhere; `watch` writes jsonl
    #[default]
    Auto,
    /// Columns for people
    Table,
    /// One indented JSON document
    Json,
    /// One JSON object a line
    Jsonl,
    /// Only the data: values as they are, one name a line
    Plain,
}

/// Where data goes, and how.
pub(crate) struct Output<'w> {
    out: &'w mut (dyn Write + Send),
    format: Format,
}

impl<'w> Output<'w> {
    pub(crate) fn new(out: &'w mut (dyn Write + Send), format: Format) -> Self {
        Self { out, format }
    }

    /// The format, with `auto` decided.
    pub(crate) fn format(&self) -> Format {
        match self.format {
            Format::Auto if io::stdout().is_terminal() => Format::Table,
            Format::Auto => Format::Plain,
            format => format,
        }
    }

    /// The same for what never ends.
    pub(crate) fn streaming_format(&self) -> Format {
        match self.format {
            Format::Auto | Format::Json => Format::Jsonl,
            format => format,
        }
    }

    /// One document: indented as json, in one line as jsonl.
    pub(crate) fn json(&mut self, value: &Value) -> io::Result<()> {
        let text = if self.format() == Format::Json { format!("{value:#}") } else { value.to_string() };
        self.line(&text)
    }

    /// One line, out at once.
    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{text}")?;
        self.out.flush()
    }

    /// Bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.out.flush()
    }

    /// Rows in columns as wide as their widest cell; the last column ends where its text does.
    pub(crate) fn table(&mut self, rows: &[Vec<String>]) -> io::Result<()> {
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |at: usize| {
            rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in rows {
            let mut text = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                text.push_str(cell);
                let pad = width - cell.chars().count() + 2;
                text.extend(std::iter::repeat_n(' ', pad));
            }
            writeln!(self.out, "{}", text.trim_end())?;
        }
        self.out.flush()
    }
}

/// A value as JSON: text when it is UTF-8, and `{"base64": …}` when it is not.
pub(crate) fn value(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(_) => json!({ "base64": BASE64_STANDARD.encode(bytes) }),
    }
}

/// A value for people: text without control characters, or its base64.
pub(crate) fn printable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        // A value written by others must not draw on the terminal.
        Ok(text) => printable_text(text),
        Err(_) => format!("base64:{}", BASE64_STANDARD.encode(bytes)),
    }
}

/// Text for people: control characters are escaped.
pub(crate) fn printable_text(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

/// An entry as JSON.
pub(crate) fn entry(entry: &Entry) -> Map<String, Value> {
    let Meta { created, modified, version, owner, .. } = &entry.meta;
    let mut map = Map::new();
    map.insert("key".into(), json!(entry.key.as_str()));
    map.insert("value".into(), value(&entry.value));
    map.insert("created".into(), json!(created.get()));
    map.insert("modified".into(), json!(modified.get()));
    map.insert("version".into(), json!(version.get()));
    map.insert("owner".into(), json!(owner.as_ref().map(coord::SessionId::as_str)));
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text_and_bytes_become_base64() {
        assert_eq!(value(b"a\"b\n"), json!("a\"b\n"));
        assert_eq!(value(&[0xff, 0]), json!({ "base64": "/wA=" }));
        assert_eq!(printable(b"a\x1b[2J\n"), "a\\u{1b}[2J\\n");
        assert_eq!(printable(&[0xff]), "base64:/w==");
    }

    #[test]
    fn columns_align() {
        let mut out = Vec::new();
        let rows = [vec!["a".to_owned(), "1".to_owned()], vec!["long".to_owned(), "two words".to_owned()]];
        Output::new(&mut out, Format::Table).table(&rows).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a     1\nlong  two words\n");
    }
}
