//! coord over etcd.
