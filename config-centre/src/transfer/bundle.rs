//! What leaves a centre and enters another: namespaces with their content and all that belongs to it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::Path,
};

use coord_api::{Error, ErrorKind, Result, decode_segment, encode_segment};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    archive, dir,
    files::{Files, refused},
};
use crate::{Content, Format, Provenance, Rule};

/// The file that says that this is an export, and in which layout.
const MANIFEST: &str = "coord-config.json";
/// The layout that is written and read.
const LAYOUT: u32 = 1;
const METADATA: &str = "namespace.json";
const ITEMS: &str = "items.json";

/// Exported namespaces, as a directory of files or one tar archive.
///
/// Each namespace has a directory, with its content in `items.json` or `document.json`, `.yaml`, `.toml` or `.txt`, byte
/// for byte, and in `namespace.json` who released it, when and why, and its gray rules with what they give. Only the
/// content must be there: a directory can be written by hand. History, drafts and reports of instances stay behind.
/// Encrypted values stay encrypted, and bound to the name of their namespace.
///
/// One bundle always makes the same bytes.
///
/// ```
/// # coord_backend_memory::doc_example(async |store| {
/// use coord_config_centre::{Bundle, ConfigCentre, Content, Edit, Import};
///
/// let (here, there) = (ConfigCentre::new(&store, "/test")?, ConfigCentre::new(&store, "/live")?);
/// let content = Content::items([("rate", "100")]);
/// here.namespace("billing")?.publish(content, &Edit::by("ann")).await?.done()?;
///
/// let archive = here.export(["billing"]).await?.to_archive()?;
/// let bundle = Bundle::from_archive(&archive[..])?;
/// there.import(&bundle, Import::by("ben")).await?;
/// assert_eq!(there.export(["billing"]).await?.to_archive()?, archive);
/// # Ok(())
/// # });
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle {
    pub(super) namespaces: BTreeMap<String, Exported>,
}

/// One namespace of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exported {
    pub(crate) content: Content,
    /// Who released it; `None` if the files do not say.
    pub(crate) made: Option<Provenance>,
    pub(crate) grays: Vec<ExportedGray>,
}

/// A gray rule with all that it gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExportedGray {
    #[serde(flatten)]
    pub(crate) rule: Rule,
    pub(crate) gives: Given,
    /// What else the file says. A condition that we do not know must not be left out: the rule would match too many.
    #[serde(flatten, skip_serializing)]
    pub(super) unknown: BTreeMap<String, serde_json::Value>,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Given {
    Items {
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        set: BTreeMap<String, String>,
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        remove: BTreeSet<String>,
    },
    Document {
        made: Provenance,
        content: Content,
    },
}

impl fmt::Debug for Given {
    /// Shows no value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Items { set, remove } => write!(f, "{:?} without {remove:?}", Content::Items(set.clone())),
            Self::Document { content, .. } => content.fmt(f),
        }
    }
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    v: u32,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    released: Option<Provenance>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    grays: Vec<ExportedGray>,
}

impl Bundle {
    /// The names of the namespaces in it, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.namespaces.keys().map(String::as_str)
    }

    /// What a namespace of it holds; `None` if it has no such namespace.
    #[must_use]
    pub fn content(&self, namespace: &str) -> Option<&Content> {
        self.namespaces.get(namespace).map(|exported| &exported.content)
    }

    /// Writes it into a directory, which must be empty or not there yet. Only its owner may read it. Blocks.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if the directory holds something;
    /// [`Config`](ErrorKind::Config) with the file that cannot be written.
    pub fn to_dir(&self, dir: impl AsRef<Path>) -> Result<()> {
        dir::write(&self.to_files()?, dir.as_ref())
    }

    /// Reads a directory. Links are not followed, and names that begin with a dot are left out. Blocks.
    ///
    /// # Errors
    /// All name the file. [`Config`](ErrorKind::Config) if it cannot be read;
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for links, and files that have no place in an export;
    /// [`LimitExceeded`](ErrorKind::LimitExceeded) for more than 10,000 files, 16 MiB in one, or 256 MiB in all;
    /// [`Malformed`](ErrorKind::Malformed) for what is not in its form.
    pub fn from_dir(dir: impl AsRef<Path>) -> Result<Self> {
        Self::from_files(&dir::read(dir.as_ref())?)
    }

    /// It as a tar archive.
    ///
    /// # Errors
    /// None that is known: the archive is made in memory.
    pub fn to_archive(&self) -> Result<Vec<u8>> {
        archive::pack(&self.to_files()?)
    }

    /// Reads a tar archive. Nothing of it is unpacked to disk. Blocks as the reader does.
    ///
    /// # Errors
    /// As [`Bundle::from_dir`]; also for paths that lead out of the archive, devices, and what is no whole archive.
    pub fn from_archive(archive: impl std::io::Read) -> Result<Self> {
        Self::from_files(&archive::unpack(archive)?)
    }

    fn to_files(&self) -> Result<Files> {
        let mut files = Files::default();
        files.add(MANIFEST, pretty(&Manifest { v: LAYOUT })?)?;
        for (name, exported) in &self.namespaces {
            let dir = encode_segment(name);
            let metadata = Metadata { released: exported.made.clone(), grays: exported.grays.clone() };
            files.add(&format!("{dir}/{METADATA}"), pretty(&metadata)?)?;
            let (file, bytes) = match &exported.content {
                Content::Items(items) => (ITEMS.to_owned(), pretty(items)?),
                Content::Document { format, text } => (document_file(*format), text.clone().into_bytes()),
            };
            files.add(&format!("{dir}/{file}"), bytes)?;
        }
        Ok(files)
    }

    fn from_files(files: &Files) -> Result<Self> {
        if let Some(bytes) = files.get(MANIFEST) {
            let manifest: Manifest = parse(MANIFEST, bytes)?;
            if manifest.v != LAYOUT {
                return Err(Error::new(ErrorKind::Malformed, "the export has another layout")
                    .with_context("file", MANIFEST)
                    .with_context("layout", manifest.v)
                    .with_context("known", LAYOUT));
            }
        }
        let mut metadata = BTreeMap::new();
        let mut contents = BTreeMap::new();
        for (path, bytes) in files.iter().filter(|(path, _)| *path != MANIFEST) {
            let place = path.split_once('/').filter(|(_, file)| !file.contains('/'));
            let (dir, file) = place.ok_or_else(|| refused("this has no place in an export", path))?;
            let name = decode_segment(dir).filter(|name| !name.is_empty());
            let name = name.ok_or_else(|| refused("this directory is no name of a namespace", path))?;
            if file == METADATA {
                metadata.insert(name, parse_metadata(path, bytes)?);
                continue;
            }
            let content = content(path, file, bytes)?;
            if contents.insert(name, content).is_some() {
                return Err(refused("a namespace has one content, and this is the second", path));
            }
        }
        if let Some(name) = metadata.keys().find(|name| !contents.contains_key(*name)) {
            return Err(Error::new(ErrorKind::Malformed, "a namespace has no content")
                .with_context("namespace", name));
        }
        let namespaces = contents.into_iter().map(|(name, content)| {
            let Metadata { released, grays } = metadata.remove(&name).unwrap_or_default();
            (name, Exported { content, made: released, grays })
        });
        Ok(Self { namespaces: namespaces.collect() })
    }
}

fn document_file(format: Format) -> String {
    let extension = if format == Format::Text { "txt" } else { format.as_str() };
    format!("document.{extension}")
}

fn content(path: &str, file: &str, bytes: &[u8]) -> Result<Content> {
    if file == ITEMS {
        return parse(path, bytes).map(Content::Items);
    }
    let format = Format::ALL.into_iter().find(|format| document_file(*format) == file);
    let format = format.ok_or_else(|| refused("this has no place in an export", path))?;
    let text =
        std::str::from_utf8(bytes).map_err(|error| malformed(path, "it is no text").with_source(error))?;
    Ok(Content::document(format, text))
}

/// JSON that people can read and compare.
fn pretty(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(value).map_err(|error| {
        Error::new(ErrorKind::Unexpected, "a value cannot be written as JSON").with_source(error)
    })?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn parse<T: DeserializeOwned>(path: &str, bytes: &[u8]) -> Result<T> {
    // The text of the error may quote a value, which may be a secret; the place is enough.
    serde_json::from_slice(bytes).map_err(|error| {
        malformed(path, "it is not of the form that belongs there")
            .with_context("line", error.line())
            .with_context("column", error.column())
    })
}

fn parse_metadata(path: &str, bytes: &[u8]) -> Result<Metadata> {
    let metadata: Metadata = parse(path, bytes)?;
    match metadata.grays.iter().find_map(|gray| Some((gray, gray.unknown.keys().next()?))) {
        Some((gray, field)) => Err(malformed(path, "a gray rule has a field that is not known")
            .with_context("rule", &gray.rule.id)
            .with_context("field", field)),
        None => Ok(metadata),
    }
}

fn malformed(path: &str, why: &'static str) -> Error {
    Error::new(ErrorKind::Malformed, "a file of an export cannot be read")
        .with_context("file", path)
        .with_context("why", why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WallTime;

    fn provenance(by: &str) -> Provenance {
        serde_json::from_value(serde_json::json!({ "by": by, "at": 1_700_000_000_000_u64, "note": "why\n" }))
            .unwrap()
    }

    fn sample() -> Bundle {
        let rule = Rule::new("canary").with_label("zone", "a").with_priority(3);
        let set = BTreeMap::from([("rate".to_owned(), String::new())]);
        let items = Given::Items { set, remove: BTreeSet::from(["x".to_owned()]) };
        let document =
            Given::Document { made: provenance("ben"), content: Content::document(Format::Yaml, "a: 2\r\n") };
        let exported = |content, gives| Exported {
            content,
            made: Some(provenance("ann")),
            grays: vec![ExportedGray { rule: rule.clone(), gives, unknown: BTreeMap::new() }],
        };
        let namespaces = BTreeMap::from([
            ("a/b".to_owned(), exported(Content::items([("rate", "1"), ("x", "\u{1}")]), items)),
            ("..".to_owned(), exported(Content::document(Format::Yaml, "a: 1 # kept\r\n"), document)),
            (
                "plain".to_owned(),
                Exported { content: Content::document(Format::Text, ""), made: None, grays: vec![] },
            ),
        ]);
        Bundle { namespaces }
    }

    fn files(list: &[(&str, &str)]) -> Files {
        let mut files = Files::default();
        list.iter().for_each(|(path, text)| files.add(path, (*text).into()).unwrap());
        files
    }

    /// BB-238 (<https://github.com/alibaba/nacos/issues/13230>): an export lost tags and gray rules.
    #[test]
    fn all_of_it_comes_back_byte_for_byte() {
        let archive = sample().to_archive().unwrap();
        let back = Bundle::from_archive(&archive[..]).unwrap();
        assert_eq!(back, sample());
        assert_eq!(back.to_archive().unwrap(), archive);
        let dir = tempfile::tempdir().unwrap();
        sample().to_dir(dir.path()).unwrap();
        assert_eq!(Bundle::from_dir(dir.path()).unwrap().to_archive().unwrap(), archive);
        assert!(sample().namespaces["a/b"].made.as_ref().unwrap().at > WallTime::from_millis(0));
    }

    #[test]
    fn a_directory_may_be_written_by_hand() {
        let bundle = Bundle::from_files(&files(&[("billing/items.json", "{\"rate\": \"100\"}")])).unwrap();
        assert_eq!(bundle.content("billing").unwrap().item("rate"), Some("100"));
        assert_eq!(bundle.names().collect::<Vec<_>>(), ["billing"]);
    }

    #[test]
    fn what_is_no_export_is_refused_by_file() {
        for (list, named) in [
            (&[("x.json", "{}")][..], "file=x.json"),
            (&[("a/b/items.json", "{}")], "file=a/b/items.json"),
            (&[("a/document.xml", "")], "file=a/document.xml"),
            (&[("%zz/items.json", "{}")], "file=%zz/items.json"),
            (&[("%/items.json", "{}")], "file=%/items.json"),
            (&[("a/items.json", "{}"), ("a/document.txt", "")], "second"),
            (&[("a/items.json", "{\"a\": 1}")], "file=a/items.json"),
            (&[("a/items.json", "{}"), ("a/namespace.json", "{\"tags\": []}")], "file=a/namespace.json"),
            (&[("a/namespace.json", "{}")], "namespace=a"),
            (
                &[
                    ("a/items.json", "{}"),
                    (
                        "a/namespace.json",
                        r#"{"grays":[{"id":"g","priority":1,"hosts":[],"gives":{"items":{}}}]}"#,
                    ),
                ],
                "field=hosts",
            ),
            (&[("coord-config.json", "{\"v\": 2}")], "layout=2"),
        ] {
            let error = Bundle::from_files(&files(list)).unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
        }
        let mut binary = Files::default();
        binary.add("a/document.txt", vec![0xff]).unwrap();
        assert_eq!(Bundle::from_files(&binary).unwrap_err().kind(), ErrorKind::Malformed);
        let secret =
            Bundle::from_files(&files(&[("a/items.json", "{\"password\": [\"hunter2\"]}")])).unwrap_err();
        assert!(!format!("{secret:?}").contains("hunter2"), "{secret}");
    }
}
