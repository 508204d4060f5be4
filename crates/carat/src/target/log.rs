//! The file to which a server prints: its end, what appears in it, and a limit of its size.

use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes of a log's end that are shown at most.
const SHOWN: u64 = 16 * 1024;
/// Bytes that one look for a text reads at most, so that a server that never stops printing does not hold carat up.
const READ_AT_ONCE: u64 = 16 << 20;
/// Bytes that a log may have on the disk.
const LIMIT: u64 = 64 << 20;
/// Bytes of its beginning and of its end that a log keeps once it is larger.
const KEPT_BEGINNING: u64 = 1 << 20;
const KEPT_END: u64 = 4 << 20;
/// Time between two looks at its size. The fastest server prints some hundred megabytes meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The end of a log: at most `lines` lines and 16 KiB; empty if there is no such file. A backtrace of Ruby takes at most a fifth of
/// them, so that the error above it is seen.
pub(crate) fn log_tail(path: &Path, lines: usize) -> String {
    let bytes = File::open(path).and_then(|mut file| {
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(SHOWN)))?;
        let mut end = Vec::new();
        // Limited again, because the server prints on meanwhile.
        file.take(SHOWN).read_to_end(&mut end)?;
        Ok(end)
    });
    let bytes = bytes.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all = without_long_backtraces(&text, lines / 5);
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// The lines of a text, of each backtrace only the `most` innermost callers.
fn without_long_backtraces(text: &str, most: usize) -> Vec<&str> {
    let mut callers = 0;
    let is_kept = |line: &&str| {
        callers = if line.starts_with("\tfrom ") { callers + 1 } else { 0 };
        callers <= most
    };
    text.lines().filter(is_kept).collect()
}

/// Looks for one text in a growing log and reads every byte once.
#[derive(Debug)]
pub(crate) struct LogSearch {
    log: PathBuf,
    offset: u64,
    /// The last bytes before `offset`, with which the text may begin.
    before: Vec<u8>,
}

impl LogSearch {
    /// Looks in this file, which need not exist yet.
    pub(crate) fn new(log: impl Into<PathBuf>) -> Self {
        Self { log: log.into(), offset: 0, before: Vec::new() }
    }

    /// Whether the text is in what was printed since the last look.
    pub(crate) fn finds(&mut self, text: &str) -> bool {
        self.read(text.as_bytes()).unwrap_or(false)
    }

    fn read(&mut self, text: &[u8]) -> io::Result<bool> {
        let file = File::open(&self.log)?;
        // It is shorter than what was read of it, so it was cut or replaced.
        if file.metadata()?.len() < self.offset {
            (self.offset, self.before) = (0, Vec::new());
        }
        let (last, mut chunk) = (self.offset + READ_AT_ONCE, vec![0; 64 * 1024]);
        while self.offset < last {
            let length = file.read_at(&mut chunk, self.offset)?;
            self.offset += length as u64;
            self.before.extend_from_slice(&chunk[..length]);
            if memchr::memmem::find(&self.before, text).is_some() {
                return Ok(true);
            }
            // The text can begin in one piece and end in the next.
            let unneeded = self.before.len().saturating_sub(text.len().saturating_sub(1));
            self.before.drain(..unneeded);
            if length == 0 {
                break;
            }
        }
        Ok(false)
    }
}

/// Keeps a log to a limit while it is written: of one that is larger, the beginning and the end remain.
#[derive(Debug)]
pub(crate) struct LogLimit {
    cut: Arc<AtomicBool>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl LogLimit {
    /// Watches the size of this file until the value is dropped. The file need not exist yet.
    pub(crate) fn start(log: &Path) -> Self {
        let (stop, stopped) = channel();
        let cut = Arc::new(AtomicBool::new(false));
        let (log, was_cut) = (log.to_owned(), cut.clone());
        let thread = std::thread::spawn(move || watch(&log, &stopped, &was_cut));
        Self { cut, stop: Some(stop), thread: Some(thread) }
    }

    /// What the reader of the log must know.
    pub(crate) fn note(&self) -> Option<String> {
        self.cut.load(Ordering::SeqCst).then(|| {
            format!(
                "printed more than {} MiB, of which only the beginning and the end are kept",
                LIMIT >> 20
            )
        })
    }
}

impl Drop for LogLimit {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn watch(log: &Path, stopped: &Receiver<()>, was_cut: &AtomicBool) {
    let mut watched = WatchedLog { path: log.to_owned(), file: None, left_out: 0 };
    // The sender is dropped when the watch shall end; nothing is ever sent.
    while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
        // A log whose size is unknown is left as it is.
        let _ = watched.cut_if_larger(LIMIT);
        was_cut.store(watched.left_out > 0, Ordering::SeqCst);
    }
    let _ = watched.close_hole();
}

/// A log and what was cut from it.
struct WatchedLog {
    path: PathBuf,
    file: Option<File>,
    /// Bytes after the beginning that are not kept.
    left_out: u64,
}

impl WatchedLog {
    /// Frees the middle of the file if it has more than `limit` bytes on the disk. Its writer goes on at the end.
    fn cut_if_larger(&mut self, limit: u64) -> io::Result<()> {
        if self.file.is_none() {
            // Opened once, so that it is the same file whatever becomes of its name.
            let file = OpenOptions::new().read(true).write(true).open(&self.path)?;
            self.file =
                Some(file).filter(|file| file.metadata().is_ok_and(|found| found.is_file()));
        }
        let Some(file) = &self.file else { return Ok(()) };
        let found = file.metadata()?;
        if found.blocks() * 512 <= limit {
            return Ok(());
        }
        let end = found.len().saturating_sub(KEPT_END);
        let hole = end.saturating_sub(KEPT_BEGINNING);
        // PUNCH_HOLE requires KEEP_SIZE, and the size keeps its writer at the end (fallocate(2)).
        let free = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(file, free, KEPT_BEGINNING, hole) {
            // Set, not added: every hole begins at the same place and covers the ones before.
            Ok(()) => self.left_out = hole,
            // A file system without holes: whoever appends to the file begins anew.
            Err(_) => {
                file.set_len(0)?;
                self.left_out = self.left_out.saturating_add(found.len());
            }
        }
        Ok(())
    }

    /// Replaces a hole by a line that says how much was there, once nobody writes to the file any more.
    fn close_hole(&mut self) -> io::Result<()> {
        let Some(mut file) = self.file.take().filter(|_| self.left_out > 0) else { return Ok(()) };
        let length = file.metadata()?.len();
        let from = KEPT_BEGINNING + self.left_out;
        // The file was emptied, so it has no hole.
        if from > length {
            return Ok(());
        }
        let mut end = Vec::new();
        // Of what was printed after the last hole, too, only the end is kept.
        file.seek(SeekFrom::Start(length.saturating_sub(KEPT_END).max(from)))?;
        Read::by_ref(&mut file).take(KEPT_END).read_to_end(&mut end)?;
        let left_out = length - KEPT_BEGINNING - end.len() as u64;
        file.set_len(KEPT_BEGINNING)?;
        file.seek(SeekFrom::End(0))?;
        write!(file, "\n[carat left out {left_out} bytes here]\n")?;
        file.write_all(&end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_tail_of_a_log_is_its_last_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, "one\ntwo\nthree\n").unwrap();
        assert_eq!(log_tail(&path, 2), "two\nthree");
        assert_eq!(log_tail(&folder.path().join("none"), 2), "");
        let callers = "\tfrom b.rb:1:in `require'\n".repeat(60);
        std::fs::write(&path, format!("a.rb:1: Could not find gem 'x'\n{callers}")).unwrap();
        assert_eq!(log_tail(&path, 1), "a.rb:1: Could not find gem 'x'");
        let many = log_tail(&path, 50);
        assert!(many.starts_with("a.rb:1: Could") && many.lines().count() == 11, "{many}");
    }

    #[test]
    fn the_tail_of_a_log_larger_than_memory_is_read_from_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let file = File::create(&path).unwrap();
        // Without blocks on the disk; reading all of it would not fit into memory.
        file.set_len(1 << 42).unwrap();
        file.write_at(b"\nlast", 1 << 42).unwrap();
        assert_eq!(log_tail(&path, 1), "last");
    }

    #[test]
    fn a_text_is_found_however_the_server_prints_it_and_no_byte_is_read_twice() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut search = LogSearch::new(&path);
        assert!(!search.finds("ready"), "there is no log yet");
        let log = File::create(&path).unwrap();
        for (part, at) in [("boot\nre", 0), ("ad", 7)] {
            log.write_at(part.as_bytes(), at).unwrap();
            assert!(!search.finds("ready"));
        }
        log.write_at(b"ready", 0).unwrap();
        assert!(!search.finds("ready"), "what was read is not read again");
        log.write_at(b"y", 9).unwrap();
        assert!(search.finds("ready"));
    }

    #[test]
    fn a_log_that_was_truncated_is_read_from_its_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut search = LogSearch::new(&path);
        fs::write(&path, "a long line of the boot").unwrap();
        assert!(!search.finds("ready"));
        fs::write(&path, "ready").unwrap();
        assert!(search.finds("ready"));
    }

    #[test]
    fn of_a_log_above_its_limit_the_beginning_and_the_end_remain_and_a_line_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = OpenOptions::new().append(true).create(true).open(&path).unwrap();
        let mut watched = WatchedLog { path: path.clone(), file: None, left_out: 0 };
        log.write_all(b"first\n").unwrap();
        let line = "x".repeat(1023) + "\n";
        for _ in 0..3 {
            log.write_all(line.repeat(8 << 10).as_bytes()).unwrap();
            watched.cut_if_larger(10 << 20).unwrap();
            assert!(fs::metadata(&path).unwrap().blocks() * 512 <= 10 << 20);
        }
        log.write_all(b"last\n").unwrap();
        watched.close_hole().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("first\n") && text.ends_with("\nlast\n"), "{}", text.len());
        assert_eq!(text.matches("[carat left out ").count(), 1);
        assert!((text.len() as u64) < KEPT_BEGINNING + KEPT_END + 1024);
    }
}
