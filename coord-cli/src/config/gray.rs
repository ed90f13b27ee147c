//! `gray`: rules that give some instances something else.

use coord::config_centre::{Alternative, GrayContent, Identity, Namespace, Preview, Rule};
use serde_json::{Value, json};

use super::{
    Context,
    args::{GrayCommand, GraySetArgs, NamespaceArgs},
    edit,
    read::{cell, rows},
    show::{conditions, edited},
    write::content,
};
use crate::{Failure, code, exit::say, output::Output};

impl Context {
    pub(super) async fn gray(&self, out: &mut Output<'_>, command: GrayCommand) -> Result<u8, Failure> {
        match command {
            GrayCommand::Ls(args) => self.gray_ls(out, &args).await,
            GrayCommand::Set(args) => self.gray_set(out, &args).await,
            GrayCommand::Promote(args) => {
                let namespace = self.namespace(&args.namespace)?;
                let done = namespace.promote(&args.rule, &edit(&args.edit)).await?;
                Ok(edited(out, &args.namespace, done)?.0)
            }
            GrayCommand::Abandon(args) => {
                let namespace = self.namespace(&args.namespace)?;
                let done = namespace.abandon(&args.rule, &edit(&args.edit)).await?;
                Ok(edited(out, &args.namespace, done)?.0)
            }
        }
    }

    async fn gray_ls(&self, out: &mut Output<'_>, args: &NamespaceArgs) -> Result<u8, Failure> {
        let namespace = self.namespace(&args.namespace)?;
        let Some(head) = namespace.head().await? else {
            say("nothing was published yet");
            return Ok(code::NO);
        };
        let live = live(&namespace).await?;
        let preview = Preview::of(&head, &live);
        let objects = head.grays.iter().map(|gray| {
            json!({
                "rule": gray.rule.id,
                "priority": gray.rule.priority,
                "conditions": conditions(&gray.rule),
                "gives": self.gives(&gray.change),
                "matches": preview.count(&gray.rule.id),
                "of": live.len(),
            })
        });
        let names = ["RULE", "PRIORITY", "CONDITIONS", "MATCHES", "OF"];
        let fields = ["rule", "priority", "conditions", "matches", "of"];
        rows(out, &names, objects.collect(), |gray| fields.map(|field| cell(gray, field)).to_vec())?;
        Ok(code::YES)
    }

    /// What a rule gives, as it may be shown.
    fn gives(&self, change: &Alternative) -> Value {
        match change {
            Alternative::Items { set, remove } => {
                let set = set.iter().map(|(key, value)| (key.clone(), json!(self.shown_value(key, value))));
                json!({ "set": set.collect::<serde_json::Map<_, _>>(), "remove": remove })
            }
            Alternative::Release(release) => json!({ "release": release.version.get() }),
            _ => Value::Null,
        }
    }

    async fn gray_set(&self, out: &mut Output<'_>, args: &GraySetArgs) -> Result<u8, Failure> {
        let namespace = self.namespace(&args.namespace)?;
        let mut rule = Rule::new(&args.rule).with_priority(args.priority);
        for (name, value) in &args.labels {
            rule = rule.with_label(name, value);
        }
        for network in &args.networks {
            rule = rule.with_network(*network);
        }
        rule = args.percent.into_iter().fold(rule, Rule::with_percent);
        let edit = edit(&args.edit);
        let done = match self.gray_content(args)? {
            Some(gives) => namespace.set_gray(rule, gives, &edit).await?,
            None => namespace.set_rule(rule, &edit).await?,
        };
        let (code, head) = edited(out, &args.namespace, done)?;
        let live = live(&namespace).await?;
        let matches = Preview::of(&head, &live).count(&args.rule);
        say(&format!("the rule is for {matches} of the {} live instances", live.len()));
        Ok(code)
    }

    /// What the rule is to give; `None` if that is to stay.
    fn gray_content(&self, args: &GraySetArgs) -> Result<Option<GrayContent>, Failure> {
        if let Some(file) = &args.file {
            return Ok(Some(GrayContent::whole(content(file, args.format)?)));
        }
        if args.set.is_empty() && args.remove.is_empty() {
            return Ok(None);
        }
        let gives = GrayContent::set(args.set.clone());
        Ok(Some(args.remove.iter().fold(gives, GrayContent::remove)))
    }
}

/// The instances that report that they consume this namespace.
async fn live(namespace: &Namespace) -> Result<Vec<Identity>, Failure> {
    Ok(namespace.instances().await?.reports.into_iter().map(|report| report.identity).collect())
}
