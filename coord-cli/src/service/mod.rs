//! `coord service`: the registry from the shell.

pub(crate) mod args;
mod change;
mod read;
mod register;
mod show;

use coord::{
    Coord,
    registry::{DubboLayout, Registry, XDiscoveryLayout},
};

use crate::{Failure, output::Output, store::Source};
use args::{LayoutName, ServiceArgs, ServiceCommand};

/// Which registry.
#[derive(Debug)]
struct Place {
    root: Option<String>,
    layout: LayoutName,
}

impl Place {
    fn root(&self) -> &str {
        let usual = if self.layout == LayoutName::Dubbo { "/dubbo" } else { "/services" };
        self.root.as_deref().unwrap_or(usual)
    }

    fn registry(&self, coord: &Coord) -> Result<Registry, Failure> {
        let registry = Registry::new(coord, self.root())?;
        Ok(match self.layout {
            LayoutName::Native => registry,
            LayoutName::Xdiscovery => registry.with_layout(XDiscoveryLayout::new()),
            LayoutName::Dubbo => registry.with_layout(DubboLayout::new()),
        })
    }
}

pub(crate) async fn run(source: &Source, out: &mut Output<'_>, args: ServiceArgs) -> Result<u8, Failure> {
    let place = Place { root: args.root, layout: args.layout };
    match args.command {
        ServiceCommand::Register(args) => register::register(source, out, &place, &args).await,
        ServiceCommand::List(args) => {
            let registry = place.registry(&source.connect().await?)?;
            match args.name {
                Some(name) => read::instances(&registry, out, &name).await,
                None => read::services(&registry, out).await,
            }
        }
        ServiceCommand::Watch(args) => {
            read::watch(&place.registry(&source.connect().await?)?, out, &args.name).await
        }
        ServiceCommand::Drain(args) => change::drain(&place, &source.connect().await?, &args).await,
        ServiceCommand::Unregister(args) => {
            change::unregister(&place.registry(&source.connect().await?)?, &args).await
        }
    }
}
