//! Two services on any store: requests shared between instances, a drain, a crash, and a gray release.
//!
//! ```sh
//! cargo run -p coord --example services --features registry,config-centre
//! ```
//!
//! runs it on memory. For another store, change one line of `coord.toml` (or `COORD_URL`) and name its feature; the program
//! does not change:
//!
//! ```sh
//! echo 'url = "zk://127.0.0.1:2181/app"' >coord.toml
//! cargo run -p coord --example services --features registry,config-centre,zk
//! ```
//!
//! `orders` asks `billing` what apples cost, and `billing` looks into its configuration. Each instance has a session and
//! a server of its own, as if it were a process of its own.

#![allow(clippy::print_stdout, reason = "an example is for reading")]

use std::{
    collections::BTreeMap, env, error::Error, io, net::Ipv4Addr, path::Path, pin::pin, time::Duration,
};

use coord::{
    Coord, SessionKeeper, SessionOptions,
    config_centre::{
        ConfigCentre, Consumer, ConsumerOptions, Content, Edit, Generation, GrayContent, Identity,
        InstanceReport, Namespace, Rule,
    },
    registry::{
        Balancer, BalancerOptions, Discovery, DownPolicy, Failover, Instance, Registration, Registry,
        RoundRobin, Verdict,
    },
};
use futures::future::{BoxFuture, FutureExt};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::timeout,
};

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const TTL: Duration = Duration::from_secs(5);
/// How long an instance that leaves is seen to be leaving before it is gone.
const DRAIN: Duration = Duration::from_secs(1);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(2);
const LABEL: (&str, &str) = ("track", "canary");

#[tokio::main]
async fn main() -> Result<()> {
    run(&open().await?).await
}

/// The store: `COORD_URL`, or what `coord.toml` names, or memory.
async fn open() -> coord::Result<Coord> {
    if env::var_os("COORD_URL").is_some() {
        return coord::from_env().await;
    }
    if Path::new("coord.toml").exists() {
        coord::from_config("coord.toml").await
    } else {
        coord::connect("memory:").await
    }
}

async fn run(store: &Coord) -> Result<()> {
    println!("The store: {}", store.info().name);
    let registry = Registry::new(store, "/example/services")?;
    let prices = ConfigCentre::new(store, "/example/config")?.namespace("billing")?;
    let ann = Edit::by("ann");
    prices.publish(Content::items([("apples", "100")]), &ann).await?.done()?;

    title("1. Two services register and find each other: orders (o1) asks billing (b1, b2, b3)");
    let b1 = billing(&registry, &prices, "b1").await?;
    let b2 = billing(&registry, &prices, "b2").await?;
    let b3 = billing(&registry, &prices, "b3").await?;
    let to_billing = Client::of(&registry, "billing", 3).await?;
    let o1 = orders(&registry, to_billing.clone()).await?;
    let shop = Client::of(&registry, "orders", 1).await?;
    let answers = shop.ask_often().await?;
    tell(&answers);
    ensure(answers.keys().map(|answer| from(answer)).eq(["b1", "b2", "b3"]), "all three answered")?;

    title("2. b1 drains: it ends what it has, takes nothing new, and leaves");
    let answered = shop.ask_while(b1.leave()).await?;
    println!("   while it left: {answered} requests, all answered");
    to_billing.discovery.wait_until(|list| list.len() == 2).await?;
    let answers = shop.ask_often().await?;
    tell(&answers);
    ensure(answers.keys().map(|answer| from(answer)).eq(["b2", "b3"]), "b1 is not asked any more")?;
    let b1 = billing(&registry, &prices, "b1").await?;
    to_billing.discovery.wait_until(|list| list.len() == 3).await?;
    println!("   b1 is back, as after an update");

    title(
        "3. b2 crashes: requests go to the others at once, though the store lists it until its session is over",
    );
    let dead = b2.crash().await;
    let answers = shop.ask_often().await?;
    tell(&answers);
    println!(
        "   listed: {}, down: {}",
        to_billing.listed(),
        Vec::from_iter(to_billing.balancer.down()).join(", ")
    );
    ensure(
        answers.keys().map(|answer| from(answer)).eq(["b1", "b3"]),
        "every request was answered by another",
    )?;
    ensure(to_billing.balancer.down().contains("b2"), "b2 is down after its first failure")?;
    // The store ends the session of a dead process when the ttl has passed. Here the process lives and gives it up.
    drop(dead);
    to_billing.discovery.wait_until(|list| list.len() == 2).await?;
    println!("   its session is over, listed: {}", to_billing.listed());

    title("4. A gray release: b3, the canary, sells apples for 90 instead of 100");
    let cheaper = Rule::new("cheaper").with_label(LABEL.0, LABEL.1);
    let head = prices.set_gray(cheaper, GrayContent::set([("apples", "90")]), &ann).await?.done()?;
    both_run(&prices, head.generation).await?;
    let answers = shop.ask_often().await?;
    tell(&answers);
    ensure(answers.keys().eq(["100, says b1", "90, says b3"]), "only the canary has the new price")?;

    title("5. It sells well: the new price for all");
    let head = prices.promote("cheaper", &ann).await?.done()?;
    both_run(&prices, head.generation).await?;
    let answers = shop.ask_often().await?;
    tell(&answers);
    ensure(answers.keys().eq(["90, says b1", "90, says b3"]), "all have the new price")?;

    for process in [o1, b1, b3] {
        process.leave().await?;
    }
    Ok(())
}

/// An instance as if it were a process of its own.
struct Process {
    registration: Registration,
    keeper: SessionKeeper,
    server: JoinHandle<()>,
}

/// What a server says to whoever connects.
type Answer = Box<dyn Fn() -> BoxFuture<'static, String> + Send + Sync>;

impl Process {
    /// Serves, and then says so in the registry: never the other way round.
    async fn start(
        registry: &Registry,
        service: &str,
        id: &str,
        keeper: SessionKeeper,
        answer: Answer,
    ) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let instance = Instance::new(service, id, "127.0.0.1", listener.local_addr()?.port());
        let server = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let answer = answer();
                tokio::spawn(async move { stream.write_all(answer.await.as_bytes()).await });
            }
        });
        let registration = registry.register_timeout(&keeper, instance, 2 * TTL).await?;
        Ok(Self { registration, keeper, server })
    }

    /// Leaves in good order.
    async fn leave(self) -> Result<()> {
        self.registration.drain(DRAIN).await?;
        self.server.abort();
        Ok(self.keeper.close().await?)
    }

    /// Answers no more; its session is still there.
    async fn crash(self) -> (Registration, SessionKeeper) {
        self.server.abort();
        let _ = self.server.await;
        (self.registration, self.keeper)
    }
}

/// An instance of `billing`: follows the configuration, and answers with the price in it.
async fn billing(registry: &Registry, prices: &Namespace, id: &'static str) -> Result<Process> {
    let keeper = SessionKeeper::new(registry.coord(), SessionOptions::new(TTL));
    let who = if id == "b3" { Identity::new(id).with_label(LABEL.0, LABEL.1) } else { Identity::new(id) };
    let consumer = Consumer::open(prices, ConsumerOptions::new(who).with_report(&keeper))?;
    consumer.ready().await?;
    let answer = move || {
        let now = consumer.effective();
        let price = now.as_ref().and_then(|now| now.item("apples")).unwrap_or("nothing").to_owned();
        async move { format!("{price}, says {id}") }.boxed()
    };
    Process::start(registry, "billing", id, keeper, Box::new(answer)).await
}

/// An instance of `orders`: asks `billing`.
async fn orders(registry: &Registry, billing: Client) -> Result<Process> {
    let keeper = SessionKeeper::new(registry.coord(), SessionOptions::new(TTL));
    let answer = move || {
        let billing = billing.clone();
        async move { billing.ask().await.unwrap_or_else(|error| error.to_string()) }.boxed()
    };
    Process::start(registry, "orders", "o1", keeper, Box::new(answer)).await
}

/// Whoever asks a service.
#[derive(Clone)]
struct Client {
    discovery: Discovery,
    balancer: Balancer,
}

impl Client {
    /// Ready when this many instances are seen.
    async fn of(registry: &Registry, service: &str, instances: usize) -> Result<Self> {
        let discovery = registry.discover(service)?;
        discovery.wait_until(|list| list.len() == instances).await?;
        let options = BalancerOptions::default().down(DownPolicy::first_failure());
        let balancer = Balancer::with_options(&discovery, RoundRobin::new(), options)?;
        Ok(Self { discovery, balancer })
    }

    /// The ids of the instances that the registry has.
    fn listed(&self) -> String {
        let instances = self.discovery.instances();
        let ids: Vec<_> = instances.iter().map(|instance| instance.id()).collect();
        ids.join(", ")
    }

    /// Asks one instance, and another one if that fails: a question may be asked twice.
    async fn ask(&self) -> Result<String> {
        let failover = Failover::new(3, |_: &io::Error| Verdict::Retry);
        Ok(failover.call(&self.balancer, None, ask).await?)
    }

    /// How often there was which answer.
    async fn ask_often(&self) -> Result<BTreeMap<String, usize>> {
        let mut answers = BTreeMap::new();
        for _ in 0..30 {
            *answers.entry(self.ask().await?).or_default() += 1;
        }
        Ok(answers)
    }

    /// Asks again and again while `work` is done, and counts the answers.
    async fn ask_while(&self, work: impl Future<Output = Result<()>> + Send) -> Result<usize> {
        let (mut work, mut answers) = (pin!(work), 0);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done.map(|()| answers),
                answer = self.ask() => {
                    ensure(from(&answer?).starts_with('b'), "an instance of billing answered")?;
                    answers += 1;
                }
            }
        }
    }
}

async fn ask(instance: Instance) -> io::Result<String> {
    let asking = async {
        let mut stream = TcpStream::connect((instance.address(), instance.port())).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        if answer.is_empty() { Err(io::Error::from(io::ErrorKind::UnexpectedEof)) } else { Ok(answer) }
    };
    timeout(ANSWER, asking).await?
}

/// Waits until b1 and b3 have reported that they run this generation.
async fn both_run(prices: &Namespace, generation: Generation) -> Result<()> {
    let told = async {
        let runs = |report: &&InstanceReport| report.generation == Some(generation);
        while prices.instances().await?.reports.iter().filter(runs).count() < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok::<_, coord::Error>(())
    };
    Ok(timeout(Duration::from_secs(30), told).await??)
}

/// Who gave an answer.
fn from(answer: &str) -> &str {
    answer.rsplit(' ').next().unwrap_or_default()
}

fn title(text: &str) {
    println!("\n{text}");
}

fn tell(answers: &BTreeMap<String, usize>) {
    for (answer, count) in answers {
        println!("   {count:2} × {answer:?}");
    }
}

fn ensure(so: bool, what: &str) -> Result<()> {
    if so { Ok(()) } else { Err(format!("not so: {what}").into()) }
}
