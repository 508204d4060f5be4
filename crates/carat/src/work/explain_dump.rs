//! Explains a heap dump: its classes, who keeps them, and what keeps more than in another dump.

use crate::input::{dump_text_bytes, is_dump, open_dump};
use crate::view::output;
use crate::work::exit::Exit;
use crate::work::explain_request::ExplainRequest;
use anyhow::{Context, bail};
use carat_analysis::{HolderGrowths, holder_growth};
use carat_model::OutsideReading;
use carat_outside::census::Census;
use carat_outside::who::dumped::{DumpedClass, HeapDump, read_dump};
use carat_outside::who::{WhoCensus, WhoRequest};
use carat_proc::observe::{be_killed_first, memory_gate};
use carat_proc::process::ProcRoot;
use carat_report::{
    Audience, DumpHead, dump_text, dump_who_text, holder_growth_text, redact_outside,
};
use serde::Serialize;
use std::path::Path;

/// Name and version of the JSON that `--json` prints.
const SCHEMA: &str = "carat.dump/1";
/// Lines of the table of classes.
const CLASSES: usize = 12;

#[derive(Serialize)]
struct DumpExplanation<'a> {
    schema: &'static str,
    #[serde(flatten)]
    head: &'a DumpHead,
    classes: &'a [DumpedClass],
    #[serde(skip_serializing_if = "Option::is_none")]
    who: Option<&'a WhoCensus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grown: Option<&'a HolderGrowths>,
}

/// Explains the dump that is the target.
pub(crate) fn explain_dump(request: &ExplainRequest) -> anyhow::Result<Exit> {
    let path = Path::new(&request.target);
    if request.look.asks_for_more() {
        bail!("--class, --owners, --reach and --unshared read a running process; give its id");
    }
    if request.page.is_some() || request.suggest.is_some() || request.variant.is_some() {
        bail!("--output, --suggest and --variant are not for heap dumps");
    }
    be_killed_first(&ProcRoot::default());
    let class = request.look.who_class();
    let since = request.look.since.as_deref();
    let kept = since.is_some() || request.profile.is_some() || request.json;
    let before = since.map(|since| Ok::<_, anyhow::Error>(who(&load(since)?, None, true)?.1));
    let before = before.transpose()?;
    if let (Some(before), Some(since)) = (&before, since) {
        say_what_is_left_out(since, before);
    }
    let dump = load(path)?;
    let head = DumpHead {
        objects: dump.objects(),
        bytes: dump.bytes(),
        references: dump.references(),
        left_out: dump.left_out(),
    };
    let found = request.look.who.is_some().then(|| who(&dump, class, kept)).transpose()?;
    let (who, reading) = found.unzip();
    let grown = before.as_ref().zip(reading.as_ref()).map(|(before, after)| {
        holder_growth(&before.processes, &after.processes).map_err(anyhow::Error::msg)
    });
    let grown = grown.transpose()?;
    let classes = dump.classes();
    if let (true, Some(reading)) = (since.is_some() || request.profile.is_some(), &reading) {
        say_what_is_left_out(path, reading);
    }
    if let (Some(profile), Some(who)) = (request.profile, &who) {
        let kept = who.kept.as_ref().context("the dump says nothing of what is kept")?;
        output::print_bytes(&profile.file(&[(request.target.clone(), kept)]))?;
    } else if request.json {
        let (who, grown) = (who.as_ref(), grown.as_ref());
        let explanation =
            DumpExplanation { schema: SCHEMA, head: &head, classes: &classes, who, grown };
        output::print_data(&(serde_json::to_string_pretty(&explanation)? + "\n"))?;
    } else {
        print(request, (&head, &classes), (who.as_ref(), grown))?;
    }
    Ok(Exit::Fine)
}

fn print(
    request: &ExplainRequest,
    (head, classes): (&DumpHead, &[DumpedClass]),
    (who, grown): (Option<&WhoCensus>, Option<HolderGrowths>),
) -> anyhow::Result<()> {
    let class = request.look.who_class();
    if let (Some(grown), Some(since)) = (grown, &request.look.since) {
        output::print_text(&holder_growth_text(&Ok(grown), &since.display().to_string()))?;
        if class.is_none() && !request.details {
            return Ok(());
        }
    }
    match who {
        Some(who) => output::print_text(&dump_who_text(who, &request.target, class))?,
        None => {
            let lines = request.look.classes.unwrap_or(CLASSES);
            output::print_text(&dump_text(head, classes, (&request.target, lines)))?;
        }
    }
    Ok(())
}

fn load(path: &Path) -> anyhow::Result<HeapDump> {
    let shown = path.display();
    if !is_dump(path) {
        bail!(
            "{shown} is no heap dump: its first line is not one of ObjectSpace.dump_all or carat heap-dump"
        );
    }
    let room = memory_gate(&ProcRoot::default(), output::print_message);
    let open = || open_dump(path);
    let dump = read_dump(&open, dump_text_bytes(path), &room)
        .with_context(|| format!("cannot read the heap dump {shown}"))?;
    Ok(dump)
}

/// Says on standard error what does not count of a dump that is not printed itself.
fn say_what_is_left_out(path: &Path, reading: &OutsideReading) {
    let who = reading.processes.iter().filter_map(|census| census.who.as_ref());
    let shown = path.display();
    who.flat_map(|who| &who.unnamed)
        .for_each(|reason| output::print_message(&format!("{shown}: {reason}")));
}

/// Who keeps what, and the same as a reading that can be compared.
fn who(
    dump: &HeapDump,
    class: Option<&str>,
    kept: bool,
) -> anyhow::Result<(WhoCensus, OutsideReading)> {
    let request = WhoRequest {
        classes: class.map(str::to_owned).into_iter().collect(),
        kept,
        ..WhoRequest::default()
    };
    let census = Census { who: Some(dump.who(&request)?), ..Census::default() };
    let reading = OutsideReading { processes: vec![census], ..OutsideReading::default() };
    let reading = redact_outside(&reading, Audience::Own);
    let who = reading.processes.first().and_then(|census| census.who.clone());
    Ok((who.unwrap_or_default(), reading))
}
