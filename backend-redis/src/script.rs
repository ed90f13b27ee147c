//! The scripts: constant text, with all data in `KEYS` and `ARGV`.

use std::sync::LazyLock;

/// A script of the state machine.
#[derive(Debug)]
pub(crate) struct Script {
    /// What it is called in errors.
    pub(crate) name: &'static str,
    /// Whether it may change something, so that a lost reply is ambiguous.
    pub(crate) writes: bool,
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

macro_rules! reading {
    ($name:ident, $file:literal) => {
        pub(crate) static $name: Script = {
            const TEXT: &str =
                concat!("#!lua flags=no-writes\n", include_str!("lua/state.lua"), include_str!($file));
            Script {
                name: $file,
                writes: false,
                code: LazyLock::new(|| redis::Script::new(TEXT)),
                text: TEXT,
            }
        };
    };
}

macro_rules! writing {
    ($name:ident, $flags:literal, $file:literal) => {
        pub(crate) static $name: Script = {
            const TEXT: &str = concat!(
                "#!lua",
                $flags,
                "\n",
                include_str!("lua/state.lua"),
                include_str!("lua/write.lua"),
                include_str!($file)
            );
            Script { name: $file, writes: true, code: LazyLock::new(|| redis::Script::new(TEXT)), text: TEXT }
        };
    };
}

reading!(GET, "lua/get.lua");
reading!(NAMES, "lua/names.lua");
reading!(PAGE, "lua/page.lua");
reading!(HISTORY, "lua/history.lua");
reading!(TYPES, "lua/types.lua");
writing!(OPEN, "", "lua/open.lua");
writing!(COMMIT, "", "lua/commit.lua");
writing!(JOIN, "", "lua/join.lua");
// A server that is out of memory still renews, ends and reaps sessions, and frees what is asked to be freed.
writing!(RELEASE, " flags=allow-oom", "lua/commit.lua");
writing!(KEEPALIVE, " flags=allow-oom", "lua/keepalive.lua");
writing!(CLOSE, " flags=allow-oom", "lua/close.lua");
writing!(TICK, " flags=allow-oom", "lua/tick.lua");

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
            &GET, &NAMES, &PAGE, &HISTORY, &TYPES, &OPEN, &COMMIT, &JOIN, &RELEASE, &KEEPALIVE, &CLOSE, &TICK,
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
