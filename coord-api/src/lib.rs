//! The contract of coord: keys, transactions, watches, sessions, errors and the Backend trait.
