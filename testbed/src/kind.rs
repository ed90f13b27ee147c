//! The kinds of server the tests know.

use std::fmt;

use crate::Framing;

/// A kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// ZooKeeper, the current line (3.9).
    ZooKeeper,
    /// ZooKeeper 3.8, whose watches behave differently from 3.9's.
    ZooKeeper38,
    /// etcd 3.5.
    Etcd,
    /// Redis 8.
    Redis,
    /// Valkey 8.
    Valkey,
}

impl Kind {
    /// Every kind, in the order of reports.
    pub const ALL: [Kind; 5] = [Kind::ZooKeeper, Kind::ZooKeeper38, Kind::Etcd, Kind::Redis, Kind::Valkey];

    /// The name in reports and file names: `zookeeper`, `zookeeper38`, `etcd`, `redis`, `valkey`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::ZooKeeper => "zookeeper",
            Kind::ZooKeeper38 => "zookeeper38",
            Kind::Etcd => "etcd",
            Kind::Redis => "redis",
            Kind::Valkey => "valkey",
        }
    }

    /// The environment variable that says where servers of this kind come from.
    pub fn variable(self) -> &'static str {
        match self {
            Kind::ZooKeeper => "COORD_TEST_ZK",
            Kind::ZooKeeper38 => "COORD_TEST_ZK38",
            Kind::Etcd => "COORD_TEST_ETCD",
            Kind::Redis => "COORD_TEST_REDIS",
            Kind::Valkey => "COORD_TEST_VALKEY",
        }
    }

    /// The environment variable that overrides the container image.
    pub fn image_variable(self) -> &'static str {
        match self {
            Kind::ZooKeeper => "COORD_TEST_ZK_IMAGE",
            Kind::ZooKeeper38 => "COORD_TEST_ZK38_IMAGE",
            Kind::Etcd => "COORD_TEST_ETCD_IMAGE",
            Kind::Redis => "COORD_TEST_REDIS_IMAGE",
            Kind::Valkey => "COORD_TEST_VALKEY_IMAGE",
        }
    }

    /// The published image of this kind, used unless the variable names another.
    pub fn default_image(self) -> &'static str {
        match self {
            Kind::ZooKeeper => "zookeeper:3.9",
            Kind::ZooKeeper38 => "zookeeper:3.8",
            Kind::Etcd => "quay.io/coreos/etcd:v3.5.16",
            Kind::Redis => "redis:8",
            Kind::Valkey => "valkey/valkey:8",
        }
    }

    /// The program that is the server, as `scripts/fetch-servers.sh` names it.
    pub fn binary(self) -> &'static str {
        match self {
            Kind::ZooKeeper => "zk-server",
            Kind::ZooKeeper38 => "zk-server-3.8",
            Kind::Etcd => "etcd",
            Kind::Redis => "redis-server",
            Kind::Valkey => "valkey-server",
        }
    }

    /// The scheme of a URL to a server of this kind: `zk`, `etcd` or `redis`.
    pub fn scheme(self) -> &'static str {
        match self {
            Kind::ZooKeeper | Kind::ZooKeeper38 => "zk",
            Kind::Etcd => "etcd",
            Kind::Redis | Kind::Valkey => "redis",
        }
    }

    /// The scheme with TLS: `zks`, `etcds` or `rediss`.
    pub fn tls_scheme(self) -> &'static str {
        match self {
            Kind::ZooKeeper | Kind::ZooKeeper38 => "zks",
            Kind::Etcd => "etcds",
            Kind::Redis | Kind::Valkey => "rediss",
        }
    }

    /// The protocol a client of this kind speaks, for a [`Proxy`](crate::Proxy).
    pub fn framing(self) -> Framing {
        match self {
            Kind::ZooKeeper | Kind::ZooKeeper38 => Framing::ZooKeeper,
            Kind::Etcd => Framing::Http2,
            Kind::Redis | Kind::Valkey => Framing::Resp,
        }
    }

    pub(crate) fn is_zookeeper(self) -> bool {
        matches!(self, Kind::ZooKeeper | Kind::ZooKeeper38)
    }

    /// The port without TLS.
    pub(crate) fn port(self) -> u16 {
        match self {
            Kind::ZooKeeper | Kind::ZooKeeper38 => 2181,
            Kind::Etcd => 2379,
            Kind::Redis | Kind::Valkey => 6379,
        }
    }

    /// The port with TLS. The plain one stays open beside it, for the testbed's own questions.
    pub(crate) fn tls_port(self) -> u16 {
        match self {
            Kind::ZooKeeper | Kind::ZooKeeper38 => 2281,
            Kind::Etcd => 2378,
            Kind::Redis | Kind::Valkey => 6380,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
