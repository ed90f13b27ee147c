//! One connection: made, checked, and used for scripts.

use std::{collections::HashMap, future::Future, time::Duration};

use coord_api::{Error, ErrorKind, Result, Retry};
use redis::{
    AsyncConnectionConfig, Cmd, PushInfo, PushKind, RedisResult, Value,
    aio::{ConnectionLike, MultiplexedConnection, SendError},
    cmd,
};
use tokio::{
    net::TcpStream,
    sync::watch,
    time::{Instant, timeout_at},
};

use crate::{
    error::{During, Fault, classify, silence},
    names::Name,
    record::{array, number},
    script::{self, Script},
    server::{SECTIONS, ServerInfo},
    settings::Settings,
};

/// How long a server may take to answer anything.
pub(crate) const RESPONSE: Duration = Duration::from_secs(2);
/// How long a read of the log waits for the next change.
pub(crate) const BLOCK: Duration = Duration::from_secs(1);
/// How long a server may take to take a connection.
const TCP_CONNECT: Duration = Duration::from_secs(1);
/// How long replicas may take to confirm a write.
const REPLICATED: Duration = Duration::from_millis(1000);

/// A connection to a primary that may be used.
#[derive(Debug)]
pub(crate) struct Conn {
    driver: MultiplexedConnection,
    settings: Settings,
    /// Which of the hosts.
    pub(crate) host: usize,
    /// What the server said when the connection was made.
    pub(crate) server: ServerInfo,
    /// How long the server may take to answer before the connection counts as broken.
    patience: Duration,
    broken: watch::Sender<bool>,
}

impl Conn {
    /// Connects to one of the hosts, proves who we are, and looks whether the server can be used.
    ///
    /// Must run on a tokio runtime: the driver puts its task there.
    ///
    /// # Errors
    /// A server that takes connections and answers no TLS greeting is [`Tls`](ErrorKind::Tls), and
    /// [`Safe`](Retry::Safe): one that spoke TLS before may just be frozen.
    pub(crate) async fn open(settings: &Settings, host: usize, patience: Duration) -> Result<Self> {
        let during = During::Connect { tls: settings.is_tls() };
        let about = |e: Error| e.with_context("host", settings.host(host));
        let broken = watch::Sender::new(false);
        let gone = broken.clone();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(RESPONSE))
            .set_response_timeout(None)
            .set_push_sender(move |push: PushInfo| {
                if push.kind == PushKind::Disconnection {
                    gone.send_replace(true);
                }
                Ok::<_, SendError>(())
            });
        let client = settings.client(host).map_err(about)?;
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        let mut driver = match connecting.await {
            Ok(driver) => driver,
            Err(e) => {
                let error = classify(&e, during).error;
                let broken_off = settings.is_tls() && e.is_io_error() && !e.is_connection_refusal();
                return Err(about(match error.kind() {
                    ErrorKind::Unavailable if broken_off => no_handshake(error, settings.address(host)).await,
                    _ => error,
                }));
            }
        };
        let asked = tokio::time::timeout(patience, ask(&mut driver)).await;
        let server = match asked {
            Ok(server) => server.map_err(|e| about(classify(&e, during).error))?,
            Err(_) => return Err(about(silence(during))),
        };
        server.check().map_err(about)?;
        Ok(Self { driver, settings: settings.clone(), host, server, patience, broken })
    }

    /// Whether the connection is of no more use.
    pub(crate) fn is_broken(&self) -> bool {
        *self.broken.borrow()
    }

    /// Returns once the connection is of no more use.
    pub(crate) fn broken(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut broken = self.broken.subscribe();
        async move {
            // An error means that the connection is gone altogether.
            let _ = broken.wait_for(|broken| *broken).await;
        }
    }

    /// Calls a script that only reads. `args` are appended behind the keys.
    pub(crate) async fn read(
        &self,
        script: &Script,
        args: impl FnOnce(&mut Cmd),
        until: Instant,
    ) -> Result<Value> {
        let mut call = self.prepare(script);
        args(&mut call);
        self.call(script, &call, until).await
    }

    /// Calls a script that may change something.
    pub(crate) async fn write(
        &self,
        script: &Script,
        args: impl FnOnce(&mut Cmd),
        until: Instant,
    ) -> Result<Value> {
        let mut call = self.prepare(script);
        call.arg(&self.server.run_id).arg(&self.settings.log_max);
        args(&mut call);
        self.call(script, &call, until).await
    }

    fn prepare(&self, script: &Script) -> Cmd {
        // Room for a small request: to grow it step by step costs more than to fill it.
        let mut call = Cmd::with_capacity(24, 512);
        call.arg("EVALSHA").arg(script.hash()).arg(script.keys.len());
        script.keys.iter().for_each(|key| _ = call.arg(self.settings.names.get(*key)));
        call
    }

    /// The record of a path, or nil. No script: it tells no revision and there is nothing to judge, and the record
    /// says by itself whether it is of our form.
    pub(crate) async fn record(&self, path: &str, until: Instant) -> Result<Value> {
        let mut get = Cmd::with_capacity(3, 128);
        get.arg("HGET").arg(self.settings.names.get(Name::Records)).arg(path);
        match self.send(&get, During::Read, until).await {
            Ok(value) => Ok(value),
            Err((error, _)) => Err(self.explain(error, until).await),
        }
    }

    async fn call(&self, script: &Script, call: &Cmd, until: Instant) -> Result<Value> {
        match self.call_loaded(script, call, until).await {
            Ok(value) => Ok(value),
            Err(error) if error.kind() == ErrorKind::Unexpected => {
                Err(error.with_context("script", script.name))
            }
            Err(error) => Err(self.explain(error, until).await),
        }
    }

    /// Names the key where the server does not.
    async fn explain(&self, error: Error, until: Instant) -> Error {
        if error.kind() == ErrorKind::Malformed && error.context().all(|(name, _)| name != "key") {
            return self.name_the_wrong_key(error, until).await;
        }
        error
    }

    /// Calls a script that the server may have to be told first.
    async fn call_loaded(&self, script: &Script, call: &Cmd, until: Instant) -> Result<Value> {
        let during = if script.writes { During::Write } else { During::Read };
        match self.send(call, during, until).await {
            // The server forgot the script (SCRIPT FLUSH, a restart) and did nothing.
            Err((_, Some(error))) if error.code() == Some("NOSCRIPT") => {
                let mut load = cmd("SCRIPT");
                load.arg("LOAD").arg(script.text());
                self.send(&load, During::Read, until).await.map_err(|(e, _)| e)?;
                self.send(call, during, until).await.map_err(|(e, _)| e)
            }
            result => result.map_err(|(e, _)| e),
        }
    }

    async fn send(
        &self,
        call: &Cmd,
        during: During,
        until: Instant,
    ) -> Result<Value, (Error, Option<redis::RedisError>)> {
        let mut driver = self.driver.clone();
        let sent = async { driver.req_packed_command(call).await.and_then(Value::extract_error) };
        // One timer for both limits: they cost about as much as the rest of a call.
        let silent = Instant::now() + self.patience;
        let result: RedisResult<Value> = match timeout_at(until.min(silent), sent).await {
            Ok(result) => result,
            Err(_) if silent <= until => {
                self.broken.send_replace(true);
                return Err((silence(during).with_context("host", self.settings.host(self.host)), None));
            }
            Err(_) => {
                let retry = if during == During::Write { Retry::Ambiguous } else { Retry::Safe };
                let late = Error::new(ErrorKind::Timeout, "the deadline passed before the reply");
                return Err((late.with_retry(retry), None));
            }
        };
        result.map_err(|error| {
            let Fault { error: ours, reconnect } = classify(&error, during);
            if reconnect {
                self.broken.send_replace(true);
            }
            (ours.with_context("host", self.settings.host(self.host)), Some(error))
        })
    }

    /// A server says that a key has the wrong type, and not which.
    async fn name_the_wrong_key(&self, error: Error, until: Instant) -> Error {
        const TYPES: [&str; 7] = ["hash", "hash", "zset", "zset", "hash", "zset", "stream"];
        let types = self.prepare(&script::TYPES);
        let Ok(Value::Array(found)) = self.call_loaded(&script::TYPES, &types, until).await else {
            return error;
        };
        let names = self.settings.names.all().iter().zip(found).zip(TYPES);
        for ((name, found), expected) in names {
            if let Ok(found) = crate::record::text(found)
                && found != expected
                && found != "none"
            {
                return error.with_context("key", name).with_context("type", found);
            }
        }
        error
    }

    /// Waits until as many replicas as asked for have what was written.
    pub(crate) async fn replicated(&self, until: Instant) -> Result<()> {
        let wanted = self.settings.replicas;
        if wanted == 0 {
            return Ok(());
        }
        let mut wait = cmd("WAIT");
        wait.arg(wanted).arg(u64::try_from(REPLICATED.as_millis()).unwrap_or(u64::MAX));
        let have = self.send(&wait, During::Write, until).await.map_err(|(e, _)| e)?;
        let have = number(&have)?;
        if have >= i64::from(wanted) {
            return Ok(());
        }
        Err(Error::ambiguous("written, but too few replicas have it: a failover may lose it")
            .with_context("replicas", have)
            .with_context("wanted", wanted))
    }

    /// Lets the state machine look at the clock and the server; ends sessions that are due. Tells how long until the
    /// next one is; `None` without sessions.
    pub(crate) async fn tick(&self, until: Instant) -> Result<Option<Duration>> {
        let reply = array(self.write(&script::TICK, |_| {}, until).await?)?;
        let [_, _, next] = reply.as_slice() else {
            return Err(crate::record::malformed("a tick of another form"));
        };
        Ok(u64::try_from(number(next)?).ok().map(Duration::from_millis))
    }

    /// The next entries of the log, as the reply has them; waits for them up to [`BLOCK`].
    pub(crate) async fn follow(&self, after: u64) -> Result<Value> {
        let mut read = cmd("XREAD");
        read.arg("COUNT").arg(128).arg("BLOCK").arg(u64::try_from(BLOCK.as_millis()).unwrap_or(1000));
        read.arg("STREAMS").arg(self.settings.names.get(Name::Log)).arg(format!("{after}-0"));
        let until = Instant::now() + BLOCK + 2 * RESPONSE;
        self.send(&read, During::Read, until).await.map_err(|(e, _)| e)
    }

    /// The revision as it stands in the store, without a script.
    pub(crate) async fn revision(&self) -> Result<u64> {
        let mut get = cmd("HGET");
        get.arg(self.settings.names.get(Name::Meta)).arg("rev");
        match self.send(&get, During::Read, Instant::now() + RESPONSE).await.map_err(|(e, _)| e)? {
            Value::Nil => Ok(0),
            value => crate::record::text(value)?
                .parse()
                .map_err(|_| crate::record::malformed("the revision is not a number")),
        }
    }
}

/// What the server says about itself.
async fn ask(driver: &mut MultiplexedConnection) -> RedisResult<ServerInfo> {
    let mut info = cmd("INFO");
    SECTIONS.iter().for_each(|section| _ = info.arg(section));
    let text: String = info.query_async(driver).await?;
    // Not every user may ask this; then it stays unknown, and counts as a risk.
    let fsync: RedisResult<HashMap<String, String>> =
        cmd("CONFIG").arg("GET").arg("appendfsync").query_async(driver).await;
    let fsync = fsync.ok().and_then(|mut settings| settings.remove("appendfsync"));
    Ok(ServerInfo::parse(&text).with_fsync(fsync.as_deref()))
}

/// What a connection that ended before the TLS handshake did means: a plaintext Redis waits for the end of a line that
/// never comes, or hangs up.
async fn no_handshake(error: Error, address: (&str, u16)) -> Error {
    match tokio::time::timeout(TCP_CONNECT, TcpStream::connect(address)).await {
        Ok(Ok(_)) => Error::new(
            ErrorKind::Tls,
            "the server takes connections and does not answer the TLS handshake: it may not speak TLS",
        )
        .with_retry(Retry::Safe)
        .with_source(error),
        Ok(Err(_)) | Err(_) => error,
    }
}
