//! What a server says about itself.

use std::collections::HashMap;

use coord_api::{Error, Result};

/// The sections to ask for.
pub(crate) const SECTIONS: [&str; 4] = ["server", "replication", "memory", "persistence"];

/// The facts of `INFO` that matter here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerInfo {
    /// `redis 8.0.2` or `valkey 8.1.1`.
    pub(crate) name: String,
    /// Changes when the server's process does.
    pub(crate) run_id: String,
    primary: bool,
    replicas: u32,
    /// Empty if the server does not tell.
    eviction: String,
    /// Whether there is an append-only file.
    pub(crate) aof: bool,
    /// Whether each write is on the disk before it is acknowledged; `None` if the server does not let us ask.
    pub(crate) synced: Option<bool>,
}

impl ServerInfo {
    /// Reads the reply of `INFO`.
    pub(crate) fn parse(text: &str) -> Self {
        let fields: HashMap<_, _> = text.lines().filter_map(|line| line.trim_end().split_once(':')).collect();
        let field = |name: &str| fields.get(name).copied().unwrap_or("");
        // Valkey also tells a redis_version, of the Redis it is compatible with.
        let name = match (field("valkey_version"), field("redis_version")) {
            ("", "") => String::new(),
            ("", redis) => format!("redis {redis}"),
            (valkey, _) => format!("valkey {valkey}"),
        };
        Self {
            name,
            run_id: field("run_id").to_owned(),
            primary: field("role") == "master",
            replicas: field("connected_slaves").parse().unwrap_or(0),
            eviction: field("maxmemory_policy").to_owned(),
            aof: field("aof_enabled") == "1",
            synced: None,
        }
    }

    /// The same with what `CONFIG GET appendfsync` told, if it told anything.
    pub(crate) fn with_fsync(mut self, policy: Option<&str>) -> Self {
        self.synced = policy.map(|policy| policy == "always");
        self
    }

    /// Refuses a server that cannot hold the state.
    ///
    /// # Errors
    /// Unavailable for a replica, config for one that throws keys away when its memory is full.
    pub(crate) fn check(&self) -> Result<()> {
        if !self.primary {
            return Err(Error::unavailable("the server is a replica"));
        }
        if !self.eviction.is_empty() && self.eviction != "noeviction" {
            return Err(Error::config(
                "the server evicts keys when its memory is full, and with them locks: set maxmemory-policy noeviction",
            )
            .with_context("policy", &self.eviction));
        }
        if self.run_id.is_empty() {
            return Err(Error::config(
                "the server does not tell its run_id, so that its restarts go unnoticed",
            ));
        }
        Ok(())
    }

    /// Whether acknowledged writes can be lost.
    pub(crate) const fn loses_writes(&self) -> bool {
        !self.aof || self.replicas > 0 || !matches!(self.synced, Some(true))
    }

    /// What is risky about the server as it is set up.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut out = Vec::new();
        if !self.aof {
            out.push(
                "Redis runs without an append-only file: a restart loses locks and data, and two clients may hold \
                 one lock afterwards; set appendonly yes, and compare fencing tokens where it matters"
                    .to_owned(),
            );
        }
        if self.aof && self.synced == Some(false) {
            out.push(
                "Redis does not sync its append-only file at every write: a power cut loses the last ones, and two \
                 clients may hold one lock afterwards; set appendfsync always, or compare fencing tokens where it \
                 matters"
                    .to_owned(),
            );
        }
        if self.aof && self.synced.is_none() {
            out.push(
                "Redis does not tell its appendfsync: unless it is always, a power cut loses the last writes; allow \
                 +config|get to let coord see it"
                    .to_owned(),
            );
        }
        if self.replicas > 0 {
            out.push(
                "Redis has replicas: a failover loses writes that were acknowledged, and two clients may hold one \
                 lock afterwards; compare fencing tokens where it matters"
                    .to_owned(),
            );
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use coord_api::ErrorKind;

    use super::*;

    fn info(extra: &str) -> ServerInfo {
        ServerInfo::parse(&format!(
            "# Server\r\nredis_version:8.0.2\r\nrun_id:abc\r\nrole:master\r\n{extra}\r\n"
        ))
    }

    #[test]
    fn valkey_is_told_from_the_redis_that_it_claims_to_be() {
        assert_eq!(info("").name, "redis 8.0.2");
        assert_eq!(info("server_name:valkey\r\nvalkey_version:8.1.1").name, "valkey 8.1.1");
    }

    #[test]
    fn replicas_and_evicting_servers_are_refused() {
        assert!(info("maxmemory_policy:noeviction").check().is_ok() && info("").check().is_ok());
        assert_eq!(info("role:slave").check().unwrap_err().kind(), ErrorKind::Unavailable);
        let e = info("maxmemory_policy:allkeys-lru").check().unwrap_err();
        assert!(e.kind() == ErrorKind::Config && e.to_string().contains("noeviction"), "{e}");
        assert_eq!(ServerInfo::parse("role:master").check().unwrap_err().kind(), ErrorKind::Config);
    }

    #[test]
    fn only_an_append_only_file_without_replicas_keeps_what_was_acknowledged() {
        let rows = [
            ("aof_enabled:1", Some("always"), false, 0),
            ("aof_enabled:1", Some("everysec"), true, 1),
            ("aof_enabled:1", None, true, 1),
            ("aof_enabled:0", Some("always"), true, 1),
            ("", None, true, 1),
        ];
        for (extra, fsync, loses, warnings) in rows {
            let server = info(extra).with_fsync(fsync);
            assert_eq!(
                (server.loses_writes(), server.warnings().len()),
                (loses, warnings),
                "{extra} {fsync:?}"
            );
        }
        let replicated = info("aof_enabled:1\r\nconnected_slaves:2").with_fsync(Some("always"));
        assert!(replicated.loses_writes() && replicated.warnings().len() == 1);
    }
}
