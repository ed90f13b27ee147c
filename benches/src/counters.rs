//! What a server says that it has done.

use std::{collections::BTreeMap, net::SocketAddr};

use coord_testbed::{Kind, Server};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::Result;

/// Counters by name. They only grow.
pub(crate) type Counters = BTreeMap<&'static str, f64>;

/// Reads the counters of a server.
#[derive(Clone, Debug)]
pub(crate) enum Reader {
    /// From `mntr`: all packets, also pings.
    ZooKeeper(SocketAddr),
    /// From the metrics.
    Etcd(SocketAddr),
    /// From the statistics of commands.
    Redis(redis::aio::MultiplexedConnection),
}

const ZOOKEEPER: [(&str, &str); 2] =
    [("zk_packets_received", "packets in"), ("zk_packets_sent", "packets out")];

/// Calls by clients, unlike the ranges, which transactions make too.
const RANGE_CALLS: &str =
    "grpc_server_started_total{grpc_method=\"Range\",grpc_service=\"etcdserverpb.KV\",grpc_type=\"unary\"}";
const ETCD: [(&str, &str); 6] = [
    ("etcd_mvcc_range_total", "ranges"),
    (RANGE_CALLS, "Range calls"),
    ("etcd_mvcc_put_total", "puts"),
    ("etcd_mvcc_delete_total", "deletes"),
    ("etcd_server_proposals_applied_total", "raft entries"),
    ("etcd_disk_wal_fsync_duration_seconds_count", "fsyncs"),
];

const REDIS: [(&str, &str); 3] =
    [("cmdstat_evalsha", "scripts"), ("cmdstat_xread", "xreads"), ("cmdstat_script|load", "script loads")];

impl Reader {
    pub(crate) async fn new(server: &Server) -> Result<Reader> {
        Ok(match server.kind() {
            Kind::Etcd => Reader::Etcd(server.addr()),
            Kind::Redis | Kind::Valkey => {
                Reader::Redis(redis::Client::open(server.url())?.get_multiplexed_async_connection().await?)
            }
            _ => Reader::ZooKeeper(server.addr()),
        })
    }

    pub(crate) async fn read(&self) -> Result<Counters> {
        match self {
            Reader::ZooKeeper(addr) => Ok(pick(&ask(*addr, "mntr").await?, '\t', &ZOOKEEPER)),
            Reader::Etcd(addr) => Ok(pick(&ask(*addr, "GET /metrics HTTP/1.0\r\n\r\n").await?, ' ', &ETCD)),
            Reader::Redis(connection) => {
                let mut connection = connection.clone();
                let text: String =
                    redis::cmd("INFO").arg("commandstats").query_async(&mut connection).await?;
                // cmdstat_get:calls=12,usec=34,...
                let calls = text.replace(":calls=", " ").replace(",usec", " usec");
                Ok(pick(&calls, ' ', &REDIS))
            }
        }
    }
}

pub(crate) async fn ask(addr: SocketAddr, question: &str) -> Result<String> {
    let mut stream = TcpStream::connect(addr).await?;
    stream.write_all(question.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// The wanted ones of lines `NAME SEPARATOR NUMBER ...`.
fn pick(text: &str, separator: char, wanted: &[(&str, &'static str)]) -> Counters {
    let mut found: Counters = wanted.iter().map(|(_, name)| (*name, 0.0)).collect();
    for line in text.lines() {
        let mut words = line.trim_end().split(separator);
        let (Some(key), Some(value)) = (words.next(), words.next()) else { continue };
        if let Some((_, name)) = wanted.iter().find(|(wanted, _)| *wanted == key)
            && let Ok(value) = value.parse()
        {
            found.insert(name, value);
        }
    }
    found
}

/// How much each has grown, divided by `count`.
pub(crate) fn growth(before: &Counters, after: &Counters, count: f64) -> Counters {
    let grown = |(name, value): (&&'static str, &f64)| {
        (*name, (value - before.get(name).copied().unwrap_or(0.0)) / count)
    };
    after.iter().map(grown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_wanted_is_read() {
        let text = "zk_version\t3.9.3\nzk_packets_received\t12\nzk_packets_sent\tx\n";
        assert_eq!(pick(text, '\t', &ZOOKEEPER), [("packets in", 12.0), ("packets out", 0.0)].into());
        let text = "# HELP etcd_mvcc_range_total x\netcd_mvcc_range_total 1.5e+06\r\n";
        assert_eq!(pick(text, ' ', &ETCD)["ranges"], 1_500_000.0);
    }

    #[test]
    fn growth_is_per_count() {
        let (before, after) = ([("puts", 2.0)].into(), [("puts", 12.0), ("ranges", 5.0)].into());
        assert_eq!(growth(&before, &after, 5.0), [("puts", 2.0), ("ranges", 1.0)].into());
    }
}
