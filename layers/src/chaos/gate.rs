//! Replies that wait.

use tokio::sync::watch;

/// Holds the reply of one call: the call was applied, the caller does not know yet.
///
/// Dropping the gate opens it.
#[derive(Debug)]
pub struct Gate {
    open: watch::Sender<bool>,
    landed: watch::Receiver<bool>,
}

/// The side of the call.
#[derive(Debug)]
pub(super) struct Held {
    open: watch::Receiver<bool>,
    landed: watch::Sender<bool>,
}

pub(super) fn gate() -> (Gate, Held) {
    let (open, opened) = watch::channel(false);
    let (lands, landed) = watch::channel(false);
    (Gate { open, landed }, Held { open: opened, landed: lands })
}

impl Gate {
    /// Resolves once the store has applied the call and its reply waits here.
    ///
    /// `false` if the call was dropped before that.
    ///
    /// # Cancel safety
    /// Safe: nothing is consumed.
    pub async fn landed(&self) -> bool {
        self.landed.clone().wait_for(|landed| *landed).await.is_ok()
    }

    /// Lets the reply through.
    pub fn open(&self) {
        self.open.send_replace(true);
    }
}

impl Held {
    pub(super) async fn hold(mut self) {
        self.landed.send_replace(true);
        // An error means that the gate was dropped.
        let _ = self.open.wait_for(|open| *open).await;
    }
}
