//! The four acts of the tour.

use std::time::Duration;

use coord::{
    Coord, Election, FencingToken,
    config_centre::{ConfigCentre, Content, Edit},
};
use tokio::time::{Instant, sleep};

use crate::{CONFIG, LEADER, LOCK, Result, Tour, ensure, process::Worker, title, warehouse::Warehouse};

/// What became of the apples when alice was frozen in the middle of her work.
struct Outcome {
    /// What the warehouse said to alice, who came late.
    alice: coord::Result<()>,
    /// Why the store refused her.
    store: String,
    stock: u32,
}

pub(crate) async fn lost_update(tour: &Tour) -> Result<()> {
    title("1. A lock, a frozen process, and a warehouse that trusts whoever comes");
    let outcome = two_workers(tour, Warehouse::trusting()).await?;
    ensure(outcome.alice.is_ok() && outcome.stock == 9, "the warehouse took what alice sent")?;
    tour.say("the warehouse says 9 apples: bob's 15 are lost. No lock can help, for alice had checked hers");
    Ok(())
}

pub(crate) async fn fenced(tour: &Tour) -> Result<()> {
    title("2. The same, and the warehouse looks at the tokens: it never goes back to a smaller one");
    let outcome = two_workers(tour, Warehouse::fenced()).await?;
    let refused = outcome.alice.err().ok_or("the warehouse took what alice sent")?;
    ensure(outcome.stock == 25, "what bob wrote stands")?;
    tour.say(format!("the warehouse refuses her: {}. 25 apples stand", refused.message()));
    tour.say(format!(
        "the store refuses her, too ({}): what is written under a guard is fenced",
        outcome.store
    ));
    Ok(())
}

/// Alice sells one apple of ten and is frozen before she writes it down; bob receives fifteen meanwhile.
async fn two_workers(tour: &Tour, mut warehouse: Warehouse) -> Result<Outcome> {
    let mut alice = Worker::start(tour, "sell", "alice")?;
    let alices = alice.says("holds").await?;
    tour.say(format!("alice, a process, gets the lock, with fencing token {alices}"));
    let mut bob = Worker::start(tour, "receive", "bob")?;
    line_is(&tour.store, 2).await?;
    tour.say("bob, another process, stands in line behind her");
    alice.tell(&format!("stock {}", warehouse.stock)).await?;
    alice.says("checked").await?;
    alice.freeze(tour).await?;
    let frozen = Instant::now();
    tour.say(
        "alice reads 10 apples, sells one, checks that she holds the lock, and is stopped there (SIGSTOP)",
    );

    let bobs = bob.says("holds").await?;
    ensure(bobs.parse::<FencingToken>()? > alices.parse()?, "bob's token is larger")?;
    tour.say(format!(
        "{:.1}s later her session is over; bob gets the lock, with token {bobs}",
        frozen.elapsed().as_secs_f32()
    ));
    bob.tell(&format!("stock {}", warehouse.stock)).await?;
    bob.says("checked").await?;
    write_down(&mut bob, &mut warehouse).await??;
    bob.says("written").await?;
    bob.end().await?;
    tour.say("bob receives 15 and writes down 25");

    alice.thaw()?;
    let answer = write_down(&mut alice, &mut warehouse).await?;
    tour.say("alice goes on (SIGCONT), as if nothing had happened: she writes down 9");
    let store = alice.says("refused").await?;
    alice.end().await?;
    Ok(Outcome { alice: answer, store, stock: warehouse.stock })
}

/// Lets a worker write, and gives it the answer of the warehouse.
async fn write_down(worker: &mut Worker, warehouse: &mut Warehouse) -> Result<coord::Result<()>> {
    worker.tell("go").await?;
    let request = worker.says("set").await?;
    let (stock, token) = request.split_once(' ').ok_or("no token")?;
    let answer = warehouse.set(stock.parse()?, token.parse()?);
    worker.tell("answer").await?;
    Ok(answer)
}

pub(crate) async fn killed_leader(tour: &Tour) -> Result<()> {
    title("3. An election: the leader is killed");
    let election = Election::new(&tour.store, LEADER)?;
    let mut alice = Worker::start(tour, "lead", "alice")?;
    let first: FencingToken = alice.says("leads").await?.parse()?;
    tour.say(format!("alice leads, in epoch {first}"));
    let mut bob = Worker::start(tour, "lead", "bob")?;
    participants_are(&election, 2).await?;
    let killed = Instant::now();
    alice.kill().await?;
    tour.say("bob stands behind her. She is killed (SIGKILL)");
    let second: FencingToken = bob.says("leads").await?.parse()?;
    ensure(second > first, "epochs grow")?;
    tour.say(format!("{:.1}s later bob leads, in epoch {second}", killed.elapsed().as_secs_f32()));

    let mut alice = Worker::start(tour, "lead", "alice")?;
    participants_are(&election, 2).await?;
    let resigned = Instant::now();
    bob.end().await?;
    let third: FencingToken = alice.says("leads").await?.parse()?;
    ensure(third > second, "epochs grow")?;
    let took = resigned.elapsed().as_millis();
    tour.say(format!("alice is started again, bob resigns: {took} ms later she leads, in epoch {third}"));
    alice.end().await
}

pub(crate) async fn changed_configuration(tour: &Tour) -> Result<()> {
    title("4. A change of configuration reaches both");
    let prices = ConfigCentre::new(&tour.store, CONFIG)?.namespace("prices")?;
    let ann = Edit::by("ann");
    prices.publish(Content::items([("apples", "100")]), &ann).await?.done()?;
    let mut workers = [Worker::start(tour, "follow", "alice")?, Worker::start(tour, "follow", "bob")?];
    for worker in &mut workers {
        ensure(worker.says("price").await? == "100", "they begin with the first price")?;
    }
    tour.say("alice and bob run with apples at 100");
    let published = Instant::now();
    prices.publish(Content::items([("apples", "90")]), &ann).await?.done()?;
    for worker in &mut workers {
        ensure(worker.says("price").await? == "90", "they have the new price")?;
    }
    let took = published.elapsed().as_millis();
    tour.say(format!("ann publishes 90: both run with it {took} ms after she began to"));
    for worker in workers {
        worker.end().await?;
    }
    Ok(())
}

/// Waits until so many stand in the line of the lock.
async fn line_is(store: &Coord, count: usize) -> Result<()> {
    loop {
        let line = store.list(LOCK).await?;
        if line.children.len() >= count {
            return Ok(());
        }
        store.wait(&coord::Seen::Children(LOCK.parse()?, line.revision)).await?;
    }
}

async fn participants_are(election: &Election, count: usize) -> Result<()> {
    while election.participants().await?.len() < count {
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
