//! `carat explain`: where every megabyte of a running server is, and what might make it smaller.

use crate::cli::Exit;
use crate::work::{AskedLook, ExplainRequest, KeptProfile, explain};
use carat_model::Span;
use std::path::PathBuf;

/// Arguments of `carat explain`
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Examples:\n  carat explain 4312                 what is wrong with the tree of process 4312, and its parts\n  \
    carat explain 4312 --details       also classes, heaps, arenas, what to try\n  \
    carat explain app.recording.jsonl  the end of a recording\n  \
    carat explain app.jsonl.zst --who  a heap dump, of `carat heap-dump` or ObjectSpace.dump_all\n  \
    carat explain 4312 --owners        also who holds malloc's memory\n  \
    carat explain 4312 --who           who keeps most memory alive, by name\n  \
    carat explain 4312 --who Post      who keeps the objects of a class alive\n  \
    carat explain 4312 --who --json > a.json; carat explain 4312 --who --since a.json   who keeps more than before\n  \
    carat explain 4312 --class Post    where the objects of a class lie\n  \
    carat explain 4312 --unshared      why the workers' memory is private\n  \
    carat explain 4312 -o ledger.html\n  \
    carat explain 4312 --suggest try.toml && carat compare try.toml"
)]
pub(crate) struct ExplainArgs {
    /// Process id of the server, a recording (`carat record`), a results file (`carat compare`) or its JSON, or a heap dump
    target: String,
    /// Variant of a results file [default: its baseline]
    #[arg(long)]
    variant: Option<String>,
    /// Also every part, process, heap, class and arena, and every finding
    #[arg(long)]
    details: bool,
    /// Leave out the children of the process
    #[arg(long)]
    alone: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write the ledger as one HTML page
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// With --who: print what is kept, by what keeps it, for this program
    #[arg(long, value_name = "FORMAT", requires = "who", conflicts_with = "json")]
    format: Option<WhoFormat>,
    #[command(flatten)]
    look: LookArgs,
    /// With --output: leave out folders, class names, and environment beyond an allow-list
    #[arg(long, requires = "output")]
    share: bool,
    /// Write an experiment that tests the findings, for `carat compare`
    #[arg(long, value_name = "FILE")]
    suggest: Option<PathBuf>,
}

/// A program that shows what is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum WhoFormat {
    /// A flame graph of speedscope, whose widths are bytes
    Speedscope,
    /// A profile of pprof, whose values are objects and bytes
    Pprof,
}

/// What is read of a running Ruby from outside
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Reading a running Ruby from outside")]
struct LookArgs {
    /// Do not read the memory of the process: only what the kernel and a probe report
    #[arg(long, conflicts_with_all = ["class", "owners", "reach", "who", "unshared"])]
    no_look: bool,
    /// Classes in the table of --details [default: 12]
    #[arg(long, value_name = "N")]
    classes: Option<usize>,
    /// Also where the objects of this class lie, and how many pages they keep
    #[arg(long, value_name = "NAME")]
    class: Option<String>,
    /// Also who holds malloc's memory. Carat's own memory for it is some 20 bytes for each chunk of malloc
    #[arg(long)]
    owners: bool,
    /// Also what can be reached from stacks and libraries, for as much memory
    #[arg(long)]
    reach: bool,
    /// Who keeps objects alive, by name: those of this class, or those with most memory. Requires a copy of the process's memory
    #[arg(long, value_name = "CLASS", num_args = 0..=1)]
    who: Option<Option<String>>,
    /// What keeps more objects alive than in this output of `carat explain PID --who --json`, of this or another process; of a heap
    /// dump, than in this other one
    #[arg(long, value_name = "FILE", requires = "who")]
    since: Option<PathBuf>,
    /// Also why the memory of forked processes is private, page by page
    #[arg(long, conflicts_with = "alone")]
    unshared: bool,
    /// The longest time to read without a pause
    #[arg(long, value_name = "TIME", value_parser = Span::parse, default_value = "200us")]
    max_pause: Span,
    /// Stop reading a process after this time [default: a minute, and another for each GiB in memory]
    #[arg(long, value_name = "TIME", value_parser = Span::parse)]
    max_time: Option<Span>,
}

impl LookArgs {
    fn asked(&self) -> AskedLook {
        AskedLook {
            no_look: self.no_look,
            classes: self.classes,
            class: self.class.clone(),
            owners: self.owners,
            reach: self.reach,
            who: self.who.clone(),
            since: self.since.clone(),
            unshared: self.unshared,
            max_pause: self.max_pause.0,
            max_time: self.max_time.map(|time| time.0),
        }
    }
}

pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<Exit> {
    explain(&ExplainRequest {
        target: args.target.clone(),
        variant: args.variant.clone(),
        details: args.details,
        alone: args.alone,
        json: args.json,
        profile: args.format.map(|format| match format {
            WhoFormat::Speedscope => KeptProfile::Speedscope,
            WhoFormat::Pprof => KeptProfile::Pprof,
        }),
        page: args.output.clone(),
        share: args.share,
        suggest: args.suggest.clone(),
        look: args.look.asked(),
    })
}
