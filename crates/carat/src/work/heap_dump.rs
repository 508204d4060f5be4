//! The file of a heap dump, or of a profile of what is kept: read from a process, compressed as its name says.

use crate::input::is_dump;
use crate::view::{check_replaced, output};
use anyhow::{Context, bail};
use carat_files::WholeFile;
use carat_model::{Bytes, OutsideReading, counted, grouped};
use carat_outside::census::{CensusPart, LookOptions};
use carat_outside::readings::look;
use carat_outside::who::WhoRequest;
use carat_outside::who::dump::{DumpError, DumpSums, dump_heap};
use carat_proc::observe::{be_killed_first, memory_gate};
use carat_proc::process::ProcRoot;
use carat_report::{Audience, pprof, redact_outside, shell_line};
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Level at which a dump shrinks to a tenth and is written faster than it is made.
const ZSTD_LEVEL: i32 = 3;

/// Whose heap is written, and where.
#[derive(Debug)]
pub(crate) struct HeapDumpRequest<'a> {
    pub(crate) process: u32,
    /// The file; `-` is standard output.
    pub(crate) file: &'a Path,
    /// Whether the contents of strings are written.
    pub(crate) strings: bool,
    pub(crate) max_pause: Duration,
    pub(crate) max_time: Option<Duration>,
}

/// Writes the heap of a process.
///
/// # Errors
/// Where the process cannot be read or the file cannot be written.
pub(crate) fn write_heap_dump(request: &HeapDumpRequest<'_>) -> anyhow::Result<()> {
    // A profile of pprof names no program that wrote it.
    check_replaced(request.file, &[], |file| !is_profile(file) && is_dump(file))?;
    let root = ProcRoot::default();
    // Before the file is created: a thread or a zombie has no heap.
    root.identify_program(request.process)?;
    be_killed_first(&root);
    let options = LookOptions {
        max_pause: request.max_pause,
        longest: request.max_time,
        memory: memory_gate(&root, output::print_message),
        ..LookOptions::default()
    };
    let shown = request.file.display();
    let cannot_write = || {
        format!(
            "cannot write {shown}; check the free space and the limit of file sizes (`ulimit -f`)"
        )
    };
    let (file, finish): (Box<dyn Write>, _) = if request.file == Path::new("-") {
        (Box::new(io::stdout()), None)
    } else {
        let file =
            WholeFile::create(request.file).with_context(|| format!("cannot write {shown}"))?;
        (Box::new(file.writer().with_context(cannot_write)?), Some(file))
    };
    let mut out = DumpWriter::new(file, request.file).with_context(cannot_write)?;
    if is_profile(request.file) {
        let (objects, bytes) = write_profile(request, options, &mut out)?;
        out.finish().with_context(cannot_write)?;
        finish.map_or(Ok(()), WholeFile::finish).with_context(cannot_write)?;
        say_profile(request, objects, bytes);
        return Ok(());
    }
    let sums = match dump_heap(request.process, &options, request.strings, &mut out) {
        Err(DumpError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            return Ok(());
        }
        Err(DumpError::Write(error)) => return Err(error).with_context(cannot_write),
        Err(error) => return Err(error.into()),
        Ok(sums) => sums,
    };
    let bytes = out.finish().with_context(cannot_write)?;
    finish.map_or(Ok(()), WholeFile::finish).with_context(cannot_write)?;
    say(request, &sums, bytes);
    say_forked(&root, request.process);
    Ok(())
}

/// Names the processes that run the same program below the one that was read: what serves has a heap of its own.
fn say_forked(root: &ProcRoot, process: u32) {
    let forked = forked_from(root, process);
    if forked.is_empty() {
        return;
    }
    let (count, pids) = (forked.len(), forked.iter().map(u32::to_string));
    output::print_message(&format!(
        "process {process} has {count} {} with heaps of their own, which this file has nothing of: {}",
        counted(&(count as u64), "child process"),
        pids.collect::<Vec<String>>().join(", ")
    ));
}

/// The children of a process that run its program.
fn forked_from(root: &ProcRoot, process: u32) -> Vec<u32> {
    let program = |pid: u32| fs::read_link(root.file(pid, "exe")).ok();
    let own = program(process);
    let mut pids = root.pids().unwrap_or_default();
    pids.retain(|pid| {
        let is_child = root.stat(*pid).is_ok_and(|stat| stat.parent == process);
        is_child && own.is_some() && program(*pid) == own
    });
    pids
}

/// Whether the file is to hold a profile for pprof.
fn is_profile(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.ends_with(".pb") || name.ends_with(".pb.gz")
}

/// Writes the profile of what is kept; returns the objects and bytes in it.
fn write_profile(
    request: &HeapDumpRequest<'_>,
    options: LookOptions,
    out: &mut DumpWriter,
) -> anyhow::Result<(u64, Bytes)> {
    if request.strings {
        bail!("a profile has no contents of strings; leave out --strings, or name a file .jsonl");
    }
    let who = Some(WhoRequest { kept: true, ..WhoRequest::default() });
    let census = look(request.process, &LookOptions { classes: false, who, ..options })?;
    let reading = OutsideReading { processes: vec![census], ..OutsideReading::default() };
    // The names are those of the process, which may have any characters.
    let reading = redact_outside(&reading, Audience::Own);
    let census = reading.processes.first().context("nothing was read")?;
    let kept = census.who.as_ref().and_then(|who| who.kept.as_ref());
    // A part of it would look like all of it.
    let Some(kept) = kept.filter(|_| census.cost.swapped_bytes == 0) else {
        let reason = census.reason(CensusPart::Who).or_else(|| census.reason(CensusPart::Reach));
        let reason = reason.unwrap_or("it was not found out");
        bail!("what process {} keeps is unknown: {reason}", request.process);
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let at = i64::try_from(now.as_nanos()).unwrap_or_default();
    let name = format!("process {}", request.process);
    out.write_all(&pprof(&[(name, kept)], at))?;
    Ok((kept.all.objects, Bytes(kept.all.bytes)))
}

fn say_profile(request: &HeapDumpRequest<'_>, objects: u64, bytes: Bytes) {
    let shown = request.file.display();
    let file = shell_line(&[shown.to_string()]);
    output::print_message(&format!(
        "wrote {bytes} in {} {} by what keeps them to {shown}; process {} was not stopped\n\
         next: go tool pprof -http=: {file}",
        grouped(objects),
        counted(&objects, "object"),
        request.process
    ));
}

/// Says what was written, and what was not.
fn say(request: &HeapDumpRequest<'_>, sums: &DumpSums, bytes: u64) {
    let DumpSums { objects, references, cut, unnamed, read_seconds } = sums;
    let shown = request.file.display();
    let milliseconds = read_seconds * 1e3;
    output::print_message(&format!(
        "wrote {} {} with {} {} to {shown}, {} of text; process {} was read for {milliseconds:.0} ms \
         and not stopped",
        grouped(*objects),
        counted(objects, "object"),
        grouped(*references),
        counted(references, "reference"),
        Bytes(bytes),
        request.process
    ));
    if *cut > 0 {
        output::print_message(&format!(
            "{cut} objects have more references than were followed: theirs are not complete"
        ));
    }
    unnamed.iter().for_each(|reason| output::print_message(reason));
    if request.file != Path::new("-") {
        let words = ["carat", "explain", &shown.to_string(), "--who"].map(String::from);
        output::print_message(&format!("next: {}", shell_line(&words)));
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
