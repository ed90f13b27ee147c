//! A file that refuses a holder from the past, also after its keeper was restarted.
//!
//! A file cannot compare: whoever keeps it must. The keeper is the one process that writes the file, for clients that
//! hold a lock and send their token with each request. It has a [`Fence`], and keeps its number in the same file as the
//! data, so that one rename changes both. Runs on the memory store; with a server, change the URL.

#![allow(clippy::print_stdout, reason = "an example is for reading")]

use std::{
    error::Error,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use coord::{ErrorKind, Fence, FencingToken, Lock};

/// Keeps a file whose first line is the largest token seen, and the rest the data.
struct Keeper {
    path: PathBuf,
    fence: Fence,
}

impl Keeper {
    /// Opens the file, which need not be there yet, and remembers which tokens it has seen.
    fn open(path: &Path) -> Result<Self, Box<dyn Error>> {
        let newest = match fs::read_to_string(path) {
            Ok(text) => text.lines().next().unwrap_or_default().parse()?,
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => 0,
            Err(other) => return Err(other.into()),
        };
        Ok(Self { path: path.to_owned(), fence: Fence::restored(newest) })
    }

    /// Replaces the data, unless the token is from the past.
    fn write(&self, data: &str, token: FencingToken) -> Result<(), Box<dyn Error>> {
        // Inside `admit`, so that no other write comes between the check and the change.
        let written = self.fence.admit(token, || {
            let new = self.path.with_extension("new");
            let mut file = File::create(&new)?;
            write!(file, "{token}\n{data}")?;
            file.sync_all()?;
            fs::rename(&new, &self.path)
        })?;
        Ok(written?)
    }

    fn data(&self) -> io::Result<String> {
        let text = fs::read_to_string(&self.path)?;
        Ok(text.split_once('\n').map(|(_, data)| data.to_owned()).unwrap_or_default())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("report.txt");
    let keeper = Keeper::open(&path)?;
    let store = coord::connect("memory:").await?;

    let alice = store.session(Duration::from_secs(10)).await?;
    let alices = Lock::new(&alice, "/locks/report")?.acquire().await?;
    keeper.write("by alice", alices.token())?;
    println!("alice holds the lock with token {} and writes", alices.token());

    // Alice stands still for so long that the store ends her session; she does not know yet.
    alice.close().await?;
    let bob = store.session(Duration::from_secs(10)).await?;
    let bobs = Lock::new(&bob, "/locks/report")?.acquire().await?;
    keeper.write("by bob", bobs.token())?;
    println!("bob gets the lock with token {} and writes", bobs.token());

    // The keeper is restarted. Then alice goes on where she stood.
    drop(keeper);
    let keeper = Keeper::open(&path)?;
    let refused =
        keeper.write("by alice, late", alices.token()).err().ok_or("the stale write was not refused")?;
    let refused = refused.downcast::<coord::Error>()?;
    ensure(refused.kind() == ErrorKind::StaleToken, "she is refused for her token")?;
    println!("alice wakes up and writes: {refused}");

    keeper.write("by bob again", bobs.token())?;
    ensure(keeper.data()? == "by bob again", "what bob wrote stands")?;
    println!("bob goes on: the file says {:?}", keeper.data()?);
    bobs.release().await?;
    Ok(bob.close().await?)
}

/// The example shows what is so: it stops where it is not.
fn ensure(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("not so: {what}")) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_stale_holder_is_refused() {
        super::main().unwrap();
    }
}
