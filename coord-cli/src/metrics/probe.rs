//! A look at a store.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use coord::{Coord, Error, ErrorKind, Freshness, WatchEvent, layers::system_name};
use futures::{StreamExt, future::join_all};
use metrics::gauge;
use tokio::time::timeout;

use super::names;

/// A key to read. It need not exist.
const PROBE: &str = "/coord-metrics";
/// How long a directory may take to read.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is looked at.
pub(super) struct Probe {
    coord: Coord,
    store: &'static str,
    dirs: Vec<String>,
}

/// What is in a directory.
struct Contents {
    keys: usize,
    session_keys: usize,
    sessions: usize,
    places: usize,
}

impl Probe {
    pub(super) fn new(coord: Coord, dirs: Vec<String>) -> Self {
        let info = coord.info();
        let store = system_name(info.name);
        gauge!(names::INFO, "store" => store, "server" => info.server).set(1.0);
        Self { coord: coord.with_freshness(Freshness::Latest), store, dirs }
    }

    /// Looks, and sets the gauges. What could not be seen is not a number: an old one would pass for true.
    pub(super) async fn look(&self) {
        let began = Instant::now();
        let answer = self.coord.get(PROBE).await;
        let up = answer.is_ok();
        gauge!(names::UP, "store" => self.store).set(f64::from(u8::from(up)));
        let seconds = if up { began.elapsed().as_secs_f64() } else { f64::NAN };
        gauge!(names::PROBE_SECONDS, "store" => self.store).set(seconds);
        // All at once: whoever asked waits for one time-out at most.
        join_all(self.dirs.iter().map(|dir| async move {
            let contents = if up { self.see(dir).await } else { None };
            self.tell(dir, contents.as_ref());
        }))
        .await;
    }

    async fn see(&self, dir: &str) -> Option<Contents> {
        let seen = match timeout(PATIENCE, self.contents(dir)).await {
            Ok(seen) => seen,
            Err(_) => Err(Error::new(ErrorKind::Timeout, "the directory was not read in time")),
        };
        seen.inspect_err(|error| tracing::warn!(dir, %error, "not seen")).ok()
    }

    fn tell(&self, dir: &str, contents: Option<&Contents>) {
        let of =
            |count: fn(&Contents) -> usize| contents.map_or(f64::NAN, |contents| number(count(contents)));
        for (name, value) in [
            (names::KEYS, of(|contents| contents.keys)),
            (names::SESSION_KEYS, of(|contents| contents.session_keys)),
            (names::SESSIONS, of(|contents| contents.sessions)),
            (names::PLACES, of(|contents| contents.places)),
        ] {
            gauge!(name, "store" => self.store, "dir" => dir.to_owned()).set(value);
        }
    }

    async fn contents(&self, dir: &str) -> Result<Contents, Error> {
        let line = self.coord.list(dir).await?;
        // Only its beginning: the one call that reads a whole directory at one moment.
        let entries = match self.coord.watch(dir).await?.next().await.transpose()? {
            Some(WatchEvent::Snapshot { entries, .. }) => entries,
            _ => return Err(Error::new(ErrorKind::Unexpected, "a watch did not begin with a snapshot")),
        };
        let owners: Vec<_> = entries.iter().filter_map(|entry| entry.meta.owner.as_ref()).collect();
        Ok(Contents {
            keys: entries.len(),
            session_keys: owners.len(),
            sessions: owners.iter().collect::<BTreeSet<_>>().len(),
            places: line.children.iter().filter(|child| child.tag.is_some()).count(),
        })
    }
}

/// Counts are far below where floating point numbers lose whole ones.
fn number(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}
