//! `copy`: keys from one store or directory to another.

mod end;
mod progress;
mod show;
mod transfer;

use clap::Args;
use coord::{Dir, ErrorKind, Key};

use crate::{Failure, code, exit::say, output::Output, store::Source, walk::walk};
use end::End;
use progress::Progress;
use show::{LeftOut, Summary};

/// Arguments of `copy`.
#[derive(Args, Debug)]
pub struct CopyArgs {
    /// From where: a URL, a configuration file (*.toml), or a directory such as /app of the store of --url
    #[arg(value_parser = End::parse)]
    pub from: End,

    /// To where, likewise
    #[arg(value_parser = End::parse)]
    pub to: End,

    /// Copy although something is there already: keys of the same name are overwritten, others stay
    #[arg(long)]
    pub overwrite: bool,

    /// Only read, and tell what would be copied
    #[arg(long, short = 'n')]
    pub dry_run: bool,
}

/// Copies, and compares digests of both sides afterwards.
pub(crate) async fn copy(source: &Source, out: &mut Output<'_>, args: CopyArgs) -> Result<u8, Failure> {
    let (from, to) = (args.from.open(source).await?, args.to.open(source).await?);
    let mut progress = Progress::new();

    if !args.overwrite {
        // A directory may be listed for a while after its last key is gone: only keys count.
        let there =
            walk(&to.coord, &to.dir, |count| progress.tell("reading the target", count, None)).await?;
        if let Some((first, _)) = there.first_key_value() {
            progress.clear();
            say(&format!(
                "{} is not empty: it holds {first}{}; nothing was written. --overwrite copies all the same",
                args.to,
                if there.len() > 1 { format!(" and {} more keys", there.len() - 1) } else { String::new() }
            ));
            return Ok(code::CONFLICT);
        }
    }
    let found = walk(&from.coord, &from.dir, |count| progress.tell("reading names", count, None)).await?;
    let mut summary = Summary::new(&args);
    let mut pairs = Vec::with_capacity(found.len());
    for (key, found) in found {
        match moved(&key, &from.dir, &to.dir).filter(|_| found.owner.is_none() && !found.place) {
            Some(moved) => {
                summary.bytes += found.bytes;
                pairs.push((key, moved));
            }
            None => summary.left_out.push(LeftOut::new(key, found)),
        }
    }
    summary.keys = pairs.len();

    if pairs.is_empty() && summary.left_out.is_empty() {
        progress.clear();
        say(&format!("{} holds no keys: there is nothing to copy", args.from));
    }
    if args.dry_run {
        progress.clear();
        summary.show(out)?;
        return Ok(code::YES);
    }

    let copied = transfer::write(&from, &to, &pairs, args.overwrite, &mut progress).await;
    if let Err(Failure::Store(error)) = &copied
        && error.kind() == ErrorKind::Conflict
    {
        progress.clear();
        say(&format!("{error}; the copy is not complete"));
        return Ok(code::CONFLICT);
    }
    copied?;
    let compared = transfer::compare(&from, &to, &pairs, &mut progress).await?;
    progress.clear();
    let same = compared.differs.is_empty();
    if !same {
        say(
            "both sides are not the same: somebody wrote to one of them meanwhile, or a key of the target goes with a \
             session. Copy again with --overwrite",
        );
    }
    summary.digest = Some(compared.digest);
    summary.differs = compared.differs;
    summary.show(out)?;
    Ok(if same { code::YES } else { code::NO })
}

/// `key` of one side as the other side has it; `None` if that is no key, as with names of strangers.
fn moved(key: &Key, from: &Dir, to: &Dir) -> Option<Key> {
    to.key(from.relative(key)?).ok()
}
