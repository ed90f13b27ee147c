//! The backend against real servers.

#[macro_use]
mod support;
mod clusters;
mod connect;
mod keys;
mod lines;
mod sessions;
mod trouble;
mod txns;
mod view;
mod watches;
