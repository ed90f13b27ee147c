//! `drain` and `unregister`: what an operator does to an instance of others.

use std::time::Duration;

use coord::{
    Coord, ErrorKind, SessionKeeper, SessionOptions,
    registry::{DubboService, DubboUrl, Instance, Kind, Registry, Status},
};

use super::{
    Place,
    args::{InstanceArgs, LayoutName},
};
use crate::{Failure, code, exit::say, output::printable_text};

/// The session that changing a permanent instance never uses.
const TTL: Duration = Duration::from_secs(10);

pub(super) async fn drain(place: &Place, coord: &Coord, args: &InstanceArgs) -> Result<u8, Failure> {
    let registry = place.registry(coord)?;
    let found = registry.instances(&args.name).await?.instances;
    let Some(instance) = found.iter().find(|instance| instance.id() == args.id).cloned() else {
        return Ok(absent(args));
    };
    match instance.kind() {
        _ if place.layout == LayoutName::Dubbo => override_it(coord, place, &instance).await,
        Kind::Permanent => drain_permanent(coord, &registry, instance).await,
        Kind::Ephemeral => {
            say(&format!(
                "{} is ephemeral: only its process can drain it, when it is told to stop",
                printable_text(&args.id)
            ));
            Ok(code::CONFLICT)
        }
    }
}

/// Registering it again as it is gives the right to change it.
async fn drain_permanent(coord: &Coord, registry: &Registry, instance: Instance) -> Result<u8, Failure> {
    let keeper = SessionKeeper::new(coord, SessionOptions::new(TTL));
    let changed = async {
        let registration = registry.register(&keeper, instance).await?;
        registration.set_status(Status::Draining).await
    };
    match changed.await {
        Ok(()) => Ok(code::YES),
        Err(error) if error.kind() == ErrorKind::NotHolder => {
            say(&format!("somebody else changed it meanwhile: {error}"));
            Ok(code::CONFLICT)
        }
        Err(error) => Err(error.into()),
    }
}

/// What Dubbo's own console does: the consumers of Dubbo heed it too.
async fn override_it(coord: &Coord, place: &Place, instance: &Instance) -> Result<u8, Failure> {
    let rule = DubboUrl::new("override", instance.address(), Some(instance.port()), instance.name())
        .with("category", "configurators")
        .with("disabled", "true")
        .with("dynamic", "false")
        .with("enabled", "true");
    let rule = ["group", "version"].iter().fold(rule, |rule, name| match instance.labels().get(*name) {
        Some(value) => rule.with(*name, value),
        None => rule,
    });
    DubboService::new(coord, place.root(), instance.name())?.put_override(&rule).await?;
    Ok(code::YES)
}

pub(super) async fn unregister(registry: &Registry, args: &InstanceArgs) -> Result<u8, Failure> {
    match registry.unregister(&args.name, &args.id).await {
        Ok(true) => Ok(code::YES),
        Ok(false) => Ok(absent(args)),
        Err(error) if error.kind() == ErrorKind::NotHolder => {
            say(&error.to_string());
            Ok(code::CONFLICT)
        }
        Err(error) => Err(error.into()),
    }
}

fn absent(args: &InstanceArgs) -> u8 {
    say(&format!("{} has no instance {}", printable_text(&args.name), printable_text(&args.id)));
    code::NO
}
