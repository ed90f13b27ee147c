//! The conformance suite: one promise a function, on every backend.
