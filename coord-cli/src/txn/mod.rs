//! `txn`: checks and writes that happen together or not at all.

mod statement;

use clap::Args;
use coord::{Commit, Failed, Limits, Rejection, Txn, TxnOutcome, Written};
use serde_json::{Value, json};

use crate::{
    Failure, Format, code,
    exit::say,
    input::stdin,
    output::{Output, printable_text},
    store::Source,
};
use statement::{Action, Statement};

/// Arguments of `txn`.
#[derive(Args, Debug)]
pub struct TxnArgs {
    /// Checks and writes, one an argument: "absent KEY", "exists KEY", "version KEY N", "created KEY REVISION",
    /// "create KEY VALUE", "update KEY VALUE", "put KEY VALUE", "delete KEY". Without any they are read from standard
    /// input, one a line
    #[arg(value_name = "STATEMENT")]
    pub statements: Vec<String>,
}

/// Applies all of it or nothing, and tells which condition did not hold.
pub(crate) async fn txn(source: &Source, out: &mut Output<'_>, args: TxnArgs) -> Result<u8, Failure> {
    let (texts, what) = if args.statements.is_empty() {
        (lines()?, "line")
    } else {
        (args.statements.into_iter().enumerate().collect(), "statement")
    };
    let mut statements = Vec::with_capacity(texts.len());
    for (at, text) in texts {
        match Statement::parse(at + 1, &text) {
            Ok(statement) => statements.push(statement),
            Err(why) => {
                say(&format!("{what} {}: {why}; nothing was written", at + 1));
                return Ok(code::USAGE);
            }
        }
    }
    let txn = statements.iter().fold(Txn::new(), |txn, statement| match &statement.action {
        Action::Check(check) => txn.check(check.clone()),
        Action::Write(op) => txn.op(op.clone()),
    });
    // What no store takes is a wrong argument. What this one does not take it tells itself.
    let takes_all = Limits { txn_max_ops: usize::MAX, request_max_bytes: usize::MAX, ..Limits::PORTABLE };
    let takes_all = Limits { value_max_bytes: usize::MAX, ..takes_all };
    if let Err(error) = txn.validate(&takes_all) {
        say(&format!("{error}; nothing was written"));
        return Ok(code::USAGE);
    }
    match source.connect().await?.commit(txn).await? {
        TxnOutcome::Committed(commit) => committed(out, &statements, &commit),
        TxnOutcome::Rejected(rejection) => rejected(out, &statements, rejection, what),
    }
}

/// The statements of standard input, each with the index of its line.
fn lines() -> Result<Vec<(usize, String)>, Failure> {
    let text = String::from_utf8(stdin("the transaction")?)
        .map_err(|_| Failure::Setup("standard input is not UTF-8; give such a value in JSON".to_owned()))?;
    let meant = |line: &str| !line.trim().is_empty() && !line.starts_with('#');
    Ok(text
        .lines()
        .enumerate()
        .filter(|(_, line)| meant(line))
        .map(|(at, line)| (at, line.to_owned()))
        .collect())
}

fn committed(out: &mut Output<'_>, statements: &[Statement], commit: &Commit) -> Result<u8, Failure> {
    let keys = statements.iter().filter(|statement| matches!(statement.action, Action::Write(_)));
    let writes: Vec<(&str, Option<Written>)> =
        keys.map(Statement::key).zip(commit.written.iter().copied()).collect();
    match out.format() {
        Format::Json | Format::Jsonl => {
            let write = |(key, written): &(&str, Option<Written>)| match written {
                Some(Written { version, .. }) => json!({ "key": key, "version": version.get() }),
                None => json!({ "key": key, "deleted": true }),
            };
            out.json(&json!({
                "committed": true,
                // A transaction that only deletes has none on every store.
                "revision": commit.revision().map(|revision| revision.get()),
                "written": writes.iter().map(write).collect::<Vec<Value>>(),
            }))?;
        }
        format => {
            let mut rows = Vec::new();
            if format == Format::Table {
                rows.push(["KEY", "VERSION", "REVISION"].map(str::to_owned).to_vec());
            }
            for (key, written) in writes {
                let (version, revision) = written.map_or_else(
                    || ("deleted".to_owned(), "-".to_owned()),
                    |written| (written.version.to_string(), written.revision.to_string()),
                );
                rows.push(vec![printable_text(key), version, revision]);
            }
            if format == Format::Table {
                out.table(&rows)?;
            } else {
                for row in rows {
                    out.line(&row[..2].join("\t"))?;
                }
            }
        }
    }
    Ok(code::YES)
}

fn rejected(
    out: &mut Output<'_>,
    statements: &[Statement],
    rejection: Rejection,
    what: &str,
) -> Result<u8, Failure> {
    let of = |checks: bool, at: usize| {
        let is_check = |statement: &Statement| matches!(statement.action, Action::Check(_));
        statements.iter().filter(|statement| is_check(statement) == checks).nth(at)
    };
    let failed = match rejection.failed {
        Some(Failed::Check(at)) => of(true, at),
        Some(Failed::Op(at)) => of(false, at),
        None => None,
    };
    match failed {
        Some(statement) => say(&format!(
            "{what} {} did not hold: {}: {}; nothing was written",
            statement.at,
            printable_text(&statement.short()),
            statement.refusal()
        )),
        None => say("a condition did not hold, and the store does not tell which; nothing was written"),
    }
    if matches!(out.format(), Format::Json | Format::Jsonl) {
        let failed = failed
            .map(|statement| json!({ what: statement.at, "what": statement.word(), "key": statement.key() }));
        out.json(&json!({ "committed": false, "failed": failed }))?;
    }
    Ok(code::CONFLICT)
}
