//! What leads from one content to another.

use std::{collections::BTreeSet, fmt, time::Duration};

use similar::{ChangeTag, TextDiff};

use crate::model::Content;

/// For how long a short way from one text to another is searched; then a longer one will do.
const SEARCH: Duration = Duration::from_millis(200);

/// What leads from one content to another. `Debug` shows no value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Diff {
    /// Both are items: those that differ, in order.
    Items(Vec<ItemDiff>),
    /// Both are documents: all lines of both, in order.
    Lines(Vec<LineDiff>),
    /// One is items and the other a document.
    Kind {
        /// What it was: `items`, or the format of the document.
        from: &'static str,
        /// What it is.
        to: &'static str,
    },
}

/// An item that differs.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ItemDiff {
    /// Its key.
    pub key: String,
    /// Its value before; `None` if it is new.
    pub before: Option<String>,
    /// Its value after; `None` if it is gone.
    pub after: Option<String>,
}

/// A line of one document or of both.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LineDiff {
    /// Which of them has it.
    pub side: Side,
    /// The line, with its line feed if it has one.
    pub text: String,
}

/// Which of two documents has a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Only the one before.
    Before,
    /// Only the one after.
    After,
    /// Both.
    Both,
}

impl Diff {
    /// What leads from `before` to `after`.
    ///
    /// ```
    /// # use coord_config_centre::{Content, Diff};
    /// let before = Content::items([("host", "a"), ("port", "1")]);
    /// let after = Content::items([("host", "a"), ("port", "2"), ("user", "")]);
    /// let Diff::Items(items) = Diff::between(&before, &after) else { unreachable!("both are items") };
    /// let keys: Vec<_> = items.iter().map(|item| item.key.as_str()).collect();
    /// assert_eq!(keys, ["port", "user"]);
    /// assert_eq!((items[1].before.as_deref(), items[1].after.as_deref()), (None, Some("")));
    /// ```
    #[must_use]
    pub fn between(before: &Content, after: &Content) -> Self {
        match (before, after) {
            (Content::Items(one), Content::Items(other)) => {
                let keys: BTreeSet<_> = one.keys().chain(other.keys()).collect();
                let both = keys.into_iter().map(|key| ItemDiff {
                    key: key.clone(),
                    before: one.get(key).cloned(),
                    after: other.get(key).cloned(),
                });
                Self::Items(both.filter(|item| item.before != item.after).collect())
            }
            (Content::Document { text: one, .. }, Content::Document { text: other, .. }) => {
                let diff = TextDiff::configure().timeout(SEARCH).diff_lines(one, other);
                let lines = diff.iter_all_changes().map(|change| LineDiff {
                    side: match change.tag() {
                        ChangeTag::Delete => Side::Before,
                        ChangeTag::Insert => Side::After,
                        ChangeTag::Equal => Side::Both,
                    },
                    text: change.value().to_owned(),
                });
                Self::Lines(lines.collect())
            }
            (before, after) => Self::Kind { from: before.kind(), to: after.kind() },
        }
    }

    /// Whether nothing differs. The format of a document is part of its content, and not of this.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Items(items) => items.is_empty(),
            Self::Lines(lines) => lines.iter().all(|line| line.side == Side::Both),
            Self::Kind { .. } => false,
        }
    }
}

impl fmt::Debug for ItemDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |value: &Option<String>| value.as_ref().map(String::len);
        f.debug_struct("ItemDiff")
            .field("key", &self.key)
            .field("bytes_before", &bytes(&self.before))
            .field("bytes_after", &bytes(&self.after))
            .finish()
    }
}

impl fmt::Debug for LineDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({} bytes)", self.side, self.text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;

    #[test]
    fn lines_of_documents_are_told_by_side() {
        let document = |text: &str| Content::document(Format::Text, text);
        let (before, after) = (document("a\nb\nc"), document("a\nx\nc"));
        let Diff::Lines(lines) = Diff::between(&before, &after) else { panic!("both are documents") };
        let told: Vec<_> = lines.iter().map(|line| (line.side, line.text.as_str())).collect();
        let expected = [(Side::Both, "a\n"), (Side::Before, "b\n"), (Side::After, "x\n"), (Side::Both, "c")];
        assert_eq!(told, expected);
        assert!(Diff::between(&before, &before).is_empty());
    }

    #[test]
    fn an_empty_value_is_not_a_missing_one() {
        let (empty, missing) = (Content::items([("a", "")]), Content::items::<&str, &str>([]));
        assert!(!Diff::between(&empty, &missing).is_empty());
        let kinds = Diff::between(&empty, &Content::document(Format::Json, "1"));
        assert_eq!(kinds, Diff::Kind { from: "items", to: "json" });
    }
}
