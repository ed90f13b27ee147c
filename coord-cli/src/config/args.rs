//! The arguments of `coord config`.

use std::{net::IpAddr, path::PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use coord::config_centre::{Generation, Identity, Network, OnConflict, Percent, ReleaseVersion};

/// Arguments of `config`.
#[derive(Args, Debug)]
pub struct ConfigArgs {
    /// The directory of the config centre
    #[arg(long, global = true, value_name = "DIR", default_value = "/config", value_parser = crate::args::dir)]
    pub root: String,

    /// Show secrets: values of keys like password, token or key, and values that hold one, are masked otherwise
    #[arg(long, global = true)]
    pub show_secrets: bool,

    /// A file with the key of encrypted values: 32 bytes, or their base64. With it `get` and `watch` show what is in
    /// them, and `set` encrypts values of keys that look secret
    #[arg(long, global = true, value_name = "FILE")]
    pub key_file: Option<PathBuf>,

    /// The id of that key, which is written into values
    #[arg(long, global = true, value_name = "ID", default_value = "1")]
    pub key_id: String,

    /// What to do.
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// What to do with the config centre.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// List the namespaces
    Ls,
    /// Print what a namespace holds, or one item of it; exit 1 if it is absent
    Get(GetArgs),
    /// Change some items of a namespace and publish; exit 3 if somebody was faster
    Set(SetArgs),
    /// Publish all items or a document, whole; exit 3 if something else is there than expected
    Publish(PublishArgs),
    /// Tell who changed what, when and why, the latest first; exit 1 if nothing was published
    History(HistoryArgs),
    /// Compare two releases; exit 1 if they differ
    Diff(DiffArgs),
    /// Make a retained release the main one again. Takes effect at once; a draft stays as it is
    Rollback(RollbackArgs),
    /// Give some instances something else
    #[command(subcommand)]
    Gray(GrayCommand),
    /// Import namespaces from a directory or a tar archive
    Import(ImportArgs),
    /// Export namespaces into a directory, or into a tar archive if the name ends with .tar
    Export(ExportArgs),
    /// Follow what an instance is given, one JSON object a generation
    Watch(WatchArgs),
    /// Check the audit trail of a namespace; exit 1 if something was changed, or nothing was published
    Verify(NamespaceArgs),
    /// List the instances that consume a namespace, and what they run
    Instances(NamespaceArgs),
}

/// A namespace and nothing else.
#[derive(Args, Debug)]
pub struct NamespaceArgs {
    /// The namespace
    pub namespace: String,
}

/// Whose view it is.
#[derive(Args, Debug)]
pub struct AsInstance {
    /// As the instance with this id sees it, its gray rule applied
    #[arg(long = "as", value_name = "ID")]
    pub id: Option<String>,

    /// The address of that instance
    #[arg(long, value_name = "ADDRESS", requires = "id")]
    pub ip: Option<IpAddr>,

    /// A label of that instance
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair, requires = "id")]
    pub labels: Vec<(String, String)>,
}

impl AsInstance {
    pub(super) fn identity(&self) -> Identity {
        // Without an id, address and labels no rule is for it, but one that is for everybody.
        let identity = Identity::new(self.id.as_deref().unwrap_or_default());
        let identity = self.ip.into_iter().fold(identity, Identity::with_ip);
        self.labels.iter().fold(identity, |identity, (name, value)| identity.with_label(name, value))
    }
}

/// Arguments of `get`.
#[derive(Args, Debug)]
pub struct GetArgs {
    /// The namespace
    pub namespace: String,

    /// One item of it
    pub item: Option<String>,

    /// Namespaces to lay below it, the lowest first
    #[arg(long = "over", value_name = "NAMESPACE", requires = "id")]
    pub below: Vec<String>,

    /// Whose view.
    #[command(flatten)]
    pub view: AsInstance,
}

/// Who changes something, why, and what they expect.
#[derive(Args, Debug)]
pub struct EditArgs {
    /// The author, for the history [env: COORD_AUTHOR] [default: the name of the user]
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,

    /// Why, for the history
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub note: String,

    /// Only if this generation is there; 0 if nothing is
    #[arg(long, value_name = "GENERATION")]
    pub expect: Option<u64>,
}

/// Arguments of `set`.
#[derive(Args, Debug)]
pub struct SetArgs {
    /// The namespace
    pub namespace: String,

    /// Items to set. Other users of this machine can see arguments: give secrets by `publish` and standard input
    #[arg(value_name = "KEY=VALUE", value_parser = pair, required_unless_present = "remove")]
    pub items: Vec<(String, String)>,

    /// An item to remove
    #[arg(long, value_name = "KEY")]
    pub remove: Vec<String>,

    /// Who, why, and what is expected.
    #[command(flatten)]
    pub edit: EditArgs,
}

/// The form of what is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ContentFormat {
    /// Items: one JSON object with a text for each key
    Items,
    /// A document in JSON
    Json,
    /// A document in YAML
    Yaml,
    /// A document in TOML
    Toml,
    /// Any text
    Text,
}

/// Arguments of `publish`.
#[derive(Args, Debug)]
pub struct PublishArgs {
    /// The namespace
    pub namespace: String,

    /// The file; - for standard input
    pub file: PathBuf,

    /// What the file is; by its name if not given: .json, .yaml, .yml, .toml, .txt
    #[arg(long, value_enum)]
    pub format: Option<ContentFormat>,

    /// Who, why, and what is expected.
    #[command(flatten)]
    pub edit: EditArgs,
}

/// Arguments of `history`.
#[derive(Args, Debug)]
pub struct HistoryArgs {
    /// The namespace
    pub namespace: String,

    /// At most so many generations
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
}

/// Arguments of `diff`.
#[derive(Args, Debug)]
pub struct DiffArgs {
    /// The namespace
    pub namespace: String,

    /// The release to begin with
    #[arg(value_parser = release)]
    pub from: ReleaseVersion,

    /// The release to end with; the main one if not given
    #[arg(value_parser = release)]
    pub to: Option<ReleaseVersion>,
}

/// Arguments of `rollback`.
#[derive(Args, Debug)]
pub struct RollbackArgs {
    /// The namespace
    pub namespace: String,

    /// The release, as `history` shows it. An older one or, forward again, a later one
    #[arg(value_parser = release)]
    pub to: ReleaseVersion,

    /// Who, why, and what is expected.
    #[command(flatten)]
    pub edit: EditArgs,
}

/// What to do with gray rules.
#[derive(Debug, Subcommand)]
pub enum GrayCommand {
    /// List the rules, in the order in which they are asked, and how many of the live instances fall under each
    Ls(NamespaceArgs),
    /// Add or replace a rule. Without --set, --remove and --file the rule gives what it gave before
    Set(Box<GraySetArgs>),
    /// Give to everybody what a rule gives to some, and remove the rule
    Promote(GrayRuleArgs),
    /// Remove a rule
    Abandon(GrayRuleArgs),
}

/// Arguments of `gray set`.
#[derive(Args, Debug)]
pub struct GraySetArgs {
    /// The namespace
    pub namespace: String,

    /// The id of the rule
    pub rule: String,

    /// The smallest is asked first
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub priority: u32,

    /// Instances with this label; several values of one label are alternatives
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair)]
    pub labels: Vec<(String, String)>,

    /// Instances with an address in this network
    #[arg(long = "network", value_name = "CIDR", value_parser = network)]
    pub networks: Vec<Network>,

    /// This share of the instances; widening it drops none
    #[arg(long, value_name = "0.01..100", value_parser = percent)]
    pub percent: Option<Percent>,

    /// An item that they get
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = pair)]
    pub set: Vec<(String, String)>,

    /// An item that they do not get
    #[arg(long, value_name = "KEY")]
    pub remove: Vec<String>,

    /// A document that they get, instead of that of the main release
    #[arg(long, value_name = "FILE", conflicts_with_all = ["set", "remove"])]
    pub file: Option<PathBuf>,

    /// What the file is; by its name if not given
    #[arg(long, value_enum, requires = "file")]
    pub format: Option<ContentFormat>,

    /// Who, why, and what is expected.
    #[command(flatten)]
    pub edit: EditArgs,
}

/// Arguments of `gray promote` and `gray abandon`.
#[derive(Args, Debug)]
pub struct GrayRuleArgs {
    /// The namespace
    pub namespace: String,

    /// The id of the rule
    pub rule: String,

    /// Who, why, and what is expected.
    #[command(flatten)]
    pub edit: EditArgs,
}

/// What an import does with a namespace that holds something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Policy {
    /// Nothing is imported
    #[default]
    Abort,
    /// It stays as it is
    Skip,
    /// It is given what is imported, as a new generation
    Overwrite,
}

impl From<Policy> for OnConflict {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Abort => Self::Abort,
            Policy::Skip => Self::Skip,
            Policy::Overwrite => Self::Overwrite,
        }
    }
}

/// Arguments of `import`.
#[derive(Args, Debug)]
pub struct ImportArgs {
    /// The directory or tar archive; - for an archive on standard input
    pub path: PathBuf,

    /// What happens with a namespace that holds something else
    #[arg(long, value_enum, default_value_t)]
    pub on_conflict: Policy,

    /// Only tell what would be done
    #[arg(long)]
    pub dry_run: bool,

    /// The author, for the history [env: COORD_AUTHOR] [default: the name of the user]
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,

    /// Why, for the history
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub note: String,
}

/// Arguments of `export`.
#[derive(Args, Debug)]
pub struct ExportArgs {
    /// The directory, empty or new; a file whose name ends with .tar; - for an archive on standard output
    ///
    /// Secrets are in it as they are. Only you can read it.
    pub path: PathBuf,

    /// The namespaces; all if none is given
    pub namespaces: Vec<String>,
}

/// Arguments of `watch`.
#[derive(Args, Debug)]
pub struct WatchArgs {
    /// The namespace
    pub namespace: String,

    /// Namespaces to lay below it, the lowest first
    #[arg(long = "over", value_name = "NAMESPACE")]
    pub below: Vec<String>,

    /// Whose view.
    #[command(flatten)]
    pub view: AsInstance,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("NAME=VALUE is wanted")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn release(text: &str) -> Result<ReleaseVersion, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.map(ReleaseVersion::new).ok_or_else(|| "a release is a number from 1 on".to_owned())
}

fn network(text: &str) -> Result<Network, String> {
    text.parse().map_err(|error: coord::Error| error.to_string())
}

fn percent(text: &str) -> Result<Percent, String> {
    let number: f64 =
        text.trim_end_matches('%').parse().map_err(|_| "a percentage is a number".to_owned())?;
    Percent::new(number).map_err(|error| error.to_string())
}

/// What `--expect` means.
pub(super) fn expected(number: u64) -> coord::config_centre::Expected {
    match number {
        0 => coord::config_centre::Expected::Nothing,
        number => Generation::new(number).into(),
    }
}
