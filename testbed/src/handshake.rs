//! Asking a server whether it really serves.
//!
//! An open port says little: ZooKeeper accepts connections, and even answers its four-letter
//! words, while no session can be made. So each kind is asked what a client would ask first.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};

use crate::{Auth, Kind};

/// Whom to ask, and how.
#[derive(Debug, Clone)]
pub(crate) struct Probe {
    pub(crate) kind: Kind,
    /// The port without TLS; `None` if only a TLS port is known, which is just connected to.
    pub(crate) plain: Option<SocketAddr>,
    pub(crate) addr: SocketAddr,
    pub(crate) auth: Option<Auth>,
}

/// How long one attempt may take at first. A server that is just starting may take a connection
/// and never answer on it, so attempts are short; a slow machine gets longer ones bit by bit.
const FIRST: Duration = Duration::from_millis(150);
const LONGEST: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(10);

impl Probe {
    /// Asks until it is answered; gives the server's version, or what the last attempt met.
    /// `gone` ends the waiting early with its reason.
    pub(crate) async fn until_ready<E>(
        &self,
        within: Duration,
        mut gone: impl FnMut() -> Option<E>,
    ) -> Result<String, Waited<E>> {
        let deadline = Instant::now() + within;
        let mut attempt = FIRST;
        loop {
            let met = match timeout(attempt, self.ask()).await {
                Ok(Ok(version)) => return Ok(version),
                Ok(Err(met)) => met,
                Err(_) => {
                    let met = format!("no answer within {attempt:?}");
                    attempt = (attempt * 3 / 2).min(LONGEST);
                    met
                }
            };
            if let Some(reason) = gone() {
                return Err(Waited::Gone(reason));
            }
            if Instant::now() >= deadline {
                return Err(Waited::TooLong(met));
            }
            sleep(PAUSE).await;
        }
    }

    async fn ask(&self) -> Result<String, String> {
        let Some(plain) = self.plain else {
            connect(self.addr).await?;
            return Ok("unknown".to_owned());
        };
        match self.kind {
            Kind::ZooKeeper | Kind::ZooKeeper38 => {
                zookeeper_session(plain).await?;
                // The words may be switched off on a server of somebody else.
                Ok(zookeeper_version(plain).await.unwrap_or_else(|_| "unknown".to_owned()))
            }
            Kind::Etcd => {
                let health = http(plain, "GET", "/health", "").await?;
                if !health.contains("\"health\":\"true\"") {
                    return Err(format!("not healthy: {}", last_line(&health)));
                }
                let version = http(plain, "GET", "/version", "").await?;
                Ok(between(&version, "\"etcdserver\":\"", "\"").unwrap_or("unknown").to_owned())
            }
            Kind::Redis | Kind::Valkey => redis(plain, self.auth.as_ref()).await,
        }
    }
}

/// Why a server was not ready.
pub(crate) enum Waited<E> {
    /// Waiting was ended early.
    Gone(E),
    /// The time is over; this is what the last attempt met.
    TooLong(String),
}

fn told(error: std::io::Error) -> String {
    error.to_string()
}

async fn connect(addr: SocketAddr) -> Result<TcpStream, String> {
    TcpStream::connect(addr).await.map_err(told)
}

/// Opens a session and closes it again.
async fn zookeeper_session(addr: SocketAddr) -> Result<(), String> {
    let mut stream = connect(addr).await?;
    let mut greeting = Vec::new();
    greeting.extend(45_u32.to_be_bytes()); // length of what follows
    greeting.extend(0_u32.to_be_bytes()); // protocol version
    greeting.extend(0_u64.to_be_bytes()); // last zxid seen
    greeting.extend(5_000_u32.to_be_bytes()); // session timeout, ms
    greeting.extend(0_u64.to_be_bytes()); // session: a new one
    greeting.extend(16_u32.to_be_bytes()); // its password
    greeting.extend([0; 16]);
    greeting.push(0); // not read-only
    stream.write_all(&greeting).await.map_err(told)?;

    let reply = zookeeper_frame(&mut stream).await?;
    let [_, _, _, _, t0, t1, t2, t3, session @ ..] = reply.as_slice() else {
        return Err("the answer to the greeting is too short".to_owned());
    };
    let refused = [*t0, *t1, *t2, *t3] == [0; 4] || session.iter().take(8).all(|byte| *byte == 0);
    if refused {
        return Err("no session was granted".to_owned());
    }

    // Closed rather than left to expire: the test is the first to have a session there.
    let close = [&8_u32.to_be_bytes()[..], &1_i32.to_be_bytes(), &(-11_i32).to_be_bytes()].concat();
    stream.write_all(&close).await.map_err(told)?;
    zookeeper_frame(&mut stream).await.map(drop)
}

async fn zookeeper_frame(stream: &mut TcpStream) -> Result<Vec<u8>, String> {
    let length = stream.read_u32().await.map_err(told)?;
    if length > 1024 {
        return Err(format!("an answer of {length} bytes is none of ZooKeeper's"));
    }
    let mut frame = vec![0; usize::try_from(length).unwrap_or_default()];
    stream.read_exact(&mut frame).await.map_err(told)?;
    Ok(frame)
}

async fn zookeeper_version(addr: SocketAddr) -> Result<String, String> {
    let mut stream = connect(addr).await?;
    stream.write_all(b"srvr").await.map_err(told)?;
    let text = all_of(&mut stream).await?;
    between(&text, "version: ", "-").map(str::to_owned).ok_or(text)
}

async fn redis(addr: SocketAddr, auth: Option<&Auth>) -> Result<String, String> {
    let mut stream = connect(addr).await?;
    let mut ask = Vec::new();
    if let Some(Auth { user, password }) = auth {
        for word in ["*3\r\n$4\r\nAUTH".to_owned(), bulk(user), bulk(password)] {
            ask.extend(word.into_bytes());
            ask.extend(b"\r\n");
        }
    }
    // INFO fails while data is being loaded, as PING does. QUIT makes the server end the answer.
    ask.extend(b"PING\r\nINFO server\r\nQUIT\r\n");
    stream.write_all(&ask).await.map_err(told)?;
    let text = all_of(&mut stream).await?;
    if !text.contains("+PONG") {
        return Err(text.lines().next().unwrap_or_default().to_owned());
    }
    // Valkey also reports the version of Redis it is compatible with.
    let version = between(&text, "valkey_version:", "\r").or_else(|| between(&text, "redis_version:", "\r"));
    Ok(version.unwrap_or("unknown").to_owned())
}

fn bulk(word: &str) -> String {
    format!("${}\r\n{word}", word.len())
}

/// Sends one request and gives the whole response.
pub(crate) async fn http(addr: SocketAddr, method: &str, path: &str, body: &str) -> Result<String, String> {
    let mut stream = connect(addr).await?;
    // Version 1.0: the server ends the response by closing.
    let ask = format!("{method} {path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(ask.as_bytes()).await.map_err(told)?;
    let text = all_of(&mut stream).await?;
    if text.lines().next().is_some_and(|status| status.contains(" 200 ")) {
        Ok(text)
    } else {
        Err(format!("{method} {path}: {}", last_line(&text)))
    }
}

async fn all_of(stream: &mut TcpStream) -> Result<String, String> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.map_err(told)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or_default()
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(found, _)| found)
}
