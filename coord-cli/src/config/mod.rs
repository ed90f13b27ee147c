//! `coord config`: the config centre from the shell.

pub(crate) mod args;
mod gray;
mod read;
mod show;
mod transfer;
mod watch;
mod write;

use std::path::Path;

use coord::config_centre::{ConfigCentre, Edit, Keyring, Layers, Namespace};
use coord::{Coord, ErrorKind, Secret};

use crate::{Failure, code, exit::say, output::Output};
use args::{ConfigArgs, ConfigCommand, EditArgs, expected};

/// The centre, and how the user wants to see it.
pub(crate) struct Context {
    centre: ConfigCentre,
    show_secrets: bool,
    keyring: Option<Keyring>,
}

/// Runs one command. What is refused because of what is there is a code of its own, and no failure of `coord`.
pub(crate) async fn run(coord: &Coord, out: &mut Output<'_>, args: ConfigArgs) -> Result<u8, Failure> {
    let keyring = args.key_file.as_deref().map(|file| keyring(&args.key_id, file)).transpose()?;
    let centre = ConfigCentre::new(coord, args.root.as_str())?;
    let context = Context { centre, show_secrets: args.show_secrets, keyring };
    match Box::pin(context.dispatch(out, args.command)).await {
        Err(Failure::Store(error)) if error.kind() == ErrorKind::Conflict => {
            say(&format!("{error}; nothing was changed"));
            Ok(code::CONFLICT)
        }
        Err(Failure::Store(error)) if error.kind() == ErrorKind::NotFound => {
            say(&error.to_string());
            Ok(code::NO)
        }
        // The rights of the store's user have nothing to do with it.
        Err(Failure::Store(error)) if error.context().any(|(name, _)| name == "key_id") => {
            Err(Failure::Setup(error.to_string()))
        }
        done => done,
    }
}

impl Context {
    async fn dispatch(&self, out: &mut Output<'_>, command: ConfigCommand) -> Result<u8, Failure> {
        match command {
            ConfigCommand::Ls => self.ls(out).await,
            ConfigCommand::Get(args) => self.get(out, &args).await,
            ConfigCommand::Set(args) => self.set(out, &args).await,
            ConfigCommand::Publish(args) => self.publish(out, &args).await,
            ConfigCommand::History(args) => self.history(out, &args).await,
            ConfigCommand::Diff(args) => self.diff(out, &args).await,
            ConfigCommand::Rollback(args) => self.rollback(out, &args).await,
            ConfigCommand::Gray(command) => self.gray(out, command).await,
            ConfigCommand::Import(args) => self.import(out, &args).await,
            ConfigCommand::Export(args) => self.export(out, &args).await,
            ConfigCommand::Watch(args) => self.watch(out, &args).await,
            ConfigCommand::Verify(args) => self.verify(out, &args).await,
            ConfigCommand::Instances(args) => self.instances(out, &args).await,
        }
    }

    fn namespace(&self, name: &str) -> Result<Namespace, Failure> {
        Ok(self.centre.namespace(name)?)
    }

    /// The namespace over those below it.
    fn layers(&self, below: &[String], top: &str) -> Result<Layers, Failure> {
        let names = below.iter().map(String::as_str).chain([top]);
        let namespaces = names.map(|name| self.centre.namespace(name)).collect::<coord::Result<Vec<_>>>()?;
        Ok(Layers::new(namespaces)?)
    }
}

fn keyring(id: &str, file: &Path) -> Result<Keyring, Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::Setup(format!("the key cannot be read: {}: {error}", file.display())))?;
    Ok(Keyring::new(id, &Secret::new(text.trim()))?)
}

/// Who changes something: as the argument, the environment or the system says.
fn author(by: Option<&str>) -> String {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let user = || variable("COORD_AUTHOR").or_else(|| variable("USER")).or_else(|| variable("LOGNAME"));
    by.map(str::to_owned).or_else(user).unwrap_or_else(|| "unknown".to_owned())
}

fn edit(args: &EditArgs) -> Edit {
    let edit = Edit::by(author(args.by.as_deref())).note(&args.note);
    match args.expect {
        Some(number) => edit.expecting(expected(number)),
        None => edit,
    }
}
