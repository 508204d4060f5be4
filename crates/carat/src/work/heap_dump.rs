//! The file of a heap dump: read from a process, compressed as its name says.

use crate::view::output;
use anyhow::Context;
use carat_files::WholeFile;
use carat_model::{Bytes, counted, grouped};
use carat_outside::census::LookOptions;
use carat_outside::who::dump::{DumpError, DumpSums, dump_heap};
use carat_proc::observe::{be_killed_first, memory_gate};
use carat_proc::process::ProcRoot;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

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
    let cannot_write = || format!("cannot write {shown}");
    let (file, finish): (Box<dyn Write>, _) = if request.file == Path::new("-") {
        (Box::new(io::stdout()), None)
    } else {
        let file = WholeFile::create(request.file).with_context(cannot_write)?;
        (Box::new(file.writer().with_context(cannot_write)?), Some(file))
    };
    let mut out = DumpWriter::new(file, request.file).with_context(cannot_write)?;
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
    Ok(())
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
