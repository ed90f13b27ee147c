//! The seven keys of a namespace.

use coord_api::Dir;

/// What the keys end in, in the order of [`Name`].
const SUFFIXES: [&str; 7] = ["m", "kv", "ix", "ss", "si", "ow", "ev"];
/// The namespace of a URL without a path.
const DEFAULT: &str = "coord";

/// One of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// The revision, and what else there is one of.
    Meta,
    /// The records, by path.
    Records,
    /// The paths, in order.
    Index,
    /// The sessions, by deadline.
    Deadlines,
    /// The sessions' time to live.
    Ttls,
    /// Who owns which keys.
    Owned,
    /// The stream of changes.
    Log,
}

/// The keys of one namespace: `{name}:m` and so on.
///
/// The braces make a hash tag, so that a cluster keeps the seven in one slot and a script may touch them together.
#[derive(Clone, Debug)]
pub(crate) struct Names([String; 7]);

impl Names {
    /// The keys for the path of a URL.
    pub(crate) fn new(path: &Dir) -> Self {
        let tag = tag(path);
        Self(SUFFIXES.map(|suffix| format!("{{{tag}}}:{suffix}")))
    }

    /// All of them, in the order of [`Name`].
    pub(crate) fn all(&self) -> &[String] {
        &self.0
    }

    /// One of them.
    pub(crate) fn get(&self, name: Name) -> &str {
        &self.0[name as usize]
    }
}

/// The hash tag: the path with what would end or begin a tag encoded, and `%` so that no two paths become one.
fn tag(path: &Dir) -> String {
    if path.is_root() {
        return DEFAULT.to_owned();
    }
    let mut tag = String::new();
    for c in path.as_str().trim_start_matches('/').chars() {
        match c {
            '{' => tag.push_str("%7B"),
            '}' => tag.push_str("%7D"),
            '%' => tag.push_str("%25"),
            c => tag.push(c),
        }
    }
    tag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_of_a_namespace_share_one_hash_tag_whatever_its_name() {
        for (path, tag) in
            [("/", "coord"), ("/app", "app"), ("/a/b", "a/b"), ("/a}{b", "a%7D%7Bb"), ("/a%7D", "a%257D")]
        {
            let names = Names::new(&Dir::parse(path).unwrap());
            for key in names.all() {
                // As the server finds it: between the first `{` and the first `}` behind it.
                let found = key.split_once('{').unwrap().1.split_once('}').unwrap().0;
                assert_eq!(found, tag, "{key}");
            }
        }
    }
}
