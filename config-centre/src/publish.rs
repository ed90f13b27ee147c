//! Publishing, and what every change of a namespace has in common.

use coord_api::{Error, ErrorKind, Key, Result};

use crate::{
    Namespace,
    change::Intent,
    model::{Content, Generation, Head, Provenance},
};

/// Who changes a namespace, why, and what they expect to find.
///
/// ```
/// # use coord_config_centre::{Edit, Generation};
/// let edit = Edit::by("ann").note("the new database").expecting(Generation::new(7));
/// ```
#[derive(Clone, Debug)]
#[must_use = "an edit does nothing until it is used"]
pub struct Edit {
    pub(crate) by: String,
    pub(crate) note: String,
    pub(crate) expected: Expected,
}

/// What a change expects to find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expected {
    /// Whatever is there. What others do at the same moment is taken up, not undone: their gray rules stay.
    #[default]
    Anything,
    /// Nothing was published yet.
    Nothing,
    /// This generation.
    Generation(Generation),
}

impl From<Generation> for Expected {
    fn from(generation: Generation) -> Self {
        Self::Generation(generation)
    }
}

impl Expected {
    pub(crate) fn allows(self, found: Option<&Head>) -> bool {
        match self {
            Self::Anything => true,
            Self::Nothing => found.is_none(),
            Self::Generation(generation) => found.is_some_and(|head| head.generation == generation),
        }
    }
}

impl Edit {
    /// By this author, without a note, expecting anything.
    pub fn by(author: impl Into<String>) -> Self {
        Self { by: author.into(), note: String::new(), expected: Expected::Anything }
    }

    /// The same with a note.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// The same, refused unless this is what is there: a [`Generation`], or [`Expected::Nothing`].
    pub fn expecting(mut self, expected: impl Into<Expected>) -> Self {
        self.expected = expected.into();
        self
    }

    pub(crate) fn provenance(&self) -> Provenance {
        Provenance::now(&self.by, &self.note)
    }
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the change may have been refused"]
#[non_exhaustive]
pub enum Edited {
    /// It is made: this is the new head.
    Done(Head),
    /// It is so already: this is the head, and nothing was written.
    Unchanged(Head),
    /// Something else was found than expected. Nothing was written.
    Conflict(Conflict),
}

impl Edited {
    /// The head that the change asks for, made now or there before.
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict), with the current generation and its author.
    pub fn done(self) -> Result<Head> {
        match self {
            Self::Done(head) | Self::Unchanged(head) => Ok(head),
            Self::Conflict(conflict) => Err(conflict.into()),
        }
    }
}

/// Why a change was refused: this is there instead of what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conflict {
    /// The key of the head.
    pub key: Key,
    /// What was expected.
    pub expected: Expected,
    /// The head that is there; `None` if nothing was published.
    pub current: Option<Head>,
}

impl From<Conflict> for Error {
    fn from(conflict: Conflict) -> Self {
        let error = Self::new(ErrorKind::Conflict, "somebody else changed the namespace first")
            .with_context("key", &conflict.key);
        let error = match conflict.expected {
            Expected::Anything => error,
            Expected::Nothing => error.with_context("expected", "nothing"),
            Expected::Generation(generation) => error.with_context("expected", generation),
        };
        match conflict.current {
            Some(head) => error
                .with_context("current", head.generation)
                .with_context("by", &head.made.by)
                .with_context("at", head.made.at),
            None => error.with_context("current", "nothing"),
        }
    }
}

impl Namespace {
    /// Makes `content` the main release, all of it at once.
    ///
    /// Consumers see the release whole or not at all. Gray rules stay; those over items show through. If the main
    /// release holds this very content already, nothing is written and the answer is [`Edited::Unchanged`]: a deployment
    /// that publishes each time it runs makes no generations of nothing.
    ///
    /// Costs one round trip if this namespace handle has seen the current head, for example because it made it, and one
    /// more if not. If the reply is lost, the store is asked whether the release is there: it is never published twice,
    /// and one that is there is no error.
    ///
    /// ```
    /// # coord_backend_memory::doc_example(async |store| {
    /// use coord_config_centre::{ConfigCentre, Content, Edit, Edited};
    ///
    /// let billing = ConfigCentre::new(&store, "/config")?.namespace("billing")?;
    /// let first = billing.publish(Content::items([("rate", "100")]), &Edit::by("ann")).await?.done()?;
    ///
    /// // Two edit what they have both seen: the second is told.
    /// let edit = Edit::by("ben").expecting(first.generation);
    /// assert!(matches!(billing.publish(Content::items([("rate", "200")]), &edit).await?, Edited::Done(_)));
    /// let edit = Edit::by("eve").expecting(first.generation);
    /// match billing.publish(Content::items([("rate", "300")]), &edit).await? {
    ///     Edited::Conflict(conflict) => assert_eq!(conflict.current.expect("a head").made.by, "ben"),
    ///     other => panic!("{other:?}"),
    /// }
    /// assert_eq!(billing.get("rate").await?.as_deref(), Some("200"));
    /// # Ok(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if the content is malformed, or if gray rules are in the way of
    /// publishing a document where there were items, or the other way round;
    /// [`LimitExceeded`](ErrorKind::LimitExceeded) with the limit; [`Malformed`](ErrorKind::Malformed) with the key of
    /// what others wrote where our keys are; as [`Coord::commit`](coord_api::Coord::commit). It is ambiguous only if the
    /// store could not be asked for as long as our [patience](crate::ConfigCentre::with_patience) lasts.
    ///
    /// # Cancel safety
    /// If the future is dropped once it was polled, the change goes on in the background, to its end.
    pub async fn publish(&self, content: Content, edit: &Edit) -> Result<Edited> {
        self.change(Intent::Publish(content), edit).await
    }
}
