//! What a server says that it has done, in the few terms that all servers have.

use coord_testbed::{Kind, Server};

use crate::{Result, counters};

/// Requests and bytes since the server started. They only grow; what a server does not count is none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    requests: Option<f64>,
    bytes_in: Option<f64>,
    bytes_out: Option<f64>,
}

/// How a counter is named, and where in its line.
struct Names {
    requests: &'static str,
    bytes_in: &'static str,
    bytes_out: &'static str,
}

const ZOOKEEPER: Names = Names {
    requests: "zk_packets_received",
    bytes_in: "zk_bytes_received_count",
    // Not counted.
    bytes_out: "",
};
const ETCD: Names = Names {
    // With the messages of streams, which are requests for watches and keepalives.
    requests: "grpc_server_msg_received_total",
    bytes_in: "etcd_network_client_grpc_received_bytes_total",
    bytes_out: "etcd_network_client_grpc_sent_bytes_total",
};
const REDIS: Names = Names {
    requests: "total_commands_processed",
    bytes_in: "total_net_input_bytes",
    bytes_out: "total_net_output_bytes",
};

impl Work {
    /// Reads the counters; nothing for a store without a server, or one that does not tell.
    pub(crate) async fn read(server: Option<&Server>) -> Work {
        match server {
            Some(server) => Work::of(server).await.unwrap_or_default(),
            None => Work::default(),
        }
    }

    async fn of(server: &Server) -> Result<Work> {
        Ok(match server.kind() {
            Kind::Etcd => {
                let text = counters::ask(server.addr(), "GET /metrics HTTP/1.0\r\n\r\n").await?;
                Work::pick(&text, &[' ', '{'], &ETCD)
            }
            Kind::Redis | Kind::Valkey => {
                let client = redis::Client::open(server.url())?;
                let mut connection = client.get_multiplexed_async_connection().await?;
                let text: String = redis::cmd("INFO").arg("stats").query_async(&mut connection).await?;
                Work::pick(&text, &[':'], &REDIS)
            }
            _ => Work::pick(&counters::ask(server.addr(), "mntr").await?, &['\t'], &ZOOKEEPER),
        })
    }

    /// Adds up all lines of a name: `NAME NUMBER`, or `NAME{LABELS} NUMBER`.
    fn pick(text: &str, behind: &[char], names: &Names) -> Work {
        let sum = |wanted: &str| {
            let numbers = text.lines().filter_map(|line| {
                let line = line.trim_end();
                let (name, rest) = line.split_once(behind)?;
                let number = rest.rsplit(' ').next()?;
                (name == wanted).then(|| number.parse::<f64>().ok()).flatten()
            });
            numbers.fold(None, |sum, number| Some(sum.unwrap_or(0.0) + number))
        };
        Work { requests: sum(names.requests), bytes_in: sum(names.bytes_in), bytes_out: sum(names.bytes_out) }
    }

    /// What was done since `before`, for each of `count` things.
    pub(crate) fn each(self, before: Work, count: f64) -> Vec<(&'static str, f64)> {
        let pairs = [
            ("server requests", self.requests, before.requests),
            ("bytes in", self.bytes_in, before.bytes_in),
            ("bytes out", self.bytes_out, before.bytes_out),
        ];
        let grown = pairs
            .into_iter()
            .filter_map(|(name, after, before)| Some((name, (after? - before?).max(0.0) / count.max(1.0))));
        grown.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_one_name_are_added_up() {
        let text = "# HELP grpc_server_msg_received_total x\ngrpc_server_msg_received_total{a=\"b c\"} 2\n\
                    grpc_server_msg_received_total{a=\"d\"} 3e+01\netcd_network_client_grpc_sent_bytes_total 7\n";
        let work = Work::pick(text, &[' ', '{'], &ETCD);
        assert_eq!(
            work.each(Work { requests: Some(0.0), ..Work::default() }, 2.0),
            [("server requests", 16.0)]
        );
        let text = "zk_version\t3.9.3\nzk_packets_received\t12\n";
        assert_eq!(Work::pick(text, &['\t'], &ZOOKEEPER).requests, Some(12.0));
        let text = "total_commands_processed:9\r\n";
        assert_eq!(Work::pick(text, &[':'], &REDIS).requests, Some(9.0));
    }
}
