//! Text that never prints.

use std::fmt;

/// A password or the like: it has no `Display`, and its `Debug` shows nothing of it.
///
/// ```
/// let secret = coord_api::Secret::new("hunter2");
/// assert_eq!(format!("{secret:?}"), "***");
/// assert_eq!(secret.expose(), "hunter2");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Hides `text`.
    #[must_use]
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The text, for handing to a driver and for nothing else.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
