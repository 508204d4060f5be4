//! `carat heap-dump`: the heap of a running Ruby in the form of `ObjectSpace.dump_all`, or what it keeps in that of pprof, from
//! outside.

use crate::cli::Exit;
use crate::work::{HeapDumpRequest, write_heap_dump};
use carat_model::Span;
use std::path::PathBuf;

/// Arguments of `carat heap-dump`
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Examples:\n  carat heap-dump 4312 -o app.jsonl.zst   one line of JSON for each object\n  \
    carat explain app.jsonl.zst             its classes\n  \
    carat explain app.jsonl.zst --who Post  who keeps the objects of a class alive\n  \
    carat heap-dump 4312 -o kept.pb.gz      what is kept, by what keeps it, for pprof\n\n\
    The process is read and never stopped. Tools that read the output of ObjectSpace.dump_all read this too."
)]
pub(crate) struct HeapDumpArgs {
    /// Process id of a Ruby
    #[arg(value_name = "PID")]
    process: u32,
    /// The file; compressed if its name ends with .zst or .gz; `-` is standard output. If the name ends with .pb or .pb.gz, a
    /// profile of what is kept, for pprof
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Also the contents of strings and symbols: passwords, mail addresses, everything in them
    #[arg(long)]
    strings: bool,
    /// The longest time to read without a pause
    #[arg(long, value_name = "TIME", value_parser = Span::parse, default_value = "200us")]
    max_pause: Span,
    /// Stop reading after this time [default: a minute, and another for each GiB in memory]
    #[arg(long, value_name = "TIME", value_parser = Span::parse)]
    max_time: Option<Span>,
}

pub(crate) fn run(args: &HeapDumpArgs) -> anyhow::Result<Exit> {
    write_heap_dump(&HeapDumpRequest {
        process: args.process,
        file: &args.output,
        strings: args.strings,
        max_pause: args.max_pause.0,
        max_time: args.max_time.map(|time| time.0),
    })?;
    Ok(Exit::Fine)
}
