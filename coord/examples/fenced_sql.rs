//! A SQL table that refuses a holder from the past.
//!
//! The table has one more column, for the largest fencing token that has written the row, and every write compares and
//! sets it in the statement itself. So the check and the change cannot come apart, whatever the writers believe, and no
//! lock of the database is held while somebody works. Runs on the memory store; with a server, change the URL.

#![allow(clippy::print_stdout, reason = "an example is for reading")]

use std::{error::Error, time::Duration};

use coord::{FencingToken, Lock};
use rusqlite::{Connection, params};

/// Sixteen bytes, big end first: they compare as the tokens do. Elsewhere `NUMERIC(39)` or `BINARY(16)` will do; while
/// the fence epoch is 0, a signed integer of 64 bits does for any store that has not seen 2^63 writes.
fn column(token: FencingToken) -> [u8; 16] {
    token.get().to_be_bytes()
}

/// Sets the amount, unless a newer holder has written the row; whether it was set.
///
/// Equal is allowed: one holder writes many times.
fn set_amount(db: &Connection, item: &str, amount: i64, token: FencingToken) -> rusqlite::Result<bool> {
    let changed = db.execute(
        "UPDATE stock SET amount = ?1, fence = ?2 WHERE item = ?3 AND fence <= ?2",
        params![amount, column(token), item],
    )?;
    Ok(changed == 1)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let db = Connection::open_in_memory()?;
    db.execute_batch(
        "CREATE TABLE stock (item TEXT PRIMARY KEY, amount INTEGER NOT NULL, fence BLOB NOT NULL) STRICT;
         INSERT INTO stock VALUES ('apples', 0, zeroblob(16));",
    )?;
    let store = coord::connect("memory:").await?;

    let alice = store.session(Duration::from_secs(10)).await?;
    let alices = Lock::new(&alice, "/locks/apples")?.acquire().await?;
    ensure(set_amount(&db, "apples", 10, alices.token())?, "alice holds the lock and writes")?;
    println!("alice holds the lock with token {} and sets 10", alices.token());

    // Alice stands still for so long that the store ends her session; she does not know yet.
    alice.close().await?;
    let bob = store.session(Duration::from_secs(10)).await?;
    let bobs = Lock::new(&bob, "/locks/apples")?.acquire().await?;
    ensure(set_amount(&db, "apples", 25, bobs.token())?, "bob holds the lock and writes")?;
    println!("bob gets the lock with token {} and sets 25", bobs.token());

    // Alice goes on where she stood.
    ensure(!set_amount(&db, "apples", 9, alices.token())?, "the table refuses a token from the past")?;
    println!("alice wakes up and wants to set 9: the table refuses her token");

    ensure(set_amount(&db, "apples", 24, bobs.token())?, "bob goes on")?;
    let amount: i64 = db.query_row("SELECT amount FROM stock WHERE item = 'apples'", [], |row| row.get(0))?;
    ensure(amount == 24, "what bob wrote stands")?;
    println!("bob goes on and sets {amount}");
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
