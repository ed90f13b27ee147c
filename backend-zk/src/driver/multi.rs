//! Several writes and checks in one transaction of the server.

use bytes::Bytes;
use tokio::time::Instant;
use zookeeper_client as zk;

use super::{Conn, Effect, Fault, Node, NodeAcl, calls::NodeKind, errors::fault};

/// One part of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Multi {
    /// The node is there, in this version if one is given.
    Check {
        path: String,
        version: Option<i32>,
    },
    Create {
        path: String,
        value: Bytes,
        kind: NodeKind,
    },
    Set {
        path: String,
        value: Bytes,
        version: Option<i32>,
    },
    Delete {
        path: String,
        version: Option<i32>,
    },
}

/// What one part did.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MultiResult {
    /// A check, or a deletion.
    Done,
    /// The node as it is now; `None` where the server does not tell it (creations before 3.8.2, ZOOKEEPER-4026).
    Wrote(Option<Node>),
}

/// Why a transaction was not applied, or may not have been.
#[derive(Debug)]
pub(crate) enum MultiFault {
    /// This part was refused: nothing was applied.
    Part(usize, Fault),
    Whole(Fault),
}

impl From<Fault> for MultiFault {
    fn from(fault: Fault) -> Self {
        Self::Whole(fault)
    }
}

impl Conn {
    /// Applies all parts or none.
    pub(crate) async fn multi(
        &self,
        deadline: Instant,
        parts: Vec<Multi>,
        acl: NodeAcl,
    ) -> Result<Vec<MultiResult>, MultiFault> {
        let reply = self
            .call(deadline, Effect::Write, move |client| async move {
                let mut writer = client.new_multi_writer();
                for part in &parts {
                    match part {
                        Multi::Check { path, version } => {
                            writer.add_check_version(path, version.unwrap_or(-1))?
                        }
                        Multi::Create { path, value, kind } => {
                            writer.add_create(path, value, &kind.mode().with_acls(acl.acls()))?;
                        }
                        Multi::Set { path, value, version } => writer.add_set_data(path, value, *version)?,
                        Multi::Delete { path, version } => writer.add_delete(path, *version)?,
                    }
                }
                match writer.commit().await {
                    Ok(results) => Ok(Ok(results)),
                    Err(zk::MultiWriteError::OperationFailed { index, source }) => Ok(Err((index, source))),
                    Err(zk::MultiWriteError::RequestFailed { source }) => Err(source),
                }
            })
            .await?;
        match reply {
            Ok(results) => Ok(results.iter().map(result).collect()),
            Err((index, source)) => Err(MultiFault::Part(index, refused(source, self.role))),
        }
    }
}

/// A part that the server names in its reply was refused, and nothing was applied, whatever its error.
fn refused(source: zk::Error, role: super::Role) -> Fault {
    match fault(source, role, Effect::Write) {
        Fault::Error(error) if error.outcome() == coord_api::Outcome::Unknown => {
            Fault::Error(error.with_retry(coord_api::Retry::Never))
        }
        other => other,
    }
}

fn result(result: &zk::MultiWriteResult) -> MultiResult {
    let node = |stat: &zk::Stat| (!stat.is_invalid()).then(|| Node::from_stat(stat));
    match result {
        zk::MultiWriteResult::Create { stat, .. } | zk::MultiWriteResult::SetData { stat } => {
            MultiResult::Wrote(node(stat))
        }
        _ => MultiResult::Done,
    }
}
