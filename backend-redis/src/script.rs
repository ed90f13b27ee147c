//! The scripts: constant text, with all data in `KEYS` and `ARGV`.

use std::sync::LazyLock;

use crate::names::Name;

/// What most scripts declare.
const ALL: &[Name] =
    &[Name::Meta, Name::Records, Name::Index, Name::Deadlines, Name::Ttls, Name::Owned, Name::Log];
/// What a put without conditions touches.
const OF_A_PUT: &[Name] = &[Name::Meta, Name::Records, Name::Index, Name::Log];

/// A script of the state machine.
#[derive(Debug)]
pub(crate) struct Script {
    /// What it is called in errors.
    pub(crate) name: &'static str,
    /// Whether it may change something, so that a lost reply is ambiguous.
    pub(crate) writes: bool,
    /// The keys that it declares.
    pub(crate) keys: &'static [Name],
    code: LazyLock<redis::Script>,
    text: &'static str,
}

impl Script {
    /// The text to load.
    pub(crate) const fn text(&self) -> &'static str {
        self.text
    }

    /// The SHA-1 by which the server knows it.
    pub(crate) fn hash(&self) -> &str {
        self.code.get_hash()
    }
}

macro_rules! script {
    ($name:ident, $keys:ident, $writes:literal, $flags:literal, $file:literal $(, $part:literal)*) => {
        pub(crate) static $name: Script = {
            const TEXT: &str =
                concat!("#!lua", $flags, "\n", $(include_str!($part),)* include_str!($file));
            Script {
                name: $file,
                writes: $writes,
                keys: $keys,
                code: LazyLock::new(|| redis::Script::new(TEXT)),
                text: TEXT,
            }
        };
    };
}

/// A script gets the parts it uses and no others: the server defines their functions anew in every call.
macro_rules! reading {
    ($name:ident, $file:literal $(, $part:literal)*) => {
        script!($name, ALL, false, " flags=no-writes", $file, "lua/state.lua" $(, $part)*);
    };
}

macro_rules! writing {
    ($name:ident, $flags:literal, $file:literal $(, $part:literal)*) => {
        script!($name, ALL, true, $flags, $file, "lua/state.lua", "lua/write.lua" $(, $part)*);
    };
}

reading!(NAMES, "lua/names.lua", "lua/read.lua", "lua/dir.lua");
reading!(PAGE, "lua/page.lua", "lua/read.lua", "lua/dir.lua");
reading!(HISTORY, "lua/history.lua", "lua/read.lua");
reading!(TYPES, "lua/types.lua");
script!(PUT, OF_A_PUT, true, "", "lua/put.lua");
writing!(COMMIT, "", "lua/commit.lua");
writing!(JOIN, "", "lua/join.lua", "lua/dir.lua");
writing!(OPEN, "", "lua/open.lua", "lua/reap.lua");
// A server that is out of memory still renews, ends and reaps sessions, and frees what is asked to be freed.
writing!(RELEASE, " flags=allow-oom", "lua/commit.lua");
writing!(KEEPALIVE, " flags=allow-oom", "lua/keepalive.lua", "lua/reap.lua");
writing!(CLOSE, " flags=allow-oom", "lua/close.lua", "lua/reap.lua");
writing!(TICK, " flags=allow-oom", "lua/tick.lua", "lua/reap.lua");

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    /// Data that gets into the text of a script could become code.
    #[test]
    fn no_source_puts_data_into_the_text_of_a_script() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut seen = 0;
        for file in fs::read_dir(sources).unwrap().map(|file| file.unwrap().path()) {
            if file.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let text = fs::read_to_string(&file).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            let about_scripts = ["EVAL\"", "EVALSHA", "\"SCRIPT\"", "redis::Script", ".text()", "#!lua"];
            for (number, line) in code.lines().enumerate() {
                if about_scripts.iter().any(|word| line.contains(word)) {
                    seen += 1;
                    let near = code.lines().skip(number.saturating_sub(3)).take(7).collect::<String>();
                    assert!(!near.contains("format!") && !near.contains("push_str"), "{file:?}: {near}");
                }
            }
            assert!(!code.contains("\"EVAL\""), "{file:?}: only loaded scripts are called");
        }
        assert!(seen > 3, "the test looks at the wrong files");
    }

    #[test]
    fn scripts_that_only_read_say_so_and_differ_from_all_others() {
        let all = [
            &NAMES, &PAGE, &HISTORY, &TYPES, &PUT, &OPEN, &COMMIT, &JOIN, &RELEASE, &KEEPALIVE, &CLOSE, &TICK,
        ];
        let hashes: std::collections::HashSet<_> = all.iter().map(|script| script.hash()).collect();
        assert_eq!(hashes.len(), all.len());
        for script in all {
            assert_eq!(
                script.text().starts_with("#!lua flags=no-writes\n"),
                !script.writes,
                "{}",
                script.name
            );
        }
    }
}
