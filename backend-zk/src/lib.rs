//! coord over Apache ZooKeeper.
