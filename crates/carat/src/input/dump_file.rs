//! Heap dumps in files, also compressed ones.

use carat_outside::who::dumped::is_dump_line;
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// The first bytes of compressed files.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Bytes of the first line that are looked at.
const FIRST_LINE: u64 = 16 << 20;
/// How much smaller the text of a dump is when compressed, about.
const SMALLER: u64 = 10;
/// Bytes that are read at once.
const BUFFER: usize = 1 << 18;

/// Whether a file is a heap dump: its first line is one of an object or a root.
pub fn is_dump(path: &Path) -> bool {
    let is_file = path.metadata().is_ok_and(|found| found.is_file());
    let opened = is_file.then(|| open_dump(path).ok()).flatten();
    let Some(opened) = opened else { return false };
    let mut line = Vec::new();
    let read = opened.take(FIRST_LINE).read_until(b'\n', &mut line);
    // A long first line is that of a root.
    let is_long = line.len() as u64 == FIRST_LINE && line.starts_with(b"{\"type\":\"ROOT\"");
    read.is_ok() && (is_long || is_dump_line(&line))
}

/// Opens a dump.
///
/// # Errors
/// If the file cannot be opened or read.
pub fn open_dump(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let mut file = BufReader::with_capacity(BUFFER, File::open(path)?);
    let start = file.fill_buf()?;
    if start.starts_with(&ZSTD) {
        let decoder = zstd::Decoder::with_buffer(file)?;
        return Ok(Box::new(BufReader::with_capacity(BUFFER, decoder)));
    }
    if start.starts_with(&GZIP) {
        return Ok(Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(file))));
    }
    Ok(Box::new(file))
}

/// Bytes of the text of a dump, about; `None` if the file cannot be read.
pub fn dump_text_bytes(path: &Path) -> Option<u64> {
    let bytes = path.metadata().ok()?.len();
    let mut start = [0; 4];
    File::open(path).ok()?.read_exact(&mut start).ok()?;
    let is_compressed = start == ZSTD || start.starts_with(&GZIP);
    Some(if is_compressed { bytes.saturating_mul(SMALLER) } else { bytes })
}
