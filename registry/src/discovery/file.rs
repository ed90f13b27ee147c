//! The last list of a service in a file, for a start while the store is down.

use std::{borrow::Cow, fs, io, path::PathBuf, sync::Arc, time::Duration};

use coord_api::{
    Error, ErrorKind, Result,
    kit::{Runtime, replace_file},
};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::feed::Shared;
use crate::{
    Instance,
    instance::{millis, now},
};

/// What this version writes, and the only one that it reads.
const VERSION: u32 = 1;
/// How long the store has to answer before the list of the file is shown.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
/// Longest time between a change and its place in the file; changes in between are written together.
const SAVED_WITHIN: Duration = Duration::from_secs(1);

/// A file, and for which service.
#[derive(Clone, Debug)]
pub(super) struct ListFile {
    pub(super) path: PathBuf,
    pub(super) service: String,
    pub(super) runtime: Runtime,
}

/// What a file holds.
#[derive(Debug, Serialize, Deserialize)]
struct Document<'a> {
    version: u32,
    service: Cow<'a, str>,
    /// Milliseconds since 1970.
    saved_at: u64,
    instances: Cow<'a, [Instance]>,
}

/// A list and its age.
#[derive(Debug)]
pub(super) struct Saved {
    pub(super) instances: Vec<Instance>,
    pub(super) age: Duration,
}

impl ListFile {
    /// Shows what the file has if the store is late, and then keeps what the store says. Never ends.
    pub(super) async fn keep(self, shared: &Shared) {
        let begun = Instant::now();
        match self.blocking(read).await {
            Ok(None) => {}
            Ok(Some(saved)) => {
                tokio::time::sleep_until(begun + SHOWN_AFTER).await;
                shared.show_file(saved);
            }
            Err(error) => shared.file_failed(error),
        }
        let mut last: Option<Arc<[Instance]>> = None;
        loop {
            // Listened to before looking: what comes in between is seen in the next round.
            let mut changes = shared.listen();
            let list = shared.true_list().filter(|list| !list.is_empty());
            if let Some(list) = list
                && last.as_ref().is_none_or(|last| !Arc::ptr_eq(last, &list))
            {
                last = Some(Arc::clone(&list));
                match self.blocking(move |file| write(file, &list)).await {
                    Ok(()) => shared.file_is_well(),
                    Err(error) => shared.file_failed(error),
                }
            }
            // Whether it was told or lagged behind: something changed.
            let _ = changes.recv().await;
            tokio::time::sleep(SAVED_WITHIN).await;
        }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let file = self.clone();
        let done = self.runtime.handle().spawn_blocking(move || work(&file)).await;
        done.unwrap_or_else(|gone| Err(Error::config("the file was not done with").with_source(gone)))
            .map_err(|error| error.with_context("file", self.path.display()))
    }
}

fn read(file: &ListFile) -> Result<Option<Saved>> {
    let bytes = match fs::read(&file.path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::config("the file cannot be read").with_source(error)),
    };
    let malformed = |message: &'static str| Error::new(ErrorKind::Malformed, message);
    let document: Document<'_> = serde_json::from_slice(&bytes)
        .map_err(|error| malformed("the file holds no list").with_source(error))?;
    if document.version != VERSION {
        return Err(malformed("the file is of another version").with_context("version", document.version));
    }
    if document.service != file.service {
        return Err(malformed("the file is of another service").with_context("service", document.service));
    }
    // A clock that was set back makes it new.
    let age = Duration::from_millis(millis(now()).saturating_sub(document.saved_at));
    Ok(Some(Saved { instances: document.instances.into_owned(), age }))
}

fn write(file: &ListFile, list: &[Instance]) -> Result<()> {
    let document = Document {
        version: VERSION,
        service: Cow::Borrowed(&file.service),
        saved_at: millis(now()),
        instances: Cow::Borrowed(list),
    };
    let json = serde_json::to_vec(&document)
        .map_err(|error| Error::config("the list cannot be JSON").with_source(error))?;
    replace_file(&file.path, &json)
        .map_err(|error| Error::config("the file cannot be written").with_source(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(dir: &tempfile::TempDir, service: &str) -> ListFile {
        let (path, service) = (dir.path().join("list.json"), service.to_owned());
        ListFile { path, service, runtime: Runtime::current().unwrap() }
    }

    #[tokio::test]
    async fn what_was_written_is_read_and_all_else_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let billing = file(&dir, "billing");
        assert!(read(&billing).unwrap().is_none(), "there is no file yet");
        let list = [Instance::new("billing", "b1", "10.0.0.7", 80).with_zone("z")];
        write(&billing, &list).unwrap();
        assert_eq!(read(&billing).unwrap().unwrap().instances, list);
        let names: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["list.json"], "nothing else is left");

        assert_eq!(read(&file(&dir, "other")).unwrap_err().kind(), ErrorKind::Malformed);
        let whole = fs::read_to_string(&billing.path).unwrap();
        for bad in [&whole[..whole.len() / 2], "", "[]", &whole.replace("\"version\":1", "\"version\":2")] {
            fs::write(&billing.path, bad).unwrap();
            assert_eq!(read(&billing).unwrap_err().kind(), ErrorKind::Malformed, "{bad}");
        }
        fs::remove_file(&billing.path).unwrap();
        fs::create_dir(&billing.path).unwrap();
        assert_eq!(read(&billing).unwrap_err().kind(), ErrorKind::Config);
        assert_eq!(write(&billing, &list).unwrap_err().kind(), ErrorKind::Config);
    }
}
