//! Servers in containers.
