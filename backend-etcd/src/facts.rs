//! What the server says about itself, and what is risky about it.

use std::sync::Arc;

use coord_api::{BackendInfo, Durability, Guarantees, Limits};

use crate::{endpoints::Endpoints, error::Call};

/// Facts about the store, as far as we may know them.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// Empty if the server does not tell.
    version: String,
    /// `None` if the server does not tell.
    members: Option<usize>,
    /// Alarms: no space, corruption.
    alarms: Vec<String>,
}

impl Facts {
    /// Asks the server. What it does not let us know is not known.
    pub(crate) async fn read(endpoints: &Arc<Endpoints>) -> Self {
        let status =
            endpoints.call(Call::Read, |connection| async move { connection.client.clone().status().await });
        let members = endpoints
            .call(Call::Read, |connection| async move { connection.client.clone().member_list().await });
        let (status, members) = tokio::join!(status, members);
        let mut facts = Self { members: members.ok().map(|list| list.members().len()), ..Self::default() };
        if let Ok(status) = status {
            facts.version = status.version().to_owned();
            facts.alarms = status.errors().to_vec();
        }
        facts
    }

    /// Whether an answer to a request for progress keeps its place among the events: it could overtake them up to
    /// 3.4.24 and 3.5.7 (etcd#15220), and would then hide them from the mirror.
    pub(crate) fn orders_progress(&self) -> bool {
        match parse(&self.version) {
            Some((3, 4, patch)) => patch >= 25,
            Some((3, 5, patch)) => patch >= 8,
            Some(version) => version >= (3, 6, 0),
            None => false,
        }
    }

    /// The same as `Backend::info` tells it.
    pub(crate) fn info(&self) -> BackendInfo {
        let mut limits = Limits::PORTABLE;
        limits.session_ttl_min = std::time::Duration::from_secs(1);
        let mut guarantees = Guarantees::STRONGEST;
        if self.members == Some(1) {
            guarantees.durability = Durability::Restart;
        }
        let server = format!("etcd {}", self.version).trim_end().to_owned();
        BackendInfo::new("etcd", server, limits, guarantees).with_warnings(self.warnings())
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let recommended = match parse(&self.version) {
            Some((3, 4, patch)) => patch >= 38,
            Some((3, 5, patch)) => patch >= 23,
            Some((3, 6, patch)) => patch >= 5,
            Some(version) => version > (3, 6, 5),
            // Not knowing is no reason to warn.
            None => true,
        };
        if !recommended {
            warnings.push(format!(
                "etcd {} may answer a renewal with success although the lease is revoked: use 3.5.23, 3.6.5 or newer",
                self.version
            ));
        }
        if self.members == Some(1) {
            warnings.push("the etcd cluster has a single member: its disk is the only copy".to_owned());
        }
        warnings.extend(self.alarms.iter().map(|alarm| format!("etcd raises an alarm: {alarm}")));
        warnings
    }
}

fn parse(version: &str) -> Option<(u32, u32, u32)> {
    let core = version.split(['-', '+']).next()?;
    let mut parts = core.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??, parts.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(version: &str, members: Option<usize>) -> Facts {
        Facts { version: version.to_owned(), members, alarms: Vec::new() }
    }

    #[test]
    fn old_servers_are_warned_of_and_their_progress_is_not_believed() {
        for (version, warned, ordered) in [
            ("3.4.23", true, false),
            ("3.4.25", true, true),
            ("3.4.38", false, true),
            ("3.5.7", true, false),
            ("3.5.16", true, true),
            ("3.5.23", false, true),
            ("3.6.4", true, true),
            ("3.6.5", false, true),
            ("3.7.0-rc.1", false, true),
            ("4.0.0", false, true),
            ("3.3.27", true, false),
            ("", false, false),
            ("main", false, false),
        ] {
            let facts = facts(version, Some(3));
            assert_eq!(
                (!facts.warnings().is_empty(), facts.orders_progress()),
                (warned, ordered),
                "{version}"
            );
        }
    }

    #[test]
    fn a_single_member_is_not_a_quorum() {
        let info = facts("3.6.5", Some(1)).info();
        assert_eq!((info.guarantees.durability, info.warnings.len()), (Durability::Restart, 1));
        let info = facts("3.6.5", Some(3)).info();
        assert_eq!((info.guarantees, info.warnings.len()), (Guarantees::STRONGEST, 0));
        assert_eq!((info.name, info.server.as_str()), ("etcd", "etcd 3.6.5"));
        assert_eq!(facts("", None).info().server, "etcd");
    }
}
