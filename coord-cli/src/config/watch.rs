//! `watch`: what an instance is given, as it is given.

use std::sync::Arc;

use coord::config_centre::{Configuration, Consumer, ConsumerOptions, Content, Identity, Layers};
use futures::StreamExt;
use serde_json::{Value, json};

use super::{Context, args::WatchArgs, show::layers};
use crate::{Failure, Format, code, exit::say, output::Output, output::printable_text, watch::reader_gone};

impl Context {
    /// Writes each configuration as it comes, flushed; what is refused is told on standard error.
    pub(super) async fn watch(&self, out: &mut Output<'_>, args: &WatchArgs) -> Result<u8, Failure> {
        let layers = self.layers(&args.below, &args.namespace)?;
        let consumer = Consumer::open(layers, self.options(args.view.identity()))?;
        let (mut changes, mut statuses) = (consumer.changes(), consumer.statuses());
        let as_json = out.streaming_format() == Format::Jsonl;
        let unread = reader_gone()?;
        tokio::pin!(unread);
        loop {
            tokio::select! {
                biased;
                () = &mut unread => break,
                change = changes.next() => match change {
                    Some(now) if as_json => out.line(&self.object(&now).to_string())?,
                    Some(now) => out.line(&self.text(&now))?,
                    None => break,
                },
                // The sender lives as long as the consumer.
                _ = statuses.changed() => {
                    let error = statuses.borrow_and_update().error.clone();
                    if let Some(error) = error {
                        say(&format!("refused: {error}"));
                    }
                }
            }
        }
        Ok(code::YES)
    }

    /// What an instance is given now; `None` if nothing was published.
    pub(super) async fn configuration(
        &self,
        layers: Layers,
        identity: Identity,
    ) -> Result<Option<Arc<Configuration>>, Failure> {
        let names: Vec<_> = layers.names().map(str::to_owned).collect();
        for name in names {
            if self.namespace(&name)?.head().await?.is_some() {
                let consumer = Consumer::open(layers, self.options(identity))?;
                return Ok(Some(consumer.ready().await?));
            }
        }
        Ok(None)
    }

    fn options(&self, identity: Identity) -> ConsumerOptions {
        // The one who looks is no instance: rules that go by its id see an empty one.
        let identity = if identity.id.is_empty() { Identity::new("coord") } else { identity };
        let options = ConsumerOptions::new(identity);
        match &self.keyring {
            Some(keyring) => options.with_keyring(keyring.clone()),
            None => options,
        }
    }

    fn object(&self, now: &Configuration) -> Value {
        let shown = self.shown(now.content());
        match &*shown {
            Content::Items(items) => json!({
                "layers": layers(now),
                "items": items,
                "origins": items.keys().map(|key| (key.clone(), json!(now.origin(key)))).collect::<serde_json::Map<_, _>>(),
            }),
            Content::Document { format, text } => json!({
                "layers": layers(now),
                "format": format.as_str(),
                "text": text,
                "origin": now.document_origin(),
            }),
        }
    }

    fn text(&self, now: &Configuration) -> String {
        let generation = now.generation().map_or_else(|| "-".to_owned(), |generation| generation.to_string());
        let shown = self.shown(now.content());
        let content = match &*shown {
            Content::Items(items) => {
                let items: Vec<_> = items.iter().map(|(key, value)| format!("{key}={value}")).collect();
                items.join(" ")
            }
            Content::Document { text, .. } => text.clone(),
        };
        format!("{generation}\t{}", printable_text(&content))
    }
}
