//! A resource outside the store, such as a disk or another service.

use coord::{Fence, FencingToken, Result};

/// Keeps a number, and sets it for whoever asks; with a fence, for nobody from the past.
pub(crate) struct Warehouse {
    fence: Option<Fence>,
    pub(crate) stock: u32,
}

impl Warehouse {
    pub(crate) const fn trusting() -> Self {
        Self { fence: None, stock: 10 }
    }

    pub(crate) fn fenced() -> Self {
        Self { fence: Some(Fence::default()), stock: 10 }
    }

    /// The same request for both. Only one of them looks at the token.
    pub(crate) fn set(&mut self, stock: u32, token: FencingToken) -> Result<()> {
        let mut set = || self.stock = stock;
        match &self.fence {
            None => set(),
            Some(fence) => fence.admit(token, set)?,
        }
        Ok(())
    }
}
