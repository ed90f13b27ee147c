//! Conditional writes and transactions to compare: ours, and those of the raw drivers.

use std::sync::{Arc, Mutex, PoisonError};

use coord::{Coord, Key, Txn};
use coord_testbed::{Kind, Server};
use etcd_client::{Compare, CompareOp, TxnOp};
use futures::future::try_join_all;

use crate::{Failure, Result, load::Op, raw::Side};

/// Each task has two keys of its own, up to this many tasks.
const KEYS: usize = 256;
const VALUE: [u8; 100] = [b'x'; 100];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conditional {
    /// Changes one key if it is as it was left.
    CompareAndSet,
    /// Writes two keys together.
    Pair,
}

/// What each task must show at its next write.
struct Shown<V>(Vec<Mutex<V>>);

impl<V: Copy> Shown<V> {
    fn get(&self, task: usize) -> V {
        *self.0[task % KEYS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, task: usize, version: V) {
        *self.0[task % KEYS].lock().unwrap_or_else(PoisonError::into_inner) = version;
    }
}

fn shown<V>(versions: impl IntoIterator<Item = V>) -> Arc<Shown<V>> {
    Arc::new(Shown(versions.into_iter().map(Mutex::new).collect()))
}

fn op<F>(call: impl Fn(usize) -> F + Send + Sync + 'static) -> Op
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    Arc::new(move |task| Box::pin(call(task)))
}

fn refused() -> Failure {
    "a write that nobody competes with was refused".into()
}

/// Ours. `dir` is where its keys are.
pub(crate) async fn ours(coord: &Coord, dir: &str, what: Conditional) -> Result<Op> {
    let mut keys: Vec<[Key; 2]> = Vec::with_capacity(KEYS);
    for number in 0..KEYS {
        let pair = [Key::parse(&format!("{dir}/a{number}"))?, Key::parse(&format!("{dir}/b{number}"))?];
        keys.push(pair);
    }
    let written = try_join_all(keys.iter().map(|[key, _]| coord.put(key, VALUE.as_slice()))).await?;
    let versions = written.into_iter().map(|written| written.version);
    let (coord, keys, shown): (_, Arc<[_]>, _) = (coord.clone(), keys.into(), shown(versions));
    Ok(match what {
        Conditional::CompareAndSet => op(move |task| {
            let (coord, keys, shown) = (coord.clone(), Arc::clone(&keys), Arc::clone(&shown));
            async move {
                let [key, _] = &keys[task % KEYS];
                let written = coord.compare_and_set(key, shown.get(task), VALUE.as_slice()).await?;
                shown.set(task, written.ok_or_else(refused)?.version);
                Ok(())
            }
        }),
        Conditional::Pair => op(move |task| {
            let (coord, keys) = (coord.clone(), Arc::clone(&keys));
            async move {
                let [a, b] = &keys[task % KEYS];
                let txn = Txn::new().put(a, VALUE.as_slice()).put(b, VALUE.as_slice());
                let committed = coord.commit(txn).await?.is_committed();
                committed.then_some(()).ok_or_else(refused)
            }
        }),
    })
}

/// The raw driver's.
pub(crate) async fn peer(server: &Server, what: Conditional) -> Result<Side> {
    match server.kind() {
        Kind::Etcd => etcd(server, what).await,
        Kind::Redis | Kind::Valkey => redis(server, what).await,
        _ => zookeeper(server, what).await,
    }
}

async fn zookeeper(server: &Server, what: Conditional) -> Result<Side> {
    let client = zookeeper_client::Client::connect(&server.addr().to_string()).await?;
    let persistent = zookeeper_client::CreateMode::Persistent.with_acls(zookeeper_client::Acls::anyone_all());
    let path = |letter: &str, task: usize| format!("/raw-txn/{letter}{}", task % KEYS);
    let create = async |path: String| match client.create(&path, &VALUE, &persistent).await {
        Ok(_) | Err(zookeeper_client::Error::NodeExists) => Ok(()),
        Err(error) => Err(error),
    };
    create("/raw-txn".to_owned()).await?;
    try_join_all((0..KEYS).flat_map(|number| [path("a", number), path("b", number)]).map(create)).await?;
    let write = async |path: String| client.set_data(&path, &VALUE, None).await;
    let written = try_join_all((0..KEYS).map(|number| write(path("a", number)))).await?;
    let shown = shown(written.into_iter().map(|stat| stat.version));
    Ok(match what {
        Conditional::CompareAndSet => Side {
            name: "zookeeper-client set_data of a version",
            op: op(move |task| {
                let (client, shown) = (client.clone(), Arc::clone(&shown));
                async move {
                    let stat = client.set_data(&path("a", task), &VALUE, Some(shown.get(task))).await?;
                    shown.set(task, stat.version);
                    Ok(())
                }
            }),
        },
        Conditional::Pair => Side {
            name: "zookeeper-client multi",
            op: op(move |task| {
                let client = client.clone();
                async move {
                    let mut multi = client.new_multi_writer();
                    multi.add_set_data(&path("a", task), &VALUE, None)?;
                    multi.add_set_data(&path("b", task), &VALUE, None)?;
                    Ok(multi.commit().await.map(drop)?)
                }
            }),
        },
    })
}

async fn etcd(server: &Server, what: Conditional) -> Result<Side> {
    let client = etcd_client::Client::connect([format!("http://{}", server.addr())], None).await?;
    let kv = client.kv_client();
    let key = |letter: &str, task: usize| format!("raw-txn/{letter}{}", task % KEYS);
    let mut versions = Vec::with_capacity(KEYS);
    for number in 0..KEYS {
        let put = kv.clone().put(key("a", number), VALUE, None).await?;
        versions.push(put.header().map_or(0, etcd_client::ResponseHeader::revision));
    }
    let shown = shown(versions);
    Ok(match what {
        Conditional::CompareAndSet => Side {
            name: "etcd-client txn that compares",
            op: op(move |task| {
                let (mut kv, shown) = (kv.clone(), Arc::clone(&shown));
                async move {
                    let same = Compare::mod_revision(key("a", task), CompareOp::Equal, shown.get(task));
                    let put = TxnOp::put(key("a", task), VALUE, None);
                    let done = kv.txn(etcd_client::Txn::new().when([same]).and_then([put])).await?;
                    if !done.succeeded() {
                        return Err(refused());
                    }
                    shown.set(task, done.header().map_or(0, etcd_client::ResponseHeader::revision));
                    Ok(())
                }
            }),
        },
        Conditional::Pair => Side {
            name: "etcd-client txn",
            op: op(move |task| {
                let mut kv = kv.clone();
                async move {
                    let puts = ["a", "b"].map(|letter| TxnOp::put(key(letter, task), VALUE, None));
                    Ok(kv.txn(etcd_client::Txn::new().and_then(puts)).await.map(drop)?)
                }
            }),
        },
    })
}

async fn redis(server: &Server, what: Conditional) -> Result<Side> {
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let client = redis::Client::open(server.url())?;
    let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    let key = |letter: &str, task: usize| format!("raw-txn:{letter}{}", task % KEYS);
    for number in 0..KEYS {
        redis::cmd("SET").arg(key("a", number)).arg(&VALUE).query_async::<()>(&mut connection).await?;
    }
    let compare = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end redis.call('SET', KEYS[1], ARGV[1]) return 1";
    let hash: String = redis::cmd("SCRIPT").arg("LOAD").arg(compare).query_async(&mut connection).await?;
    let hash: Arc<str> = hash.into();
    Ok(match what {
        Conditional::CompareAndSet => Side {
            name: "redis EVALSHA of GET and SET",
            op: op(move |task| {
                let (mut connection, hash) = (connection.clone(), Arc::clone(&hash));
                async move {
                    let mut call = redis::cmd("EVALSHA");
                    call.arg(&*hash).arg(1).arg(key("a", task)).arg(&VALUE);
                    let set: bool = call.query_async(&mut connection).await?;
                    set.then_some(()).ok_or_else(refused)
                }
            }),
        },
        Conditional::Pair => Side {
            name: "redis MULTI of two SET",
            op: op(move |task| {
                let mut connection = connection.clone();
                async move {
                    let mut both = redis::pipe();
                    both.atomic().set(key("a", task), &VALUE).ignore().set(key("b", task), &VALUE).ignore();
                    Ok(both.query_async::<()>(&mut connection).await?)
                }
            }),
        },
    })
}
