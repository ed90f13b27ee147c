//! The operations to compare: ours, and those of the raw drivers.

use std::{sync::Arc, time::Duration};

use coord::{Coord, Key};
use coord_testbed::{Kind, Server};
use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp};
use redis::aio::MultiplexedConnection;

use crate::{
    Failure, Result,
    load::{self, Op},
};

/// Each task has a key of its own, up to this many.
pub(crate) const KEYS: usize = 64;
const VALUE: [u8; 100] = [b'x'; 100];

/// The commands that a `put` of ours makes over a key that is there: state, the old record, the log, the revision, the
/// record.
const WRITE: &str = "\
    local rev = tonumber(redis.call('HMGET', KEYS[1], 'schema', 'run', 'rev', 'size')[3] or '0') + 1 \
    redis.call('HGET', KEYS[2], ARGV[1]) \
    redis.call('XADD', KEYS[3], 'MAXLEN', '~', 10000, rev .. '-0', 'p', rev - 1, 's', 0, 'o', ARGV[1] .. ARGV[2]) \
    redis.call('HSET', KEYS[1], 'rev', rev, 'size', 0) \
    redis.call('HSET', KEYS[2], ARGV[1], ARGV[2]) \
    return rev";
/// The keys of [`WRITE`].
const SCRIPT_KEYS: [&str; 3] = ["{raw}meta", RECORDS, "{raw}log"];
/// The hash that [`WRITE`] keeps records in, as ours are.
const RECORDS: &str = "{raw}records";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Get,
    Put,
}

impl Operation {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Get => "get",
            Operation::Put => "put",
        }
    }
}

/// One side of a comparison.
pub(crate) struct Side {
    pub(crate) name: &'static str,
    pub(crate) op: Op,
}

fn op<F>(call: impl Fn(usize) -> F + Send + Sync + 'static) -> Op
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    Arc::new(move |task| Box::pin(call(task)))
}

fn no_key() -> Failure {
    "the key that was put is not there".into()
}

/// Our operation, through `dyn Backend` and the default layers. The keys exist.
pub(crate) async fn ours(coord: &Coord, operation: Operation) -> Result<Side> {
    let mut keys = Vec::with_capacity(KEYS);
    for number in 0..KEYS {
        let key = Key::parse(&format!("/ours/k{number}"))?;
        coord.put(&key, VALUE.as_slice()).await?;
        keys.push(key);
    }
    let (coord, keys): (_, Arc<[Key]>) = (coord.clone(), keys.into());
    let op = match operation {
        Operation::Get => op(move |task| {
            let (coord, keys) = (coord.clone(), Arc::clone(&keys));
            async move { coord.get(&keys[task % KEYS]).await?.map(drop).ok_or_else(no_key) }
        }),
        Operation::Put => op(move |task| {
            let (coord, keys) = (coord.clone(), Arc::clone(&keys));
            async move { Ok(coord.put(&keys[task % KEYS], VALUE.as_slice()).await.map(drop)?) }
        }),
    };
    Ok(Side { name: "coord", op })
}

/// The raw driver's: first the plain one, then the one that does comparable work, where that is another.
pub(crate) async fn peers(server: &Server, operation: Operation) -> Result<Vec<Side>> {
    match server.kind() {
        Kind::Etcd => etcd(server, operation).await,
        Kind::Redis | Kind::Valkey => redis(server, operation).await,
        _ => zookeeper(server, operation).await,
    }
}

/// Lets a server work for so long: a JVM compiles what it runs often.
pub(crate) async fn warm_up(server: &Server, span: Duration) -> Result<()> {
    for side in peers(server, Operation::Put).await? {
        load::run(&side.op, KEYS, Duration::ZERO, span).await?;
    }
    Ok(())
}

async fn zookeeper(server: &Server, operation: Operation) -> Result<Vec<Side>> {
    let client = zookeeper_client::Client::connect(&server.addr().to_string()).await?;
    let persistent = zookeeper_client::CreateMode::Persistent.with_acls(zookeeper_client::Acls::anyone_all());
    for path in ["/raw".to_owned()].into_iter().chain((0..KEYS).map(|number| format!("/raw/k{number}"))) {
        match client.create(&path, &VALUE, &persistent).await {
            Ok(_) | Err(zookeeper_client::Error::NodeExists) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let path = |task: usize| format!("/raw/k{}", task % KEYS);
    Ok(match operation {
        Operation::Get => vec![Side {
            name: "zookeeper-client get_data",
            op: op(move |task| {
                let (client, path) = (client.clone(), path(task));
                async move { Ok(client.get_data(&path).await.map(drop)?) }
            }),
        }],
        Operation::Put => vec![Side {
            name: "zookeeper-client set_data",
            op: op(move |task| {
                let (client, path) = (client.clone(), path(task));
                async move { Ok(client.set_data(&path, &VALUE, None).await.map(drop)?) }
            }),
        }],
    })
}

async fn etcd(server: &Server, operation: Operation) -> Result<Vec<Side>> {
    let client = etcd_client::Client::connect([format!("http://{}", server.addr())], None).await?;
    let kv = client.kv_client();
    let key = |task: usize| format!("raw/k{}", task % KEYS);
    for number in 0..KEYS {
        kv.clone().put(key(number), VALUE, None).await?;
    }
    let unless_there = |key: String| {
        let there = Compare::create_revision(key.as_str(), CompareOp::Greater, 0);
        let keep = PutOptions::new().with_ignore_lease();
        Txn::new().and_then([TxnOp::txn(
            Txn::new()
                .when([there])
                .and_then([TxnOp::put(key.as_str(), VALUE, Some(keep))])
                .or_else([TxnOp::put(key, VALUE, None)]),
        )])
    };
    let plain = kv.clone();
    Ok(match operation {
        Operation::Get => vec![Side {
            name: "etcd-client get",
            op: op(move |task| {
                let mut kv = plain.clone();
                async move { kv.get(key(task), None).await?.kvs().first().map(drop).ok_or_else(no_key) }
            }),
        }],
        Operation::Put => vec![
            Side {
                name: "etcd-client put",
                op: op(move |task| {
                    let mut kv = plain.clone();
                    async move { Ok(kv.put(key(task), VALUE, None).await.map(drop)?) }
                }),
            },
            Side {
                name: "etcd-client txn that keeps the lease",
                op: op(move |task| {
                    let mut kv = kv.clone();
                    async move { Ok(kv.txn(unless_there(key(task))).await.map(drop)?) }
                }),
            },
        ],
    })
}

async fn redis(server: &Server, operation: Operation) -> Result<Vec<Side>> {
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let client = redis::Client::open(server.url())?;
    let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    let key = |task: usize| format!("raw:k{}", task % KEYS);
    let write = script(&connection, WRITE).await?;
    for number in 0..KEYS {
        let mut connection = connection.clone();
        redis::cmd("SET").arg(key(number)).arg(&VALUE).query_async::<()>(&mut connection).await?;
        call(&mut connection, &write, &key(number)).await?;
    }
    let (plain, comparable) = (connection.clone(), connection.clone());
    Ok(match operation {
        Operation::Get => {
            vec![
                Side {
                    name: "redis GET",
                    op: op(move |task| {
                        let mut connection = plain.clone();
                        async move {
                            let mut get = redis::cmd("GET");
                            let value: Option<Vec<u8>> =
                                get.arg(key(task)).query_async(&mut connection).await?;
                            value.map(drop).ok_or_else(no_key)
                        }
                    }),
                },
                Side {
                    name: "redis HGET",
                    op: op(move |task| {
                        let mut connection = comparable.clone();
                        async move {
                            let mut get = redis::cmd("HGET");
                            let value: Option<Vec<u8>> =
                                get.arg(RECORDS).arg(key(task)).query_async(&mut connection).await?;
                            value.map(drop).ok_or_else(no_key)
                        }
                    }),
                },
            ]
        }
        Operation::Put => {
            let hash = write;
            vec![
                Side {
                    name: "redis SET",
                    op: op(move |task| {
                        let mut connection = plain.clone();
                        async move {
                            let mut set = redis::cmd("SET");
                            set.arg(key(task)).arg(&VALUE).query_async::<()>(&mut connection).await?;
                            Ok(())
                        }
                    }),
                },
                Side {
                    name: "redis EVALSHA of the same writes",
                    op: op(move |task| {
                        let (mut connection, hash) = (comparable.clone(), Arc::clone(&hash));
                        async move { call(&mut connection, &hash, &key(task)).await }
                    }),
                },
            ]
        }
    })
}

async fn script(connection: &MultiplexedConnection, text: &str) -> Result<Arc<str>> {
    let mut connection = connection.clone();
    let hash: String = redis::cmd("SCRIPT").arg("LOAD").arg(text).query_async(&mut connection).await?;
    Ok(hash.into())
}

async fn call(connection: &mut MultiplexedConnection, hash: &str, key: &str) -> Result<()> {
    let mut call = redis::cmd("EVALSHA");
    call.arg(hash).arg(SCRIPT_KEYS.len()).arg(&SCRIPT_KEYS).arg(key).arg(&VALUE);
    Ok(call.query_async::<redis::Value>(connection).await.map(drop)?)
}
