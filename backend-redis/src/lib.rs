//! coord over Redis and Valkey.
