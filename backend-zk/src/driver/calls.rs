//! The requests.

use bytes::Bytes;
use coord_api::Revision;
use tokio::time::Instant;
use zookeeper_client as zk;

use super::{Conn, Effect, Fault, Node, NodeAcl, revision};

/// Node kinds that coord makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeKind {
    Persistent,
    Ephemeral,
    PersistentSequential,
    EphemeralSequential,
    /// Collected by the server once it is empty again.
    Container,
}

impl NodeKind {
    pub(super) const fn mode(self) -> zk::CreateMode {
        match self {
            Self::Persistent => zk::CreateMode::Persistent,
            Self::Ephemeral => zk::CreateMode::Ephemeral,
            Self::PersistentSequential => zk::CreateMode::PersistentSequential,
            Self::EphemeralSequential => zk::CreateMode::EphemeralSequential,
            Self::Container => zk::CreateMode::Container,
        }
    }
}

/// A sequential node that was created.
#[derive(Clone, Debug)]
pub(crate) struct Sequential {
    /// The whole path, with the number that the server gave it.
    pub(crate) path: String,
    /// Zero if the server did not tell it.
    pub(crate) created: Revision,
}

/// The children of a node.
pub(crate) type Children = (Vec<String>, Node);

impl Conn {
    /// Reads a node. With `sync`, what the leader had committed before is seen.
    pub(crate) async fn get(
        &self,
        deadline: Instant,
        path: String,
        sync: bool,
    ) -> Result<(Bytes, Node), Fault> {
        self.call(deadline, Effect::Read, |client| async move {
            // Both are sent now: one round trip.
            let synced = synced(&client, sync);
            let reply = client.get_data(&path);
            let (synced, reply) = futures::join!(synced, reply);
            synced?;
            let (value, stat) = reply?;
            Ok((Bytes::from(value), Node::from_stat(&stat)))
        })
        .await
    }

    /// The names and the state of a node's children.
    pub(crate) async fn children(
        &self,
        deadline: Instant,
        path: String,
        sync: bool,
    ) -> Result<Children, Fault> {
        self.call(deadline, Effect::Read, |client| async move {
            let synced = synced(&client, sync);
            let reply = client.get_children(&path);
            let (synced, reply) = futures::join!(synced, reply);
            synced?;
            let (names, stat) = reply?;
            Ok((names, Node::from_stat(&stat)))
        })
        .await
    }

    /// What the server keeps about a node; `None` if it is absent.
    pub(crate) async fn stat(&self, deadline: Instant, path: String) -> Result<Option<Node>, Fault> {
        self.call(deadline, Effect::Read, |client| async move {
            let stat = client.check_stat(&path).await?;
            Ok(stat.as_ref().map(Node::from_stat))
        })
        .await
    }

    /// Creates a node under exactly this name.
    pub(crate) async fn create(
        &self,
        deadline: Instant,
        path: String,
        value: Bytes,
        kind: NodeKind,
        acl: NodeAcl,
    ) -> Result<Node, Fault> {
        self.call(deadline, Effect::Write, move |client| async move {
            let options = kind.mode().with_acls(acl.acls());
            let (stat, _) = client.create(&path, &value, &options).await?;
            Ok(Node::from_stat(&stat))
        })
        .await
    }

    /// Creates a sequential node, and with `list` reads its parent's children in the same round trip.
    pub(crate) async fn create_sequential(
        &self,
        deadline: Instant,
        prefix: String,
        value: Bytes,
        kind: NodeKind,
        acl: NodeAcl,
        list: Option<String>,
    ) -> Result<(Sequential, Option<Children>), Fault> {
        self.call(deadline, Effect::Write, move |client| async move {
            let options = kind.mode().with_acls(acl.acls());
            // Order of calls is order of sending, and the server keeps it: the listing shows the node.
            let created = client.create(&prefix, &value, &options);
            let listed = list.as_deref().map(|dir| client.get_children(dir));
            let listed = async {
                match listed {
                    Some(reply) => reply.await.ok(),
                    None => None,
                }
            };
            let (created, listed) = futures::join!(created, listed);
            let (stat, sequence) = created?;
            let created = Sequential { path: format!("{prefix}{sequence}"), created: revision(stat.czxid) };
            Ok((created, listed.map(|(names, stat)| (names, Node::from_stat(&stat)))))
        })
        .await
    }

    /// Writes a node; only in that version, if one is given.
    pub(crate) async fn set(
        &self,
        deadline: Instant,
        path: String,
        value: Bytes,
        version: Option<i32>,
    ) -> Result<Node, Fault> {
        self.call(deadline, Effect::Write, |client| async move {
            let stat = client.set_data(&path, &value, version).await?;
            Ok(Node::from_stat(&stat))
        })
        .await
    }

    /// Deletes a node; only in that version, if one is given.
    pub(crate) async fn delete(
        &self,
        deadline: Instant,
        path: String,
        version: Option<i32>,
    ) -> Result<(), Fault> {
        self.call(deadline, Effect::Write, |client| async move { client.delete(&path, version).await }).await
    }

    /// Brings the connected server up to the leader.
    pub(crate) async fn sync(&self, deadline: Instant) -> Result<(), Fault> {
        self.call(deadline, Effect::Read, |client| async move { client.sync("/").await }).await
    }
}

pub(super) fn synced(
    client: &zk::Client,
    sync: bool,
) -> impl Future<Output = Result<(), zk::Error>> + Send + use<'_> {
    let reply = sync.then(|| client.sync("/"));
    async {
        match reply {
            Some(reply) => reply.await,
            None => Ok(()),
        }
    }
}
