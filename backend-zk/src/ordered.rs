//! Joining a line.

use std::{sync::Arc, time::Duration};

use coord_api::{
    Error, Freshness, Key, Lifetime, Listing, OpContext, Ordered, OrderedCreate, Result, Revision, Seen,
    kit::HubRef,
};
use tokio::time::{Instant, timeout_at};

use crate::{
    driver::{Conn, Fault, NodeKind, session_id},
    handle::{Core, RACES_MAX, check_value, lost_races},
    layout,
};

/// How long the mirror may take to show our own entry before the server is asked.
const MIRROR_TIME: Duration = Duration::from_secs(1);

impl Core {
    pub(crate) async fn create_ordered(
        self: Arc<Self>,
        ctx: &OpContext,
        req: OrderedCreate,
    ) -> Result<Ordered> {
        let session = ctx.session.as_ref().ok_or_else(|| Error::invalid("joining a line needs a session"))?;
        let deadline = self.deadline(ctx);
        let conn = self.session_conn(session)?;
        let kind = match req.lifetime {
            Lifetime::Session => NodeKind::EphemeralSequential,
            Lifetime::Persistent => NodeKind::PersistentSequential,
        };
        let name = layout::prefix(req.nonce, &req.tag);
        check_value(&Key::from_store(&format!("{}{name}", req.dir.prefix())), &req.value)?;
        let dir = self.settings.paths.dir(&req.dir);
        let prefix = format!("{dir}/{name}");
        for _ in 0..RACES_MAX {
            self.enter(&conn, deadline, &prefix).await?;
            let mirror = self.loaded_line(&req.dir);
            let list = mirror.is_none().then(|| dir.clone());
            let (mark, _) = self.tide.before(conn.id());
            let reply = conn
                .create_sequential(
                    deadline,
                    prefix.clone(),
                    req.value.clone(),
                    kind,
                    self.settings.acl.clone(),
                    list,
                )
                .await;
            let (created, listed) = match reply {
                Ok(created) => created,
                // Its last member left and the server collected it just now.
                Err(Fault::NoNode) => {
                    self.known.forget_above(&prefix);
                    continue;
                }
                Err(fault) => return Err(fault.into_error()),
            };
            self.tide.wrote(conn.id(), mark);
            let key = self.settings.paths.to_key(&created.path).ok_or_else(|| unexpected(&created.path))?;
            let line = match (mirror, listed) {
                (Some(mirror), _) => self.line_in_mirror(&mirror, &key).await,
                (None, listed) => listed.map(|children| self.listing(&req.dir, Some(children))),
            };
            // Past this point the entry exists: a caller who gets an error may find it by calling again.
            let line = match line.filter(|line| line.position(&key).is_some()) {
                Some(line) => line,
                None => self.line_from_server(&conn, &req, deadline).await.map_err(found_again)?,
            };
            let mine = Mine { key, created: created.created };
            return self.settle(&conn, deadline, &req, session, mine, line).await.map_err(found_again);
        }
        Err(lost_races(&dir))
    }

    /// The line as the mirror shows it once it shows our own entry.
    ///
    /// The server tells of changes in order, so by then the mirror shows everything earlier that still stands.
    async fn line_in_mirror(&self, mirror: &HubRef, key: &Key) -> Option<Listing> {
        let seen = Seen::Absent(key.clone());
        match timeout_at(Instant::now() + MIRROR_TIME, mirror.wait(&seen)).await {
            Ok(Ok(())) => Some(mirror.listing(mirror.dir())),
            _ => None,
        }
    }

    async fn line_from_server(
        &self,
        conn: &Arc<Conn>,
        req: &OrderedCreate,
        deadline: Instant,
    ) -> Result<Listing> {
        let dir = self.settings.paths.dir(&req.dir);
        let children = self.read_children(conn, deadline, &dir, Freshness::Session).await?;
        Ok(self.listing(&req.dir, children))
    }

    /// One entry an acquire (promise G4): an earlier attempt whose reply was lost keeps its place.
    async fn settle(
        &self,
        conn: &Conn,
        deadline: Instant,
        req: &OrderedCreate,
        session: &coord_api::SessionId,
        mine: Mine,
        mut line: Listing,
    ) -> Result<Ordered> {
        let attempts: Vec<Key> = line
            .children
            .iter()
            .filter(|child| child.nonce == Some(req.nonce) && child.tag.as_ref() == Some(&req.tag))
            .map(|child| child.key.clone())
            .collect();
        let mut kept: Option<Mine> = None;
        for key in attempts {
            let owned = if key == mine.key && mine.created > Revision::ZERO {
                Some(mine.created)
            } else {
                match conn.stat(deadline, self.settings.paths.key(&key)).await.map_err(Fault::into_error)? {
                    // An entry of a session that is over goes with it; it is no place of ours.
                    Some(node) if req.lifetime == Lifetime::Session && session_id(node.owner) != *session => {
                        None
                    }
                    Some(node) => Some(node.created),
                    None => {
                        line.children.retain(|child| child.key != key);
                        continue;
                    }
                }
            };
            match owned {
                Some(created) if kept.is_none() => kept = Some(Mine { key, created }),
                _ => {
                    match conn.delete(deadline, self.settings.paths.key(&key), None).await {
                        Ok(()) | Err(Fault::NoNode) => {}
                        Err(fault) => return Err(fault.into_error()),
                    }
                    self.note_own(&key, None);
                    line.children.retain(|child| child.key != key);
                }
            }
        }
        let kept = kept.ok_or_else(|| {
            Error::ambiguous("our entry was deleted by somebody else").with_context("key", &mine.key)
        })?;
        self.note_own(&kept.key, Some(kept.created));
        Ok(Ordered::new(kept.key, kept.created, Some(line)))
    }
}

struct Mine {
    key: Key,
    /// Zero if the server did not tell it.
    created: Revision,
}

/// An entry exists that the caller was not told of.
fn found_again(error: Error) -> Error {
    if error.kind() == coord_api::ErrorKind::SessionLost {
        error
    } else {
        error.with_retry(coord_api::Retry::Ambiguous)
    }
}

fn unexpected(path: &str) -> Error {
    Error::ambiguous("the server created a node elsewhere").with_context("path", path)
}
