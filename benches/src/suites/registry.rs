//! The service registry and the config centre: registrations, how soon all see them, and publications.

use std::time::{Duration, Instant};

use coord::{
    SessionKeeper, SessionOptions,
    config_centre::{ConfigCentre, Consumer, ConsumerOptions, Content, Edit, Identity},
    registry::{Instance, Registration, Registry},
};
use futures::{StreamExt, future::try_join_all};

use crate::{
    Result,
    run::{Chart, Part, Pen, Plan, Store, Work},
    stats::Latency,
};

pub(crate) const PARTS: &[Part] = &[
    Part {
        name: "bulk",
        title: "Registrations",
        text: "One process registers many instances by `register_all`, a thousand at once; another has a view of the service. Shown: \
               from the last acknowledgement until the view has all of them. Ten thousand are registered \
               once only. Cold view: a view that is opened when \
               they are there, until it has all.",
        at: "instances",
        charts: &[Chart::Lines("registrations/s"), Chart::Lines("cold view ms")],
    },
    Part {
        name: "propagation",
        title: "Propagation of one registration",
        text: "One instance more beside a thousand (fewer in a smoke run), again and again: from the call of `register` \
               until a view in another handle shows it.",
        at: "instances",
        charts: &[Chart::Bars("p50 ms")],
    },
    Part {
        name: "config",
        title: "Publication of a configuration",
        text: "`publish` of ten items, until every one of the consumers runs on it; the consumers share a handle that is \
               not the publisher's.",
        at: "consumers",
        charts: &[Chart::Bars("to all p50 ms")],
    },
];

/// Outlives any repetition.
const TTL: Duration = Duration::from_secs(30);
/// How many are registered by one call.
const TOGETHER: usize = 1000;
/// How long anything may take to be seen.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn repetition(store: &Store, plan: Plan, pen: &mut Pen<'_>) -> Result<()> {
    let most = if plan.is_first { 10_000 } else { 1000 };
    for count in plan.pick(&[100, 1000, 10_000][..], &[20][..]).iter().copied().filter(|count| *count <= most)
    {
        bulk(store, plan, pen, count).await?;
    }
    config(store, plan, pen).await
}

fn instance(number: usize) -> Instance {
    let [.., high, low] = number.to_be_bytes();
    Instance::new("billing", format!("i-{number}"), format!("10.0.{high}.{low}"), 8080)
}

/// The value within our patience.
async fn soon<T>(what: &str, future: impl Future<Output = coord::Result<T>>) -> Result<T> {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(found) => Ok(found?),
        Err(_) => Err(format!("{what} took longer than {PATIENCE:?}").into()),
    }
}

async fn bulk(store: &Store, plan: Plan, pen: &mut Pen<'_>, count: usize) -> Result<()> {
    let (provider, consumer) = (store.open().await?, store.open().await?);
    let keeper = SessionKeeper::new(&provider, SessionOptions::new(TTL));
    keeper.session().await?;
    let registry = Registry::new(&provider, "/services")?;
    let views = Registry::new(&consumer, "/services")?;
    let view = views.discover("billing")?;
    soon("the first view", view.ready()).await?;

    let before = Work::read(store.server()).await;
    let began = Instant::now();
    let mut kept: Vec<Registration> = Vec::with_capacity(count);
    while kept.len() < count {
        let some = kept.len()..count.min(kept.len() + TOGETHER);
        for registered in registry.register_all(&keeper, some.map(instance)).await {
            kept.push(registered?);
        }
    }
    let taken = began.elapsed();
    let acknowledged = Instant::now();
    soon("the view of all", view.wait_until(|seen| seen.len() == count)).await?;
    let shown = acknowledged.elapsed();
    let work = Work::read(store.server()).await.each(before, count as f64);

    let fresh = store.open().await?;
    let began = Instant::now();
    let cold = Registry::new(&fresh, "/services")?.discover("billing")?;
    soon("the cold view", cold.wait_until(|seen| seen.len() == count)).await?;
    let opened = began.elapsed();
    fresh.close().await?;
    let mut figures = vec![
        ("registrations/s", count as f64 / taken.as_secs_f64()),
        ("shown ms", shown.as_secs_f64() * 1e3),
        ("cold view ms", opened.as_secs_f64() * 1e3),
    ];
    figures.extend(work);
    pen.put("bulk", "coord", count, &figures);

    if count == plan.pick(1000, 20) {
        let mut seen = Latency::default();
        for number in count..count + plan.pick(50, 5) {
            let began = Instant::now();
            kept.push(registry.register(&keeper, instance(number)).await?);
            soon("one more", view.wait_until(|seen| seen.len() == number + 1)).await?;
            seen.record(began.elapsed());
        }
        pen.put("propagation", "coord", count, &[("p50 ms", seen.ms(0.5)), ("p99 ms", seen.ms(0.99))]);
    }
    // The session takes all of them with it.
    keeper.close().await?;
    provider.close().await?;
    Ok(consumer.close().await?)
}

async fn config(store: &Store, plan: Plan, pen: &mut Pen<'_>) -> Result<()> {
    let (publisher, reader) = (store.open().await?, store.open().await?);
    let namespace = ConfigCentre::new(&publisher, "/config")?.namespace("billing")?;
    let read = ConfigCentre::new(&reader, "/config")?.namespace("billing")?;
    let content =
        |number: u64| Content::items((0..10).map(|item| (format!("item.{item}"), number.to_string())));
    let edit = Edit::by("benchmark");
    namespace.publish(content(0), &edit).await?.done()?;
    for count in plan.pick(&[1, 100, 1000][..], &[3][..]).iter().copied() {
        let consumers: Vec<Consumer> = (0..count)
            .map(|number| Consumer::open(&read, ConsumerOptions::new(Identity::new(format!("c-{number}")))))
            .collect::<coord::Result<_>>()?;
        soon("the first configuration", try_join_all(consumers.iter().map(Consumer::ready))).await?;
        let (mut published, mut everywhere) = (Latency::default(), Latency::default());
        for _ in 0..plan.pick(20, 3) {
            // Generations only grow: those who reach this one have what is published now, or what came later.
            let began = Instant::now();
            let head = namespace.publish(content(fresh()), &edit).await?.done()?;
            published.record(began.elapsed());
            let reached = consumers.iter().map(|consumer| async {
                let mut changes = consumer.changes();
                while let Some(now) = changes.next().await {
                    if now.generation() >= Some(head.generation) {
                        return Ok(());
                    }
                }
                Err(coord::Error::new(coord::ErrorKind::Closed, "a consumer has ended"))
            });
            soon("a publication", try_join_all(reached)).await?;
            everywhere.record(began.elapsed());
        }
        let figures = [
            ("publish p50 ms", published.ms(0.5)),
            ("to all p50 ms", everywhere.ms(0.5)),
            ("to all p99 ms", everywhere.ms(0.99)),
        ];
        pen.put("config", "coord", count, &figures);
    }
    publisher.close().await?;
    Ok(reader.close().await?)
}

/// A number that was not given before: publishing the same again would change nothing.
fn fresh() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
