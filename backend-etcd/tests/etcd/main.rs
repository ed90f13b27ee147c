//! The backend against real servers.

#[macro_use]
mod support;
mod connect;
mod lines;
mod sessions;
mod keys;
mod txns;
