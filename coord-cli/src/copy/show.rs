//! What a copy did.

use coord::{Key, SessionId};
use serde_json::{Value, json};

use super::CopyArgs;
use crate::{
    Failure, Format,
    exit::say,
    output::{Output, printable_text},
    walk::Found,
};

/// A key that is not copied.
#[derive(Debug)]
pub(super) struct LeftOut {
    pub(super) key: Key,
    pub(super) why: &'static str,
    pub(super) owner: Option<SessionId>,
}

impl LeftOut {
    pub(super) fn new(key: Key, found: Found) -> Self {
        let why = if found.owner.is_some() {
            "ephemeral: it goes with its session"
        } else if found.place {
            "a place in a line, whose name and order only its store can give"
        } else {
            "its name is not one that every store takes"
        };
        Self { key, why, owner: found.owner }
    }
}

/// What was copied, or would be.
#[derive(Debug)]
pub(super) struct Summary {
    from: String,
    to: String,
    dry_run: bool,
    pub(super) keys: usize,
    pub(super) bytes: u64,
    pub(super) left_out: Vec<LeftOut>,
    pub(super) digest: Option<String>,
    pub(super) differs: Vec<Key>,
}

impl Summary {
    pub(super) fn new(args: &CopyArgs) -> Self {
        Self {
            from: args.from.to_string(),
            to: args.to.to_string(),
            dry_run: args.dry_run,
            keys: 0,
            bytes: 0,
            left_out: Vec::new(),
            digest: None,
            differs: Vec::new(),
        }
    }

    pub(super) fn show(&self, out: &mut Output<'_>) -> Result<(), Failure> {
        if matches!(out.format(), Format::Json | Format::Jsonl) {
            return Ok(out.json(&self.json())?);
        }
        for LeftOut { key, why, .. } in &self.left_out {
            say(&format!("left out: {}: {why}", printable_text(key.as_str())));
        }
        for key in &self.differs {
            say(&format!("differs: {}", printable_text(key.as_str())));
        }
        let mut rows = vec![
            ["from", &self.from].map(printable_text).to_vec(),
            ["to", &self.to].map(printable_text).to_vec(),
            vec![self.title().to_owned(), format!("{} keys, {} bytes", self.keys, self.bytes)],
            vec!["left out".to_owned(), format!("{} keys", self.left_out.len())],
        ];
        if let Some(digest) = &self.digest {
            let verdict = match self.differs.len() {
                0 => format!("same on both sides, sha256 {digest}"),
                count => format!("{count} keys differ"),
            };
            rows.push(vec!["compared".to_owned(), verdict]);
        }
        Ok(out.table(&rows)?)
    }

    const fn title(&self) -> &'static str {
        if self.dry_run { "would copy" } else { "copied" }
    }

    fn json(&self) -> Value {
        let left_out = |LeftOut { key, why, owner }: &LeftOut| json!({ "key": key.as_str(), "why": why, "session": owner.as_ref().map(SessionId::as_str) });
        json!({
            "from": self.from,
            "to": self.to,
            "dry_run": self.dry_run,
            "keys": self.keys,
            "bytes": self.bytes,
            "left_out": self.left_out.iter().map(left_out).collect::<Vec<_>>(),
            "sha256": self.digest,
            "differs": self.differs.iter().map(Key::as_str).collect::<Vec<_>>(),
        })
    }
}
