//! What a rule gives instead of the main release.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Serialize};

use crate::model::{Content, ReleaseRef};

/// What a gray rule gives instead of the main release. `Debug` shows no value.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Alternative {
    /// The main release with these changes, whatever the main release is: a new one shows through.
    Items {
        /// Items that have another value, or are there besides.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        set: BTreeMap<String, String>,
        /// Items that are not there.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        remove: BTreeSet<String>,
    },
    /// Another release, whole.
    Release(ReleaseRef),
}

impl Alternative {
    /// Whether it can stand in for a main release that holds this.
    pub(crate) const fn fits(&self, main: &Content) -> bool {
        matches!(
            (self, main),
            (Self::Items { .. }, Content::Items(_)) | (Self::Release(_), Content::Document { .. })
        )
    }

    /// The release that it points at, if it does.
    pub(crate) const fn release(&self) -> Option<&ReleaseRef> {
        match self {
            Self::Release(release) => Some(release),
            Self::Items { .. } => None,
        }
    }

    /// The content with the changes; unchanged by a [`Release`](Alternative::Release), which is content of its own.
    pub(crate) fn over(&self, content: &Content) -> Content {
        match (self, content) {
            (Self::Items { set, remove }, Content::Items(items)) => {
                let mut items = items.clone();
                items.retain(|key, _| !remove.contains(key));
                items.extend(set.clone());
                Content::Items(items)
            }
            _ => content.clone(),
        }
    }
}

impl fmt::Debug for Alternative {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Items { set, remove } => {
                let set = Content::Items(set.clone());
                f.debug_struct("Items").field("set", &set).field("remove", remove).finish()
            }
            Self::Release(release) => f.debug_tuple("Release").field(release).finish(),
        }
    }
}
