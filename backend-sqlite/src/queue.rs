//! From any task to one thread: a queue that never blocks whoever adds to it.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// What waits for one thread of a handle.
#[derive(Debug)]
pub(crate) struct Queue<J> {
    state: Mutex<State<J>>,
    ready: Condvar,
}

#[derive(Debug)]
struct State<J> {
    jobs: VecDeque<J>,
    nudged: bool,
    closed: bool,
    held: bool,
}

/// What the thread does next.
#[derive(Debug)]
pub(crate) enum Turn<J> {
    /// Work, or a look around if there is none.
    Go(Vec<J>),
    /// Everything is done, and nothing more will come.
    Closed,
}

impl<J> Queue<J> {
    pub(crate) const fn new() -> Self {
        let state = State { jobs: VecDeque::new(), nudged: false, closed: false, held: false };
        Self { state: Mutex::new(state), ready: Condvar::new() }
    }

    /// Adds a job. Once the queue is closed the job is dropped, which its caller sees.
    pub(crate) fn push(&self, job: J) {
        let mut state = self.lock();
        if !state.closed {
            state.jobs.push_back(job);
            drop(state);
            self.ready.notify_one();
        }
    }

    /// Lets the thread look around.
    pub(crate) fn nudge(&self) {
        self.lock().nudged = true;
        self.ready.notify_one();
    }

    /// No more jobs; those that are there are done.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.ready.notify_one();
    }

    /// Whether jobs wait although the thread has time, for tests that cut a handle off.
    #[cfg(feature = "faults")]
    pub(crate) fn hold(&self, held: bool) {
        self.lock().held = held;
        self.ready.notify_one();
    }

    /// Waits for jobs, a nudge, or the end of `timeout`, and takes up to `most` jobs.
    pub(crate) fn take(&self, timeout: Option<Duration>, most: usize) -> Turn<J> {
        let idle =
            |state: &mut State<J>| !state.closed && (state.held || (state.jobs.is_empty() && !state.nudged));
        let mut state = self.lock();
        loop {
            state = match timeout {
                None => self.ready.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner),
                Some(timeout) => {
                    let waited = self.ready.wait_timeout_while(state, timeout, idle);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            if !state.held || state.closed {
                break;
            }
        }
        if state.closed && state.jobs.is_empty() {
            return Turn::Closed;
        }
        state.nudged = false;
        let count = state.jobs.len().min(most);
        Turn::Go(state.jobs.drain(..count).collect())
    }

    /// Takes what came meanwhile, at most `most`, after a pause that ends early when something comes.
    pub(crate) fn pause(&self, pause: Duration, most: usize) -> Vec<J> {
        let idle = |state: &mut State<J>| state.jobs.is_empty() && !state.closed;
        let waited = self.ready.wait_timeout_while(self.lock(), pause, idle);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        let count = state.jobs.len().min(most);
        state.jobs.drain(..count).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Option<Duration> = Some(Duration::from_millis(1));

    fn jobs(turn: Turn<u8>) -> Option<Vec<u8>> {
        match turn {
            Turn::Go(jobs) => Some(jobs),
            Turn::Closed => None,
        }
    }

    #[test]
    fn jobs_are_taken_in_order_and_what_is_there_is_done_before_the_end() {
        let queue = Queue::new();
        for job in 0..5 {
            queue.push(job);
        }
        assert_eq!(jobs(queue.take(None, 3)), Some(vec![0, 1, 2]));
        queue.close();
        queue.push(9);
        assert_eq!(jobs(queue.take(None, 3)), Some(vec![3, 4]));
        assert_eq!(jobs(queue.take(None, 3)), None);
    }

    #[test]
    fn a_nudge_and_a_timeout_are_a_look_around() {
        let queue = Queue::<u8>::new();
        queue.nudge();
        assert_eq!(jobs(queue.take(None, 1)), Some(vec![]));
        assert_eq!(jobs(queue.take(SOON, 1)), Some(vec![]));
    }
}
