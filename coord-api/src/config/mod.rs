//! Which store, and how: by URL, file and environment.

mod file;
mod options;
mod registry;
mod secret;
mod url;

pub use file::Config;
pub use options::{OptionSpec, Options, parse_duration};
pub use registry::{BackendFactory, Registry};
pub use secret::Secret;
pub use url::{Host, StoreUrl};

/// `, did you mean "x"?` for the known name that is nearest to a wrong one, or nothing.
fn suggestion<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> String {
    known
        .map(|name| (strsim::damerau_levenshtein(wrong, name), name))
        .filter(|(distance, name)| *distance <= 1 + name.len() / 3)
        .min()
        .map_or_else(String::new, |(_, name)| format!("; did you mean \"{name}\"?"))
}
