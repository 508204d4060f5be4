//! `carat heap-dump`: the heap of a running Ruby in the form of `ObjectSpace.dump_all`, from outside.

use crate::cli::{Exit, output};
use anyhow::Context;
use carat_files::WholeFile;
use carat_model::{Bytes, Span, counted, grouped};
use carat_outside::census::LookOptions;
use carat_outside::who::dump::{DumpError, DumpSums, dump_heap};
use carat_proc::observe::{be_killed_first, memory_gate};
use carat_proc::process::ProcRoot;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Levels at which a dump shrinks to a tenth and is written faster than it is made.
const ZSTD_LEVEL: i32 = 3;

/// Arguments of `carat heap-dump`
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Examples:\n  carat heap-dump 4312 -o app.jsonl.zst   one line of JSON for each object\n  \
    carat explain app.jsonl.zst             its classes\n  \
    carat explain app.jsonl.zst --who Post  who keeps the objects of a class alive\n\n\
    The process is read and never stopped. Tools that read the output of ObjectSpace.dump_all read this too."
)]
pub(crate) struct HeapDumpArgs {
    /// Process id of a Ruby
    #[arg(value_name = "PID")]
    process: u32,
    /// The file; compressed if its name ends with .zst or .gz; `-` is standard output
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
    let root = ProcRoot::default();
    be_killed_first(&root);
    let options = LookOptions {
        max_pause: args.max_pause.0,
        longest: args.max_time.map(|time| time.0),
        memory: memory_gate(&root, output::print_message),
        ..LookOptions::default()
    };
    let shown = args.output.display();
    let cannot_write = || format!("cannot write {shown}");
    let (file, finish): (Box<dyn Write>, _) = if args.output == Path::new("-") {
        (Box::new(io::stdout()), None)
    } else {
        let file = WholeFile::create(&args.output).with_context(cannot_write)?;
        (Box::new(file.writer().with_context(cannot_write)?), Some(file))
    };
    let mut out = DumpWriter::new(file, &args.output).with_context(cannot_write)?;
    let sums = match dump_heap(args.process, &options, args.strings, &mut out) {
        Err(DumpError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            return Ok(Exit::Fine);
        }
        Err(DumpError::Write(error)) => return Err(error).with_context(cannot_write),
        Err(error) => return Err(error.into()),
        Ok(sums) => sums,
    };
    let bytes = out.finish().with_context(cannot_write)?;
    finish.map_or(Ok(()), WholeFile::finish).with_context(cannot_write)?;
    say(args, &sums, bytes);
    Ok(Exit::Fine)
}

/// Says what was written, and what was not.
fn say(args: &HeapDumpArgs, sums: &DumpSums, bytes: u64) {
    let DumpSums { objects, references, cut, unnamed, read_seconds } = sums;
    let shown = args.output.display();
    let milliseconds = read_seconds * 1e3;
    output::print_message(&format!(
        "wrote {} {} with {} {} to {shown}, {} of text; process {} was read for {milliseconds:.0} ms \
         and not stopped",
        grouped(*objects),
        counted(objects, "object"),
        grouped(*references),
        counted(references, "reference"),
        Bytes(bytes),
        args.process
    ));
    if *cut > 0 {
        output::print_message(&format!(
            "{cut} objects have more references than were followed: theirs are not complete"
        ));
    }
    unnamed.iter().for_each(|reason| output::print_message(reason));
    if args.output != Path::new("-") {
        output::print_message(&format!("next: carat explain {shown} --who"));
    }
}

/// The text of a dump, compressed as the name of its file says.
enum DumpWriter {
    Plain(BufWriter<Box<dyn Write>>, u64),
    Zstd(Box<zstd::Encoder<'static, BufWriter<Box<dyn Write>>>>, u64),
    Gzip(flate2::write::GzEncoder<BufWriter<Box<dyn Write>>>, u64),
}

impl DumpWriter {
    fn new(file: Box<dyn Write>, path: &Path) -> io::Result<Self> {
        let file = BufWriter::with_capacity(1 << 18, file);
        let ending = path.extension().and_then(|ending| ending.to_str());
        Ok(match ending {
            Some("zst" | "zstd") => Self::Zstd(Box::new(zstd::Encoder::new(file, ZSTD_LEVEL)?), 0),
            Some("gz") => {
                let level = flate2::Compression::fast();
                Self::Gzip(flate2::write::GzEncoder::new(file, level), 0)
            }
            _ => Self::Plain(file, 0),
        })
    }

    /// Ends the stream; returns the bytes of the text.
    fn finish(self) -> io::Result<u64> {
        match self {
            Self::Plain(mut out, bytes) => out.flush().map(|()| bytes),
            Self::Zstd(out, bytes) => out.finish()?.flush().map(|()| bytes),
            Self::Gzip(out, bytes) => out.finish()?.flush().map(|()| bytes),
        }
    }
}

impl Write for DumpWriter {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let (written, bytes) = match self {
            Self::Plain(out, bytes) => (out.write(text)?, bytes),
            Self::Zstd(out, bytes) => (out.write(text)?, bytes),
            Self::Gzip(out, bytes) => (out.write(text)?, bytes),
        };
        *bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        // A compressed stream is larger for every flush; `finish` ends it.
        Ok(())
    }
}
