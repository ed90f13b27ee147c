//! A TCP link between a client and a server that a test controls.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

use crate::{
    Framing,
    link::{self, Control},
};

/// What a link does with what is sent over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Link {
    /// Bytes flow.
    Up,
    /// Bytes flow, each this long after it was sent, in both directions. A round trip takes twice
    /// as long; throughput is not limited.
    Delay(Duration),
    /// Nothing flows either way, nothing is reported: a partition. Connections stay open, new
    /// ones are accepted and hang. What was sent, and the news that an end has closed, arrives
    /// when the link heals, as it does when TCP retransmits.
    BlackHole,
    /// What clients send is delivered, what servers send is dropped: requests are applied, their
    /// outcome stays unknown. A connection that lost something is reset when the link leaves this
    /// state, since the client could make no sense of what follows the hole.
    LoseReplies,
    /// Open connections are reset, new ones are accepted and reset at once: a dead server.
    Reset,
}

/// A proxy on a link between clients and one server, under the test's control.
///
/// It works on any platform and without privilege. Clients connect to [`addr`](Proxy::addr);
/// [`set`](Proxy::set) changes what happens to their bytes. Dropping it resets all connections.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    scheme: &'static str,
    control: Arc<Control>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy on a free port of 127.0.0.1. It connects to `upstream` once for each client;
    /// whether there is a server is found out only then.
    ///
    /// # Errors
    /// If no port can be bound.
    pub async fn start(upstream: SocketAddr, framing: Framing) -> io::Result<Proxy> {
        let scheme = match framing {
            Framing::ZooKeeper => "zk",
            Framing::Resp => "redis",
            Framing::Http2 => "etcd",
            Framing::Opaque => "tcp",
        };
        Proxy::start_as(upstream, framing, scheme).await
    }

    pub(crate) async fn start_as(
        upstream: SocketAddr,
        framing: Framing,
        scheme: &'static str,
    ) -> io::Result<Proxy> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let addr = listener.local_addr()?;
        let control = Arc::new(Control::new(upstream, framing));
        let accepting = tokio::spawn(accept(listener, Arc::clone(&control)));
        Ok(Proxy { addr, scheme, control, accepting })
    }

    /// Where clients connect.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The same as a URL with the scheme of the server behind it, without credentials.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.addr)
    }

    /// Changes the link. When this returns, no byte passes any more that the new state holds back.
    pub fn set(&self, link: Link) {
        self.control.link.send_replace(link);
    }

    /// Resets every open connection, once. New ones are served as before.
    pub fn cut_connections(&self) {
        self.control.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// From now on, the `nth` request (1 is the next) is delivered and applied, but its reply is
    /// swallowed and its connection reset: the client cannot know the outcome.
    ///
    /// Requests are counted as by [`requests`](Proxy::requests), over all connections. Replies to
    /// earlier requests on that connection get through; the outcome of later ones already under
    /// way is lost with it. A request that has no reply of its own, such as `SUBSCRIBE`, is passed
    /// over for the next. On an [`Opaque`](Framing::Opaque) link this never happens.
    pub fn lose_reply(&self, nth: u64) -> LostReply {
        LostReply { fired: self.control.arm(nth) }
    }

    /// How many requests clients have sent through this link.
    ///
    /// ZooKeeper: operations, without pings, authentication, watch renewal and the greeting.
    /// RESP: commands. HTTP/2: streams opened, so that a gRPC stream counts once, whatever is sent
    /// on it.
    pub fn requests(&self) -> u64 {
        self.control.requests()
    }

    /// How many connections clients have made, including those that were refused.
    pub fn connections(&self) -> u64 {
        self.control.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.set(Link::Reset);
        self.accepting.abort();
    }
}

/// A reply that is to be lost, see [`Proxy::lose_reply`].
#[derive(Debug, Clone)]
pub struct LostReply {
    fired: watch::Receiver<bool>,
}

impl LostReply {
    /// Whether it has happened: the server has answered, so the request is applied, and the client
    /// has not been told.
    pub fn fired(&self) -> bool {
        *self.fired.borrow()
    }

    /// Waits until it has happened, and returns true; false if it no longer can, because the
    /// connection ended before the reply or the proxy is gone.
    ///
    /// # Cancel safety
    /// Safe: waiting changes nothing.
    pub async fn wait(&self) -> bool {
        self.fired.clone().wait_for(|fired| *fired).await.is_ok()
    }
}

async fn accept(listener: TcpListener, control: Arc<Control>) {
    loop {
        match listener.accept().await {
            Ok((client, _)) => serve(client, &control),
            // Out of descriptors, or the client was faster to leave: neither is for ever.
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

fn serve(client: TcpStream, control: &Arc<Control>) {
    control.accepted.fetch_add(1, Ordering::Relaxed);
    // Subscribed here and not in the task: a cut between the two must not miss the connection.
    let cuts = control.cuts.subscribe();
    tokio::spawn(link::run(client, Arc::clone(control), cuts));
}
