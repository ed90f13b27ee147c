//! A process that stands still.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use coord_api::kit::Gate;

/// While it is shut, no task of the client is polled: clocks run on, timers fire late, replies pile up.
#[derive(Debug, Default)]
pub(crate) struct Pause(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    shut: bool,
    /// In the order in which they came to the gate, so that runs repeat.
    standing: Vec<Waker>,
}

impl Pause {
    pub(crate) fn shut(&self) {
        self.lock().shut = true;
    }

    pub(crate) fn open(&self) {
        let standing = {
            let mut state = self.lock();
            state.shut = false;
            std::mem::take(&mut state.standing)
        };
        for task in standing {
            task.wake();
        }
    }

    pub(crate) fn is_shut(&self) -> bool {
        self.lock().shut
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate for Pause {
    fn poll_open(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if !state.shut {
            return Poll::Ready(());
        }
        if !state.standing.iter().any(|task| task.will_wake(cx.waker())) {
            state.standing.push(cx.waker().clone());
        }
        Poll::Pending
    }
}
