//! The arguments of `coord service`.

use std::{ffi::OsString, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::Value;

use crate::args::{dir, duration};

/// The headings of options.
const REGISTRY: &str = "Registry";

/// Arguments of `service`.
#[derive(Args, Debug)]
pub struct ServiceArgs {
    /// The directory of the registry [default: /services, and /dubbo in Dubbo's layout]
    #[arg(long, global = true, value_name = "DIR", value_parser = dir, help_heading = REGISTRY)]
    pub root: Option<String>,

    /// How it is laid out in the store
    #[arg(long, global = true, value_enum, default_value_t, help_heading = REGISTRY)]
    pub layout: LayoutName,

    /// What to do.
    #[command(subcommand)]
    pub command: ServiceCommand,
}

/// How a registry is laid out in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LayoutName {
    /// coord's, which Curator and Spring Cloud Zookeeper read
    #[default]
    Native,
    /// Curator's, with names and ids as they are
    Xdiscovery,
    /// Dubbo's, of interfaces
    Dubbo,
}

/// What to do with services.
#[derive(Debug, Subcommand)]
pub enum ServiceCommand {
    /// Register an instance and keep it registered; exit 3 if somebody else has its id
    ///
    /// Stays until the command behind `--` ends, or until it is told to stop. It is registered again after an outage.
    /// The command finds COORD_SERVICE_NAME and COORD_SERVICE_ID in its environment, and no credentials.
    Register(Box<RegisterArgs>),
    /// List the services, or the instances of one; exit 1 if it has none
    List(ListArgs),
    /// Follow the instances of a service, one JSON object a change
    Watch(NameArgs),
    /// Take an instance out of service for good; exit 1 if there is none, 3 if only its process can
    ///
    /// Consumers send nothing new to it; it stays registered. This is for permanent instances, and in Dubbo's layout for
    /// all, by an override. An ephemeral one drains when its process is told to stop.
    Drain(InstanceArgs),
    /// Remove a permanent instance; exit 1 if there is none, 3 if it is not permanent
    Unregister(InstanceArgs),
}

/// Arguments of `service register`.
#[derive(Args, Debug)]
pub struct RegisterArgs {
    /// The service
    pub name: String,

    /// The id, unique in the service [default: the address with the port]
    #[arg(long)]
    pub id: Option<String>,

    /// Where it listens: a host name or an IP address [default: the address that this machine has towards others]
    #[arg(long, value_name = "HOST")]
    pub address: Option<String>,

    /// The port
    #[arg(long, required_unless_present = "tls_port", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,

    /// The port that speaks TLS
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub tls_port: Option<u16>,

    /// The share of requests that it should get, compared with others; 0 for none
    #[arg(long, value_name = "N", default_value_t = coord::registry::WEIGHT_DEFAULT)]
    pub weight: u32,

    /// The zone that it is in, such as a data centre
    #[arg(long)]
    pub zone: Option<String>,

    /// A label; may be given several times
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,

    /// What else consumers are told
    #[arg(long, value_name = "JSON", value_parser = json)]
    pub payload: Option<Value>,

    /// Write it once, to stay whatever becomes of this machine, and end
    #[arg(long, conflicts_with_all = ["command", "drain_wait", "timeout", "ttl"])]
    pub permanent: bool,

    /// How long the store keeps it after coord was last heard of
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = duration)]
    pub ttl: Duration,

    /// Wait at most this long for the id to be free, as after a crash; without it, do not wait
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub timeout: Option<Duration>,

    /// When told to stop, say that it drains and wait this long before it stops
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    pub drain_wait: Duration,

    /// A command to run meanwhile, and its arguments, behind `--`
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Arguments of `service list`.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// The service; without it, all
    pub name: Option<String>,
}

/// A service.
#[derive(Args, Debug)]
pub struct NameArgs {
    /// The service
    pub name: String,
}

/// An instance of a service.
#[derive(Args, Debug)]
pub struct InstanceArgs {
    /// The service
    pub name: String,

    /// The id of the instance
    pub id: String,
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a label is NAME=VALUE".to_owned()),
    }
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("this is no JSON: {error}"))
}
