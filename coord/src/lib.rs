//! Distributed coordination behind one API: locks over ZooKeeper, etcd, Redis or memory.
