//! `/proc/PID/maps` and `smaps`: the mappings of a process and the memory of each.

use crate::observe::fields::numbers;
use crate::process::is_rubys_name;
use carat_model::Bytes;
use std::ops::Range;

/// The permissions of a mapping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Access {
    /// Reading.
    pub read: bool,
    /// Writing.
    pub write: bool,
    /// Executing.
    pub execute: bool,
    /// Other processes that map it see writes.
    pub shared: bool,
}

/// One mapping (proc_pid_maps(5)), with its figures if the text was `smaps`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Its addresses.
    pub range: Range<u64>,
    /// Its permissions.
    pub access: Access,
    /// Path, `[heap]`, `[stack]`, `[anon:…]`, or empty for plain anonymous memory.
    pub name: String,
    /// Resident memory.
    pub rss: Bytes,
    /// Resident memory, each page divided by its sharers.
    pub pss: Bytes,
    /// Resident memory that only this process maps.
    pub private: Bytes,
    /// Resident memory without a file behind it, including private copies of a file's pages.
    pub anonymous: Bytes,
}

impl Mapping {
    /// Bytes of addresses.
    pub fn size(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Whether it is of a file of Ruby: its library, or the program that contains it.
    pub fn is_of_ruby(&self) -> bool {
        let Some(path) = self.name.strip_prefix('/') else { return false };
        // An update deletes the file of a running Ruby.
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        let name = path.rsplit('/').next().unwrap_or_default();
        // Executed, because a mapped file of data can be named `ruby` too.
        name.starts_with("libruby") || self.access.execute && is_rubys_name(name)
    }

    /// Whether it allows no access, as a reservation or a guard does.
    pub fn is_inaccessible(&self) -> bool {
        !self.access.read && !self.access.write && !self.access.execute
    }

    /// How much a byte on a shared page of this mapping adds to PSS, between 0 and 1.
    pub fn pss_per_shared_byte(&self) -> f64 {
        let shared = self.rss.saturating_sub(self.private).0;
        let proportional = self.pss.saturating_sub(self.private).0;
        // What becomes shared between two reads then counts in full, so that none is lost.
        if shared == 0 { 1.0 } else { (proportional as f64 / shared as f64).min(1.0) }
    }
}

/// Parses `maps` or `smaps`, in order of addresses. Lines of another form are left out.
pub fn parse_mappings(text: &[u8]) -> Vec<Mapping> {
    let mut parser = MappingParser::default();
    parser.feed(text);
    parser.finish()
}

/// Parses `maps` or `smaps` piece by piece: the text of `smaps` is some ten times as long as what is kept of it.
#[derive(Debug, Default)]
pub struct MappingParser {
    mappings: Vec<Mapping>,
    /// The start of a line whose end is in the next piece.
    begun: Vec<u8>,
}

impl MappingParser {
    /// Takes the next piece of the text.
    pub fn feed(&mut self, piece: &[u8]) {
        let mut lines = piece.split(|&byte| byte == b'\n');
        // The last piece of the split is a line that has not ended, or empty.
        let last = lines.next_back().unwrap_or_default();
        for line in lines {
            if self.begun.is_empty() {
                self.line(line);
            } else {
                let mut whole = std::mem::take(&mut self.begun);
                whole.extend_from_slice(line);
                self.line(&whole);
            }
        }
        self.begun.extend_from_slice(last);
    }

    /// The mappings of the whole text.
    pub fn finish(mut self) -> Vec<Mapping> {
        let last = std::mem::take(&mut self.begun);
        self.line(&last);
        self.mappings
    }

    fn line(&mut self, line: &[u8]) {
        // Headings begin with a lower-case hexadecimal address, figures with a capital letter.
        match line.first() {
            Some(b'0'..=b'9' | b'a'..=b'f') => self.mappings.extend(parse_heading(line)),
            Some(_) => {
                if let Some(mapping) = self.mappings.last_mut() {
                    set_figure(mapping, line);
                }
            }
            None => {}
        }
    }
}

fn parse_heading(line: &[u8]) -> Option<Mapping> {
    let line = String::from_utf8_lossy(line);
    let mut rest = line.as_ref();
    // A name need not be UTF-8; a replaced character keeps the fields before it.
    let (start, end) = next_field(&mut rest).split_once('-')?;
    let range = u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?;
    let flags = next_field(&mut rest).as_bytes();
    let access = Access {
        read: flags.first() == Some(&b'r'),
        write: flags.get(1) == Some(&b'w'),
        execute: flags.get(2) == Some(&b'x'),
        shared: flags.get(3) == Some(&b's'),
    };
    let (_offset, _device, _inode) =
        (next_field(&mut rest), next_field(&mut rest), next_field(&mut rest));
    // Others divide by the size, so an empty range is refused.
    (range.start < range.end).then(|| Mapping {
        range,
        access,
        name: rest.trim().to_owned(),
        ..Mapping::default()
    })
}

/// Splits the next word off `rest`. What remains may be a name with blanks.
fn next_field<'a>(rest: &mut &'a str) -> &'a str {
    let text = rest.trim_start();
    let (field, others) = text.split_once(' ').unwrap_or((text, ""));
    *rest = others;
    field
}

fn set_figure(mapping: &mut Mapping, line: &[u8]) {
    for (name, number) in numbers(line) {
        let bytes = Bytes::from_kib(number);
        match name {
            b"Rss" => mapping.rss = bytes,
            b"Pss" => mapping.pss = bytes,
            b"Anonymous" => mapping.anonymous = bytes,
            b"Private_Clean" | b"Private_Dirty" => {
                // Two lines make one figure, so they are added.
                mapping.private = Bytes(mapping.private.0.saturating_add(bytes.0));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &[u8] = b"5591e05f1000-5591e20d9000 rw-p 00000000 00:00 0          [heap]\n\
        Size:   27552 kB\nRss:   26892 kB\nPss:   20000 kB\nShared_Dirty: 8000 kB\nPrivate_Clean: 0 kB\n\
        Private_Dirty:  18892 kB\nAnonymous: 26892 kB\nVmFlags: rd wr mr mw me ac sd\n\
        7f3a0da33000-7f3a0dc8c000 r-xs 00033000 fe:00 15630436     /srv/my app/lib.so (deleted)\n\
        Rss: 4 kB\nPss: 1 kB\n7f3a00000000-7f3a00001000 ---p 00000000 00:00 0 \n";

    #[test]
    fn mappings_have_their_names_and_figures() {
        let mappings = parse_mappings(SMAPS);
        assert_eq!(mappings.len(), 3);
        let heap = &mappings[0];
        assert_eq!((heap.name.as_str(), heap.size()), ("[heap]", 27_552 * 1024));
        assert!(heap.access.write && !heap.access.execute && !heap.access.shared);
        assert_eq!(heap.private, Bytes::from_kib(18_892));
        let library = &mappings[1];
        assert_eq!(library.name, "/srv/my app/lib.so (deleted)");
        assert!(library.access.execute && library.access.shared);
        assert!(mappings[2].is_inaccessible() && mappings[2].name.is_empty());
    }

    #[test]
    fn a_shared_byte_counts_with_the_proportion_that_the_kernel_implies() {
        let heap = &parse_mappings(SMAPS)[0];
        // 8000 kB are shared and count (20000 - 18892) kB.
        assert!((heap.pss_per_shared_byte() - 1108.0 / 8000.0).abs() < 1e-9);
    }

    #[test]
    fn figures_that_are_too_large_are_capped() {
        let text = b"1000-2000 rw-p 0 0:0 0\nRss: 9 kB\nPrivate_Clean: 9 kB\nPrivate_Dirty: 18892268918892000 kB\n";
        let mapping = &parse_mappings(text)[0];
        assert_eq!(mapping.private, Bytes(u64::MAX));
        assert!((mapping.pss_per_shared_byte() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_text_in_pieces_of_any_length_gives_the_same_mappings() {
        for length in 1..SMAPS.len() {
            let mut parser = MappingParser::default();
            SMAPS.chunks(length).for_each(|piece| parser.feed(piece));
            assert_eq!(parser.finish(), parse_mappings(SMAPS), "{length}");
        }
    }

    #[test]
    fn a_text_cut_anywhere_gives_only_valid_mappings() {
        for end in 0..SMAPS.len() {
            for mapping in parse_mappings(&SMAPS[..end]) {
                assert!(mapping.range.start < mapping.range.end);
            }
        }
    }

    #[test]
    fn a_ruby_is_known_by_its_library_or_its_name() {
        for (line, expected) in [
            ("7f0000000000-7f0000021000 r--p 0 08:01 42 /usr/lib/libruby-3.1.so.3.1.2", true),
            ("55d000000000-55d000021000 r-xp 0 08:01 42 /opt/bin/ruby", true),
            ("55d000000000-55d000021000 r-xp 0 08:01 42 /usr/bin/ruby3.1", true),
            ("55d000000000-55d000021000 r-xp 0 08:01 42 /usr/bin/ruby-3.1 (deleted)", true),
            ("55d000000000-55d000021000 r--p 0 08:01 42 /srv/app/ruby", false),
            ("55d000000000-55d000021000 r-xp 0 08:01 42 /usr/bin/rubyfmt", false),
            ("55d000000000-55d000021000 r-xp 0 00:00 0 [anon:ruby]", false),
        ] {
            assert_eq!(
                parse_mappings(line.as_bytes()).iter().any(Mapping::is_of_ruby),
                expected,
                "{line}"
            );
        }
    }
}
