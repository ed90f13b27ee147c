//! Reading a whole tree.

use bytes::Bytes;
use coord_api::{Dir, ErrorKind, Result, Revision};
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::time::Instant;

use crate::{
    driver::{Children, Conn, Fault, Node},
    handle::absent_since,
    paths::Paths,
    settings::Settings,
};

/// Reads of one tree that are under way at once.
pub(crate) const READS_AT_ONCE: usize = 64;

/// What a scan found: each node with its value, and the largest revision seen.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) nodes: Vec<(String, Bytes, Node)>,
    pub(crate) revision: Revision,
}

enum Reply {
    Children(String, Option<Children>),
    Value(String, Option<(Bytes, Node)>),
}

/// Reads everything below `dir`, but not at one moment: what changes meanwhile must be watched.
pub(crate) async fn scan(conn: &Conn, settings: &Settings, dir: &Dir) -> Result<Scan> {
    let read = |path: String, children: bool| -> BoxFuture<'_, Result<Reply>> {
        let deadline = Instant::now() + settings.operation_timeout;
        async move {
            if children {
                let reply = visible(conn.children(deadline, path.clone(), false).await)?;
                return Ok(Reply::Children(path, reply));
            }
            let reply = visible(conn.get(deadline, path.clone(), false).await)?;
            Ok(Reply::Value(path, reply))
        }
        .boxed()
    };
    let root = settings.paths.dir(dir);
    let deadline = Instant::now() + settings.operation_timeout;
    let mut scan = Scan::default();
    let mut waiting: Vec<(String, bool)> = Vec::new();
    // The directory itself must be readable; below, what we may not see is not there for us.
    match conn.children(deadline, root.clone(), false).await {
        Ok(children) => scan.children(&settings.paths, &root, children, &mut waiting),
        Err(Fault::NoNode) => {
            scan.revision = absent_since(conn, deadline, &root).await?;
            return Ok(scan);
        }
        Err(fault) => return Err(fault.into_error()),
    }
    let mut reads = FuturesUnordered::new();
    loop {
        while reads.len() < READS_AT_ONCE
            && let Some((path, children)) = waiting.pop()
        {
            reads.push(read(path, children));
        }
        match reads.next().await.transpose()? {
            None => return Ok(scan),
            Some(Reply::Children(path, Some(children))) => {
                scan.children(&settings.paths, &path, children, &mut waiting);
            }
            Some(Reply::Value(path, Some((value, node)))) => {
                scan.see(&node);
                if node.children > 0 {
                    waiting.push((path.clone(), true));
                }
                scan.nodes.push((path, value, node));
            }
            Some(Reply::Children(_, None) | Reply::Value(_, None)) => {}
        }
    }
}

impl Scan {
    fn see(&mut self, node: &Node) {
        self.revision = self.revision.max(node.modified).max(node.children_modified);
    }

    fn children(
        &mut self,
        paths: &Paths,
        path: &str,
        (names, node): Children,
        waiting: &mut Vec<(String, bool)>,
    ) {
        self.see(&node);
        let prefix = if path == "/" { "" } else { path };
        let below = names.iter().map(|name| format!("{prefix}/{name}"));
        waiting.extend(below.filter(|path| paths.to_key(path).is_some()).map(|path| (path, false)));
    }
}

fn visible<T>(reply: Result<T, Fault>) -> Result<Option<T>> {
    match reply {
        Ok(reply) => Ok(Some(reply)),
        Err(Fault::NoNode) => Ok(None),
        Err(Fault::Error(error)) if error.kind() == ErrorKind::PermissionDenied => Ok(None),
        Err(fault) => Err(fault.into_error()),
    }
}
