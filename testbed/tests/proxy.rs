//! A proxy before a real Redis.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod common;

use std::{io::ErrorKind, time::Duration};

use common::{Redis, eventually, soon, start, stays_pending};
use coord_testbed::{Kind, Link, Proxy, Server};
use tokio::time::Instant;

async fn redis() -> (Server, Proxy) {
    let server = start(Kind::Redis).await;
    let proxy = server.proxied().await.unwrap();
    (server, proxy)
}

fn is_reset(result: std::io::Result<String>) -> bool {
    matches!(result, Err(error) if error.kind() == ErrorKind::ConnectionReset)
}

/// Promise: the request is applied, its reply is lost, the client sees a reset.
#[tokio::test]
async fn a_lost_reply_is_of_an_applied_request() {
    let (server, proxy) = redis().await;
    assert!(proxy.url().starts_with("redis://127.0.0.1:"));
    let mut client = Redis::connect(proxy.addr()).await;
    assert_eq!(client.ask("INCR n").await.unwrap(), ":1");

    let lost = proxy.lose_reply(1);
    assert!(!lost.fired());
    let reply = soon("the reset", client.ask("INCR n")).await;
    assert!(is_reset(reply));
    assert!(soon("the loss", lost.wait()).await);
    assert!(lost.fired());
    assert_eq!(Redis::get(server.addr(), "n").await, "2");

    // Only once: the next client is served.
    let mut client = Redis::connect(proxy.addr()).await;
    assert_eq!(client.ask("INCR n").await.unwrap(), ":3");
    assert_eq!(proxy.requests(), 3);
    assert_eq!(proxy.connections(), 2);
}

/// Promise: in a pipeline exactly the nth reply is lost, and all before it arrive.
#[tokio::test]
async fn the_nth_reply_is_lost_in_a_pipeline() {
    let (server, proxy) = redis().await;
    let mut client = Redis::connect(proxy.addr()).await;
    assert_eq!(client.ask("PING").await.unwrap(), "+PONG");
    let lost = proxy.lose_reply(3);
    client.send("INCR n\r\nINCR n\r\nINCR n\r\nINCR n").await.unwrap();
    assert_eq!(client.line().await.unwrap(), ":1");
    assert_eq!(client.line().await.unwrap(), ":2");
    assert!(is_reset(soon("the reset", client.line()).await));
    assert!(soon("the loss", lost.wait()).await);
    eventually("all were applied", async || Redis::get(server.addr(), "n").await == "4").await;
}

/// Promise: counted over all connections, and armed more than once.
#[tokio::test]
async fn losses_on_several_connections() {
    let (_server, proxy) = redis().await;
    let (mut a, mut b) = (Redis::connect(proxy.addr()).await, Redis::connect(proxy.addr()).await);
    let (second, third) = (proxy.lose_reply(2), proxy.lose_reply(3));
    assert_eq!(a.ask("INCR n").await.unwrap(), ":1");
    assert!(is_reset(b.ask("INCR n").await));
    assert!(soon("the second", second.wait()).await);
    assert!(!third.fired());
    assert!(is_reset(a.ask("INCR n").await));
    assert!(soon("the third", third.wait()).await);
}

/// Promise: a loss that can no longer happen says so.
#[tokio::test]
async fn a_loss_that_cannot_happen_ends_the_wait() {
    let (mut server, proxy) = redis().await;
    let mut client = Redis::connect(proxy.addr()).await;
    assert_eq!(client.ask("PING").await.unwrap(), "+PONG");
    let (lost, never) = (proxy.lose_reply(1), proxy.lose_reply(100));
    client.send("BLPOP nothing 0").await.unwrap();
    eventually("it was seen", async || proxy.requests() == 2).await;
    server.kill().await.unwrap();
    assert!(!soon("the end of the wait", lost.wait()).await);
    drop(proxy);
    assert!(!soon("the end of the wait", never.wait()).await);
}

/// Promise: a partition holds what was sent, and delivers it when it heals.
#[tokio::test]
async fn a_black_hole_holds_and_delivers() {
    let (server, proxy) = redis().await;
    let mut client = Redis::connect(proxy.addr()).await;
    assert_eq!(client.ask("INCR n").await.unwrap(), ":1");

    proxy.set(Link::BlackHole);
    client.send("INCR n").await.unwrap();
    assert!(stays_pending(client.line()).await);
    assert_eq!(Redis::get(server.addr(), "n").await, "1");
    // A new connection is accepted and gets no answer either.
    let mut late = Redis::connect(proxy.addr()).await;
    late.send("INCR n").await.unwrap();
    assert!(stays_pending(late.line()).await);

    proxy.set(Link::Up);
    let first = soon("the held reply", client.line()).await.unwrap();
    let second = soon("the late reply", late.line()).await.unwrap();
    let mut replies = [first, second];
    replies.sort();
    assert_eq!(replies, [":2", ":3"]);
}

/// Promise: that the client has left is held back like its bytes, which arrive all the same.
#[tokio::test]
async fn a_black_hole_holds_the_end_of_a_connection() {
    let (server, proxy) = redis().await;
    let mut client = Redis::connect(proxy.addr()).await;
    assert_eq!(client.ask("INCR n").await.unwrap(), ":1");
    proxy.set(Link::BlackHole);
    client.send("INCR n").await.unwrap();
    drop(client);
    assert!(stays_pending(eventually("applied", async || Redis::get(server.addr(), "n").await == "2")).await);
    proxy.set(Link::Up);
    eventually("applied", async || Redis::get(server.addr(), "n").await == "2").await;
}

/// Promise: with replies lost, requests are applied; healing resets what has a hole.
#[tokio::test]
async fn losing_replies_applies_requests() {
    let (server, proxy) = redis().await;
    let mut client = Redis::connect(proxy.addr()).await;
    let mut idle = Redis::connect(proxy.addr()).await;
    assert_eq!(idle.ask("PING").await.unwrap(), "+PONG");
    proxy.set(Link::LoseReplies);
    client.send("INCR n").await.unwrap();
    eventually("applied", async || Redis::get(server.addr(), "n").await == "1").await;
    assert!(stays_pending(client.line()).await);
    proxy.set(Link::Up);
    assert!(is_reset(soon("the reset", client.line()).await));
    assert_eq!(idle.ask("PING").await.unwrap(), "+PONG", "a connection that lost nothing goes on");
}

/// Promise: a reset ends open connections and new ones.
#[tokio::test]
async fn a_reset_ends_everything() {
    let (_server, proxy) = redis().await;
    let mut client = Redis::connect(proxy.addr()).await;
    assert_eq!(client.ask("PING").await.unwrap(), "+PONG");
    proxy.set(Link::Reset);
    assert!(is_reset(soon("the reset", client.line()).await));
    let mut late = Redis::connect(proxy.addr()).await;
    assert!(soon("the reset", late.ask("PING")).await.is_err());
    proxy.set(Link::Up);
    let mut client = Redis::connect(proxy.addr()).await;
    assert_eq!(client.ask("PING").await.unwrap(), "+PONG");
}

/// Promise: a cut ends what is open, once.
#[tokio::test]
async fn a_cut_happens_once() {
    let (_server, proxy) = redis().await;
    let mut client = Redis::connect(proxy.addr()).await;
    assert_eq!(client.ask("PING").await.unwrap(), "+PONG");
    proxy.cut_connections();
    assert!(is_reset(soon("the reset", client.line()).await));
    let mut client = Redis::connect(proxy.addr()).await;
    assert_eq!(client.ask("PING").await.unwrap(), "+PONG");
}

/// Promise: a delay adds to each way, and requests under way share it.
#[tokio::test]
async fn a_delay_is_latency_not_a_limit() {
    let (_server, proxy) = redis().await;
    let mut client = Redis::connect(proxy.addr()).await;
    assert_eq!(client.ask("PING").await.unwrap(), "+PONG");
    let delay = Duration::from_millis(100);
    proxy.set(Link::Delay(delay));
    let begun = Instant::now();
    for _ in 0..20 {
        client.send("PING").await.unwrap();
        tokio::task::yield_now().await;
    }
    for _ in 0..20 {
        assert_eq!(client.line().await.unwrap(), "+PONG");
    }
    let took = begun.elapsed();
    assert!(took >= 2 * delay, "{took:?}");
    assert!(took < 20 * delay, "{took:?}: requests waited for each other");
}

/// Promise: bytes are the same on both sides, whatever their number.
#[tokio::test]
async fn large_values_pass_whole() {
    let (_server, proxy) = redis().await;
    let mut client = Redis::connect(proxy.addr()).await;
    let value = "v".repeat(3_000_000);
    client.send(&format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n{value}", value.len())).await.unwrap();
    assert_eq!(soon("stored", client.line()).await.unwrap(), "+OK");
    assert_eq!(client.ask("GET k").await.unwrap(), format!("${}", value.len()));
    assert!(soon("the value", client.line()).await.unwrap() == value);
    assert_eq!(proxy.requests(), 2);
}

/// Promise: a dead server behind the link is a reset, not an orderly end.
#[tokio::test]
async fn no_server_behind_is_a_reset() {
    let (mut server, proxy) = redis().await;
    server.kill().await.unwrap();
    let mut client = Redis::connect(proxy.addr()).await;
    assert!(soon("the reset", client.ask("PING")).await.is_err());
    server.restart().await.unwrap();
    let mut client = Redis::connect(proxy.addr()).await;
    assert_eq!(client.ask("PING").await.unwrap(), "+PONG");
}
