//! The in-memory store: the reference backend, and the strictest.
