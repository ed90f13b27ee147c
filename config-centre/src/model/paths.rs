//! Where everything is.

use coord_api::{Dir, Key, Result, encode_segment};

use super::{Generation, ReleaseVersion};

/// The keys of one namespace.
///
/// The head has a directory to itself: a watch takes in a whole directory, and whoever waits for a new generation must
/// not be sent every release, log entry and report.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    pub(crate) head: Key,
    pub(crate) releases: Dir,
    pub(crate) log: Dir,
    pub(crate) anchor: Key,
    pub(crate) draft: Key,
    /// One key for each instance that consumes.
    pub(crate) instances: Dir,
}

impl Paths {
    /// Those of the namespace `name`, any text, below `root`.
    pub(crate) fn new(root: &Dir, name: &str) -> Result<Self> {
        let dir = root.dir(&encode_segment(name))?;
        Ok(Self {
            head: dir.key("live/head")?,
            releases: dir.dir("rel")?,
            log: dir.dir("log")?,
            anchor: dir.key("anchor")?,
            draft: dir.key("draft")?,
            instances: dir.dir("inst")?,
        })
    }

    pub(crate) fn release(&self, version: ReleaseVersion) -> Result<Key> {
        self.releases.key(&version.name())
    }

    pub(crate) fn entry(&self, generation: Generation) -> Result<Key> {
        self.log.key(&generation.name())
    }

    /// The report of the instance `id`, any text.
    pub(crate) fn instance(&self, id: &str) -> Result<Key> {
        Key::encode(&self.instances, id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_is_one_segment() {
        for name in ["billing", "a/b", "100 %", ".", "..", "%", "ä\u{1F600}", "live/head", "\n"] {
            let paths = Paths::new(&Dir::parse("/config").unwrap(), name).unwrap();
            assert_eq!(paths.head.as_str().matches('/').count(), 4, "{}", paths.head);
        }
    }
}
