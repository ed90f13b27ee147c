//! `register`: an instance that is there as long as this process, or its command.

use std::{
    net::{Ipv4Addr, UdpSocket},
    pin::pin,
    time::Duration,
};

use coord::{
    Coord, ErrorKind, SessionKeeper, SessionOptions,
    registry::{Instance, Kind, Registration, Registry, Status},
};
use futures::{FutureExt, future::Fuse};

use super::{Place, args::RegisterArgs, show};
use crate::{
    Failure, Format, code,
    exit::say,
    output::{Output, printable_text},
    run::{Change, Child, GOODBYE, Signals, ends, exit_code, hidden, pause_with, terminal},
    store::{Source, is_of_this_process},
};

pub(super) async fn register(
    source: &Source,
    out: &mut Output<'_>,
    place: &Place,
    args: &RegisterArgs,
) -> Result<u8, Failure> {
    // First, so that no signal finds the default action: the instance would stay until the ttl is over.
    let mut signals = Signals::install()?;
    let instance = match instance(args) {
        Err(Failure::Store(error)) => return Ok(wrong(&error)),
        instance => instance?,
    };
    let coord = signals.unless_ending(source.connect()).await??;
    let registry = place.registry(&coord)?;
    if is_of_this_process(&coord) {
        say("this store lives in this process alone: nobody else sees the instance");
    }
    let keeper = SessionKeeper::new(&coord, SessionOptions::new(args.ttl));
    let entered = signals.unless_ending(enter(&registry, &keeper, instance, args.timeout)).await;
    let (registration, ended) = match entered {
        // It may be there already: it must go, too.
        Err(signal) => (None, Err(signal)),
        Ok(Err(error)) => (None, refused(error)),
        Ok(Ok(registration)) => {
            let ended = serve(&registration, out, args, &mut signals).await;
            (Some(registration), ended)
        }
    };
    tokio::select! {
        biased;
        () = leave(registration.as_ref(), &keeper, &coord) => {}
        // Once more: the user is in a hurry.
        _ = signals.ending() => {}
    }
    ended
}

/// What is done while it is registered.
async fn serve(
    registration: &Registration,
    out: &mut Output<'_>,
    args: &RegisterArgs,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    if !args.command.is_empty() {
        return accompany(registration, args, signals).await;
    }
    tell(out, registration)?;
    if args.permanent {
        return Ok(code::YES);
    }
    Ok(stay(registration, args.drain_wait, signals).await)
}

/// An id that is taken, and what the layout has no place for, are no failure of `coord`.
fn refused(error: coord::Error) -> Result<u8, Failure> {
    match error.kind() {
        ErrorKind::NotHolder => {
            say(&error.to_string());
            Ok(code::CONFLICT)
        }
        ErrorKind::InvalidArgument => Ok(wrong(&error)),
        _ => Err(error.into()),
    }
}

fn wrong(error: &coord::Error) -> u8 {
    say(&error.to_string());
    code::USAGE
}

async fn enter(
    registry: &Registry,
    keeper: &SessionKeeper,
    instance: Instance,
    timeout: Option<Duration>,
) -> coord::Result<Registration> {
    match timeout {
        Some(timeout) => registry.register_timeout(keeper, instance, timeout).await,
        None => registry.register(keeper, instance).await,
    }
}

fn instance(args: &RegisterArgs) -> Result<Instance, Failure> {
    let address = match &args.address {
        Some(address) => address.clone(),
        None => own_address()?,
    };
    let port = args.port.or(args.tls_port).unwrap_or(0);
    let id = args.id.clone().unwrap_or_else(|| format!("{address}:{port}"));
    let mut instance =
        Instance::new(&args.name, id, address, args.port.unwrap_or(0)).with_weight(args.weight);
    if let Some(port) = args.tls_port {
        instance = instance.with_tls_port(port);
    }
    if let Some(zone) = &args.zone {
        instance = instance.with_zone(zone);
    }
    if let Some(payload) = &args.payload {
        instance = instance.with_payload_json(payload.clone());
    }
    if args.permanent {
        instance = instance.with_kind(Kind::Permanent);
    }
    let labels = args.labels.iter();
    let instance = labels.fold(instance, |instance, (name, value)| instance.with_label(name, value));
    instance.validate()?;
    Ok(instance)
}

/// The address from which this machine would reach others. Nothing is sent.
fn own_address() -> Result<String, Failure> {
    // An address that is for examples alone: all that counts is the route that would be taken.
    let example = Ipv4Addr::new(192, 0, 2, 1);
    let address = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
        socket.connect((example, 9))?;
        socket.local_addr()
    });
    match address {
        Ok(address) => Ok(address.ip().to_string()),
        Err(error) => {
            Err(Failure::Setup(format!("give --address, this machine has none towards others: {error}")))
        }
    }
}

/// Says that it is registered, for scripts that wait for it.
fn tell(out: &mut Output<'_>, registration: &Registration) -> std::io::Result<()> {
    let instance = registration.instance();
    match out.format() {
        Format::Json | Format::Jsonl => {
            let mut object = show::instance(&instance);
            object["key"] = registration.key().as_str().into();
            out.json(&object)
        }
        Format::Table => out.table(&[show::HEAD.map(str::to_owned).to_vec(), show::row(&instance)]),
        Format::Auto | Format::Plain => out.line(&printable_text(registration.key().as_str())),
    }
}

/// Until a signal, and the drain; a second signal ends that.
async fn stay(registration: &Registration, drain_wait: Duration, signals: &mut Signals) -> u8 {
    signals.ending().await;
    tokio::select! {
        biased;
        () = drain(registration, drain_wait) => {}
        _ = signals.ending() => {}
    }
    code::YES
}

/// Says that the instance drains, and gives consumers time to see it and to end what they have.
async fn drain(registration: &Registration, wait: Duration) {
    if wait.is_zero() {
        return;
    }
    let over = tokio::time::sleep(wait);
    match tokio::time::timeout(wait, registration.set_status(Status::Draining)).await {
        Ok(Ok(())) => over.await,
        Ok(Err(error)) => say(&format!("consumers are not told that it drains: {error}")),
        Err(_) => say("consumers are not told that it drains: the store does not answer"),
    }
}

/// Runs the command while the instance is registered. A signal to end reaches it after the drain, a second one at once.
async fn accompany(
    registration: &Registration,
    args: &RegisterArgs,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let foreground = terminal::is_ours();
    let instance = registration.instance();
    let variables =
        [("COORD_SERVICE_NAME", instance.name().to_owned()), ("COORD_SERVICE_ID", instance.id().to_owned())];
    let mut child = Child::start(&args.command, &variables, &hidden(), foreground)?;
    let mut draining = pin!(Fuse::terminated());
    let mut first = None;
    loop {
        tokio::select! {
            biased;
            change = child.change() => match change {
                Change::Ended => break,
                Change::Stopped if foreground => pause_with(&child),
                // Somebody stopped it on purpose. It stays registered.
                Change::Stopped => {}
            },
            arrived = signals.next() => {
                if first.is_none() && ends(arrived) {
                    first = Some(arrived);
                    draining.set(drain(registration, args.drain_wait).fuse());
                    continue;
                }
                if ends(arrived) {
                    draining.set(Fuse::terminated());
                }
                child.signal(arrived);
            }
            () = &mut draining => {
                if let Some(signal) = first {
                    child.signal(signal);
                }
            }
        }
    }
    let status = child.reap()?;
    if foreground {
        terminal::take_back();
    }
    Ok(exit_code(status))
}

/// Takes the instance out and ends the session.
async fn leave(registration: Option<&Registration>, keeper: &SessionKeeper, coord: &Coord) {
    let goodbye = async {
        let closed = match registration {
            Some(registration) => registration.close().await,
            None => Ok(()),
        };
        for left in [closed, keeper.close().await, coord.close().await] {
            if let Err(error) = left {
                tracing::debug!(%error, "the instance goes with its session");
            }
        }
    };
    if tokio::time::timeout(GOODBYE, goodbye).await.is_err() {
        say("the instance goes with its session, the store does not answer");
    }
}
