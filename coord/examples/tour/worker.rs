//! What the workers do, each in a process of its own. They say what they did, a line each, and are told when to go on.

use coord::{
    Candidate, Coord, Lock, SessionKeeper, SessionOptions, Txn,
    config_centre::{ConfigCentre, Consumer, ConsumerOptions, Identity},
};
use futures::StreamExt;
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin, stdin};

use crate::{CONFIG, LEADER, LOCK, Result, TTL};

pub(crate) async fn run(role: &str, name: &str, url: &str) -> Result<()> {
    let store = coord::connect(url).await?;
    let told = Told(BufReader::new(stdin()).lines());
    match role {
        "sell" => sell(&store, told, -1).await,
        "receive" => sell(&store, told, 15).await,
        "lead" => lead(&store, told, name).await,
        "follow" => follow(&store, told, name).await,
        _ => Err(format!("no such role: {role}").into()),
    }
}

/// Changes the stock, under the lock: reads it, adds to it, writes it back.
async fn sell(store: &Coord, mut told: Told, apples: i32) -> Result<()> {
    let session = store.session(TTL).await?;
    let guard = Lock::new(&session, LOCK)?.acquire().await?;
    println!("holds {}", guard.token());
    let stock: i32 = told.next("stock").await?.parse()?;
    guard.check().await?;
    println!("checked");
    // Whatever is checked, a process can stand still between the check and the write.
    told.next("go").await?;
    println!("set {} {}", stock + apples, guard.token());
    told.next("answer").await?;
    // The store is fenced already: the condition and the write are one transaction.
    let written = guard.commit(Txn::new().put("/stock/apples", (stock + apples).to_string())).await;
    match written {
        Ok(outcome) if outcome.is_committed() => println!("written"),
        Ok(_) => println!("refused the lock is somebody else's"),
        Err(error) => println!("refused {}", error.message()),
    }
    // Lost or not, there is nothing to hold any more.
    drop(guard);
    Ok(session.close().await?)
}

/// Stands for election, and leads until its input ends.
async fn lead(store: &Coord, mut told: Told, name: &str) -> Result<()> {
    let keeper = SessionKeeper::new(store, SessionOptions::new(TTL));
    let leadership = Candidate::new(&keeper, LEADER, name)?.leadership().await?;
    println!("leads {}", leadership.epoch());
    told.end().await?;
    leadership.resign().await?;
    Ok(keeper.close().await?)
}

/// Follows the configuration until its input ends.
async fn follow(store: &Coord, mut told: Told, name: &str) -> Result<()> {
    let prices = ConfigCentre::new(store, CONFIG)?.namespace("prices")?;
    let consumer = Consumer::open(&prices, ConsumerOptions::new(Identity::new(name)))?;
    let mut changes = consumer.changes();
    loop {
        tokio::select! {
            change = changes.next() => {
                let now = change.ok_or("the changes have ended")?;
                println!("price {}", now.item("apples").unwrap_or("none"));
            }
            ended = told.end() => return ended,
        }
    }
}

/// What this worker is told.
struct Told(Lines<BufReader<Stdin>>);

impl Told {
    /// The next line, which must begin with this word; gives back the rest.
    async fn next(&mut self, word: &str) -> Result<String> {
        let line = self.0.next_line().await?.ok_or("nobody is there any more")?;
        let rest = line.strip_prefix(word).ok_or_else(|| format!("{word} was expected, not {line:?}"))?;
        Ok(rest.trim().to_owned())
    }

    async fn end(&mut self) -> Result<()> {
        while self.0.next_line().await?.is_some() {}
        Ok(())
    }
}
