//! One connection through a [`Proxy`](crate::Proxy).

use std::{
    collections::HashMap,
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
};

use rustix::net::{Shutdown, shutdown};
use tokio::{
    net::TcpStream,
    sync::{mpsc, watch},
    time::Instant,
};

use crate::{
    Framing, Link,
    framing::{Key, Replies, Requests},
};

/// What all connections of a proxy share.
#[derive(Debug)]
pub(crate) struct Control {
    upstream: SocketAddr,
    framing: Framing,
    pub(crate) link: watch::Sender<Link>,
    pub(crate) cuts: watch::Sender<u64>,
    pub(crate) accepted: AtomicU64,
    ledger: Mutex<Ledger>,
}

/// Requests seen, and replies to lose.
#[derive(Debug, Default)]
struct Ledger {
    seen: u64,
    armed: Vec<(u64, watch::Sender<bool>)>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is whole after every single step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Control {
    pub(crate) fn new(upstream: SocketAddr, framing: Framing) -> Control {
        Control {
            upstream,
            framing,
            link: watch::Sender::new(Link::Up),
            cuts: watch::Sender::new(0),
            accepted: AtomicU64::new(0),
            ledger: Mutex::default(),
        }
    }

    pub(crate) fn requests(&self) -> u64 {
        locked(&self.ledger).seen
    }

    pub(crate) fn arm(&self, nth: u64) -> watch::Receiver<bool> {
        let mut ledger = locked(&self.ledger);
        let (fired, watch) = watch::channel(false);
        let at = ledger.seen.saturating_add(nth.max(1));
        ledger.armed.push((at, fired));
        watch
    }

    /// Counts a request; gives whom to tell if the reply to it is to be lost.
    fn count(&self, has_reply: bool) -> Vec<watch::Sender<bool>> {
        let mut ledger = locked(&self.ledger);
        ledger.seen += 1;
        if !has_reply {
            return Vec::new();
        }
        let seen = ledger.seen;
        ledger.armed.extract_if(.., |(at, _)| *at <= seen).map(|(_, fired)| fired).collect()
    }
}

/// The replies to lose on one connection, by request.
type Doomed = Mutex<HashMap<Key, Vec<watch::Sender<bool>>>>;

/// Why a connection must be reset rather than closed.
enum Broken {
    /// An end broke off, the link says so, or bytes were lost.
    Link,
    /// A reply was swallowed.
    LostReply(Vec<watch::Sender<bool>>),
}

/// Serves one client to the end of its connection.
pub(crate) async fn run(client: TcpStream, control: Arc<Control>, mut cuts: watch::Receiver<u64>) {
    let mut link = control.link.subscribe();
    // A server that is cut off is not connected to before the link heals.
    let connect = async {
        if link.wait_for(|link| *link != Link::BlackHole).await.is_err() || *link.borrow() == Link::Reset {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        TcpStream::connect(control.upstream).await
    };
    let server = tokio::select! {
        server = connect => server,
        _ = cuts.changed() => Err(io::ErrorKind::ConnectionReset.into()),
    };
    let Ok(server) = server else { return reset(client) };
    // Small frames must not wait for each other; failure to say so only costs time.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));

    let doomed = Doomed::default();
    let up = Requesting { control: &control, doomed: &doomed, parser: control.framing.requests() };
    let down = Replying { doomed: &doomed, parser: control.framing.replies(), out: Vec::new() };
    let mut ending = control.link.subscribe();
    let end = tokio::select! {
        end = async {
            tokio::try_join!(
                pump(&client, &server, control.link.subscribe(), up),
                pump(&server, &client, control.link.subscribe(), down),
            )
        } => end.map(|_| ()),
        _ = ending.wait_for(|link| *link == Link::Reset) => Err(Broken::Link),
        _ = cuts.changed() => Err(Broken::Link),
    };
    let Err(broken) = end else { return };
    reset(client);
    reset(server);
    // After the resets: who waits for this may count on the client's having lost its connection.
    if let Broken::LostReply(fired) = broken {
        fired.iter().for_each(|fired| {
            let _ = fired.send(true);
        });
    }
}

/// Closes with RST, so that the other end learns of it as a failure, not as an orderly end.
fn reset(stream: TcpStream) {
    let _ = stream.set_zero_linger();
}

/// Something that came in from one end.
enum Arrival {
    Bytes(Vec<u8>),
    /// An orderly end.
    End,
    /// The end broke off.
    Broken,
}

/// What one direction does with bytes that may pass.
trait Direction {
    /// Whether a link that loses replies drops the bytes of this direction.
    const LOSABLE: bool;
    /// What of `bytes` goes on, and whether the connection ends after it.
    fn pass<'a>(&'a mut self, bytes: &'a [u8]) -> (&'a [u8], Option<Broken>);
    /// Nothing more will come.
    fn end(&mut self);
}

struct Requesting<'c> {
    control: &'c Control,
    doomed: &'c Doomed,
    parser: Box<dyn Requests>,
}

impl Direction for Requesting<'_> {
    const LOSABLE: bool = false;

    fn pass<'a>(&'a mut self, bytes: &'a [u8]) -> (&'a [u8], Option<Broken>) {
        // Before the bytes go out: the reply cannot be faster than the note that it is doomed.
        self.parser.feed(bytes, &mut |key| {
            let fired = self.control.count(key.is_some());
            if let Some(key) = key
                && !fired.is_empty()
            {
                locked(self.doomed).entry(key).or_default().extend(fired);
            }
        });
        (bytes, None)
    }

    fn end(&mut self) {}
}

struct Replying<'c> {
    doomed: &'c Doomed,
    parser: Box<dyn Replies>,
    out: Vec<u8>,
}

impl Direction for Replying<'_> {
    const LOSABLE: bool = true;

    fn pass<'a>(&'a mut self, bytes: &'a [u8]) -> (&'a [u8], Option<Broken>) {
        self.out.clear();
        let mut lost = None;
        let doomed = self.doomed;
        self.parser.feed(bytes, &mut self.out, &mut |key| {
            lost = locked(doomed).remove(&key);
            lost.is_some()
        });
        (&self.out, lost.map(Broken::LostReply))
    }

    fn end(&mut self) {
        // The client may keep its half open for long; who waits for a loss must not.
        locked(self.doomed).clear();
    }
}

/// Chunks read but not yet passed on. With their size it is what a network can have under way.
const UNDER_WAY: usize = 64;
const CHUNK: usize = 16 * 1024;

/// Carries one direction to its orderly end.
async fn pump(
    from: &TcpStream,
    to: &TcpStream,
    link: watch::Receiver<Link>,
    direction: impl Direction,
) -> Result<(), Broken> {
    // Reading goes on while a chunk is delayed: a delay must not become a limit of throughput.
    let (sender, arrivals) = mpsc::channel(UNDER_WAY);
    let reading = async {
        read(from, sender).await;
        // The writing half has the last word: what was read is still to be passed on.
        std::future::pending::<Infallible>().await
    };
    tokio::select! {
        end = write(to, arrivals, link, direction) => end,
        never = reading => match never {},
    }
}

async fn read(from: &TcpStream, arrivals: mpsc::Sender<(Instant, Arrival)>) {
    loop {
        let ready = from.readable().await;
        let mut chunk = vec![0; CHUNK];
        let arrival = match ready.and_then(|()| from.try_read(&mut chunk)) {
            Ok(0) => Arrival::End,
            Ok(length) => {
                chunk.truncate(length);
                Arrival::Bytes(chunk)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(_) => Arrival::Broken,
        };
        let last = !matches!(arrival, Arrival::Bytes(_));
        if arrivals.send((Instant::now(), arrival)).await.is_err() || last {
            return;
        }
    }
}

async fn write<D: Direction>(
    to: &TcpStream,
    mut arrivals: mpsc::Receiver<(Instant, Arrival)>,
    mut link: watch::Receiver<Link>,
    mut direction: D,
) -> Result<(), Broken> {
    while let Some((at, arrival)) = arrivals.recv().await {
        let mut flow = passable(&mut link, at).await?;
        if D::LOSABLE && flow == Link::LoseReplies {
            return lose(arrivals, link).await;
        }
        let bytes = match &arrival {
            Arrival::Bytes(bytes) => bytes,
            Arrival::Broken => return Err(Broken::Link),
            Arrival::End => {
                direction.end();
                let _ = shutdown(to, Shutdown::Write);
                return Ok(());
            }
        };
        let (mut bytes, broken) = direction.pass(bytes);
        while !bytes.is_empty() {
            to.writable().await.map_err(|_| Broken::Link)?;
            let written = {
                // Held over the write: whoever changes the link waits for it, and after that no
                // byte passes that should not.
                let now = link.borrow_and_update();
                flow = *now;
                match flow {
                    Link::BlackHole => Ok(0),
                    Link::LoseReplies if D::LOSABLE => Ok(0),
                    _ => to.try_write(bytes),
                }
            };
            match written {
                Ok(length) => bytes = &bytes[length..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Err(Broken::Link),
            }
            match flow {
                Link::BlackHole => {
                    link.wait_for(|link| *link != Link::BlackHole).await.map_err(|_| Broken::Link)?;
                }
                Link::LoseReplies if D::LOSABLE => return lose(arrivals, link).await,
                _ => {}
            }
        }
        if let Some(broken) = broken {
            return Err(broken);
        }
    }
    Ok(())
}

/// Drops all that comes while the link loses replies, the news of the end of the connection
/// included. After that the stream has a hole, so the connection must not go on.
async fn lose(
    mut arrivals: mpsc::Receiver<(Instant, Arrival)>,
    mut link: watch::Receiver<Link>,
) -> Result<(), Broken> {
    tokio::select! {
        _ = link.wait_for(|link| *link != Link::LoseReplies) => {}
        // Taken off the queue all the time: the server must not notice that nobody listens.
        () = async {
            while arrivals.recv().await.is_some() {}
            std::future::pending().await
        } => {}
    }
    Err(Broken::Link)
}

/// Waits until something that came in at this time may pass.
async fn passable(link: &mut watch::Receiver<Link>, at: Instant) -> Result<Link, Broken> {
    loop {
        let now = *link.borrow_and_update();
        match now {
            Link::BlackHole => {}
            Link::Delay(delay) if at + delay > Instant::now() => tokio::select! {
                () = tokio::time::sleep_until(at + delay) => return Ok(now),
                changed = link.changed() => {
                    changed.map_err(|_| Broken::Link)?;
                    continue;
                }
            },
            _ => return Ok(now),
        }
        link.changed().await.map_err(|_| Broken::Link)?;
    }
}
