//! The addresses that Ruby's compiler, YJIT or ZJIT, has reserved for machine code, found in the mappings of a process.
//!
//! The compiler reserves a number of MiB without access (`--yjit-exec-mem-size`, yjit/src/options.rs) and opens them from the first page
//! on. Between two compilations all opened pages are `r-x`. While it writes, the pages that it writes are `rw-`
//! (yjit/src/virtualmem.rs, `write_byte` and `mark_all_executable`). The rest stays `---`. Code that was thrown away becomes `---` too.

use std::ops::Range;

/// The size of a reservation is a multiple of this.
const UNIT: u64 = 1 << 20;
/// Smaller code without a reservation is that of libffi's closures or of a regular expression.
const LEAST_REST: u64 = UNIT;
/// Libraries with a compiler of their own, whose code has the same form.
const OTHER_COMPILERS: [&str; 4] = ["mini_racer", "libv8", "libnode", "libjavascriptcore"];

/// A mapping, as far as its form says something about a compiler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedPiece<'a> {
    /// Its addresses.
    pub range: Range<u64>,
    /// `r`, `w` and `x` of the permissions.
    pub access: [bool; 3],
    /// Whether other processes see writes.
    pub shared: bool,
    /// Path, `[heap]`, `[anon:…]`, or empty for plain anonymous memory.
    pub name: &'a str,
}

/// What the mappings of a process say about its compiler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodeSearch {
    /// No mapping has the form. A compiler that has compiled nothing, or that writes its very first pages, has none either.
    Absent,
    /// There is code, but it may be that of another compiler, or there are several places of this form.
    Unsure,
    /// The compiler of Ruby.
    Found(CodeRoom),
}

/// The addresses for machine code of one compiler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeRoom {
    /// From the first page with code to the end of the reservation, as far as it is known.
    pub addresses: Range<u64>,
    /// From the first page with code to the end of the last; code that was thrown away can lie between.
    pub code: Range<u64>,
    /// Bytes of addresses that are reserved; `None` where a mapping beside them hides where they begin or end.
    pub reserved: Option<u64>,
    /// Bytes of the opened pages: those with code.
    pub opened: u64,
}

impl CodeRoom {
    /// The room of neighbours, the first and the last of which are its own.
    fn of(pieces: &[MappedPiece<'_>], is_whole: bool) -> Option<Self> {
        let code_end = pieces.iter().rfind(|one| !one.is_rest())?.range.end;
        let start = pieces.first()?.range.start;
        let reserved = sum(pieces).is_multiple_of(UNIT).then(|| sum(pieces));
        Some(Self {
            addresses: start..pieces.last()?.range.end,
            code: start..code_end,
            reserved: reserved.filter(|_| is_whole),
            opened: pieces.iter().filter(|one| !one.is_rest()).map(MappedPiece::size).sum(),
        })
    }
}

impl<'a> MappedPiece<'a> {
    /// A line of `/proc/PID/maps` (proc_pid_maps(5)); `None` for a line of another form.
    pub fn parse(line: &'a str) -> Option<Self> {
        let mut rest = line;
        let mut next = || {
            let (field, after) = rest.split_once(' ').unwrap_or((rest, ""));
            rest = after.trim_start();
            field
        };
        let (addresses, access) = (next(), next());
        let (_offset, _device, _inode) = (next(), next(), next());
        let (start, end) = addresses.split_once('-')?;
        let parse = |text| u64::from_str_radix(text, 16).ok();
        let &[read, write, execute, sharing] = access.as_bytes() else { return None };
        let range = parse(start)?..parse(end)?;
        let access = [read == b'r', write == b'w', execute == b'x'];
        // A range that ends before it begins has no size.
        (range.start < range.end).then_some(Self {
            range,
            access,
            shared: sharing == b's',
            name: rest.trim_end(),
        })
    }

    fn size(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Named by Ruby from 3.4 on, where the kernel allows it ([`crate::version::NAMED_MAPPINGS`]).
    fn is_named(&self) -> bool {
        let label = self.name.strip_prefix("[anon:Ruby:");
        label.is_some_and(|label| label.starts_with("rb_yjit") || label.starts_with("rb_jit"))
    }

    fn is_code(&self) -> bool {
        self.access == [true, false, true]
    }

    fn is_written(&self) -> bool {
        self.access == [true, true, false]
    }

    fn is_rest(&self) -> bool {
        self.access == [false; 3]
    }

    /// Whether a compiler of Ruby can have it: it never has pages that can be written and executed.
    fn is_possible(&self) -> bool {
        let is_plain = self.name.is_empty() || self.is_named();
        is_plain && !self.shared && (self.is_code() || self.is_written() || self.is_rest())
    }
}

/// Finds the compiler in the text of `/proc/PID/maps`.
pub fn find_in_maps(maps: &str) -> CodeSearch {
    let pieces: Vec<MappedPiece<'_>> = maps.lines().filter_map(MappedPiece::parse).collect();
    find_code_room(&pieces)
}

/// Finds the compiler in mappings in order of their addresses.
pub fn find_code_room(pieces: &[MappedPiece<'_>]) -> CodeSearch {
    let (named, mut plain) = rooms(pieces);
    let mut certain = if named.is_empty() && !has_other_compiler(pieces) {
        std::mem::take(&mut plain)
    } else {
        named
    };
    match (certain.pop(), certain.is_empty(), plain.is_empty()) {
        // The name is proof; the form is one only where it is alone and no other library compiles code.
        (Some(one), true, _) => CodeSearch::Found(one),
        (None, _, true) => CodeSearch::Absent,
        _ => CodeSearch::Unsure,
    }
}

/// Every place that has the form, whichever compiler it is of, for a caller that can tell them apart by their content.
pub fn possible_code_rooms(pieces: &[MappedPiece<'_>]) -> Vec<CodeRoom> {
    let (named, plain) = rooms(pieces);
    named.into_iter().chain(plain).collect()
}

fn has_other_compiler(pieces: &[MappedPiece<'_>]) -> bool {
    let is_other = |piece: &MappedPiece<'_>| {
        OTHER_COMPILERS.iter().any(|library| piece.name.contains(library))
    };
    pieces.iter().any(is_other)
}

/// The places that Ruby has named, and those that only have the form.
fn rooms(pieces: &[MappedPiece<'_>]) -> (Vec<CodeRoom>, Vec<CodeRoom>) {
    let pieces = without_overlaps(pieces);
    let chains = pieces.chunk_by(|one, next| {
        let joined = one.range.end == next.range.start && one.is_possible() && next.is_possible();
        // A name is a limit: what has none is not of the compiler that named its own.
        joined && one.is_named() == next.is_named()
    });
    let (named, plain): (Vec<_>, Vec<_>) = chains.partition(|chain| chain[0].is_named());
    let named = named.into_iter().filter_map(|chain| CodeRoom::of(chain, true));
    (named.collect(), plain.into_iter().filter_map(plain_room).collect())
}

/// The kernel writes the text page by page. If a compiler's page is joined with its neighbour meanwhile, the text has both states
/// (`m_start`, fs/proc/task_mmu.c): the next mapping begins before the end of the last.
fn without_overlaps<'a>(pieces: &[MappedPiece<'a>]) -> Vec<MappedPiece<'a>> {
    let mut end = 0;
    let rest = pieces.iter().filter_map(|piece| {
        let range = piece.range.start.max(end)..piece.range.end;
        end = end.max(range.end);
        (!range.is_empty()).then(|| MappedPiece { range, ..piece.clone() })
    });
    rest.collect()
}

/// Neighbours that may be a compiler's: code, and a long rest behind it or a whole number of MiB.
fn plain_room(chain: &[MappedPiece<'_>]) -> Option<CodeRoom> {
    let is_code = |one: &MappedPiece<'_>| one.is_code() && one.is_possible();
    let (first, last) = (chain.iter().position(is_code)?, chain.iter().rposition(is_code)?);
    // What lies before and behind may be a stack or an arena. Without its rest the code ends where it ends.
    let rests = (last + 1..chain.len()).filter(|&at| chain[at].is_rest());
    let mut ends: Vec<usize> = rests.collect();
    let is_long = ends.iter().any(|&at| chain[at].size() >= LEAST_REST);
    if ends.is_empty() {
        ends.push(last);
    }
    // A short rest may be the guard of a stack, so then nothing before the code can belong to it.
    let starts = if is_long { 0..=first } else { first..=first };
    let possible = starts.flat_map(|start| ends.iter().map(move |&end| start..=end));
    let whole = possible.filter(|places| sum(&chain[places.clone()]).is_multiple_of(UNIT));
    let whole: Vec<_> = whole.collect();
    match whole.as_slice() {
        [one] => CodeRoom::of(&chain[one.clone()], true),
        // A neighbour was merged with the rest, or several limits are possible.
        [] if !is_long => None,
        _ => CodeRoom::of(&chain[first..=ends[0]], false),
    }
}

fn sum(pieces: &[MappedPiece<'_>]) -> u64 {
    pieces.iter().map(MappedPiece::size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ruby 3.3.8 between two compilations, 48 MiB; the library and its zeroed data lie below.
    const WORKING: &str = "\
7f712b84b000-7f712bbca000 r-xp 0004b000 fe:00 10035223                   /usr/lib/x86_64-linux-gnu/libruby-3.3.so.3.3.8
7f712bd6e000-7f712bd83000 rw-p 00000000 00:00 0 
7fafec908000-7fafecc0f000 r-xp 00000000 00:00 0 
7fafecc0f000-7fafef908000 ---p 00000000 00:00 0 
";
    /// The same process while YJIT wrote into two pages.
    const WRITING: &str = "\
7fafec908000-7fafecc14000 r-xp 00000000 00:00 0 
7fafecc14000-7fafecc15000 rw-p 00000000 00:00 0 
7fafecc15000-7fafecc16000 r-xp 00000000 00:00 0 
7fafecc16000-7fafecc17000 rw-p 00000000 00:00 0 
7fafecc17000-7fafef908000 ---p 00000000 00:00 0 
";
    /// Threads of Ruby 3.3.8: an arena of glibc, and stacks with their guards.
    const NO_COMPILER: &str = "\
7f7108000000-7f7108021000 rw-p 00000000 00:00 0 
7f7108021000-7f710c000000 ---p 00000000 00:00 0 
7f71100be000-7f71100bf000 ---p 00000000 00:00 0 
7f71100bf000-7f71101bf000 rw-p 00000000 00:00 0 
7f71101bf000-7f71101c0000 ---p 00000000 00:00 0 
7f71101c0000-7f7110261000 rw-p 00000000 00:00 0 
";
    /// V8 of Node.js, which writes and executes the same pages.
    const V8: &str = "\
7f28befc2000-7f28befc3000 ---p 00000000 00:00 0 
7f28befc3000-7f28befff000 rwxp 00000000 00:00 0 
7f28befff000-7f28dee00000 ---p 00000000 00:00 0 
";
    const RACER: &str =
        "7f28e6000000-7f28e6001000 r-xp 00000000 08:01 7    /gems/mini_racer_extension.so\n";

    /// Reserved MiB, and opened pages.
    fn found(maps: &str) -> Option<(Option<u64>, u64)> {
        match find_in_maps(maps) {
            CodeSearch::Found(room) => Some((room.reserved.map(|b| b >> 20), room.opened >> 12)),
            CodeSearch::Absent | CodeSearch::Unsure => None,
        }
    }

    #[test]
    fn the_compiler_is_found_between_compilations_and_while_it_writes() {
        assert_eq!(found(WORKING), Some((Some(48), 775)));
        assert_eq!(found(WRITING), Some((Some(48), 783)));
        assert_eq!(found(&format!("{NO_COMPILER}{V8}{WRITING}")), Some((Some(48), 783)));
    }

    #[test]
    fn a_text_that_was_read_while_pages_were_joined_has_the_compiler_too() {
        let torn = "\
7fe42d908000-7fe42df99000 r-xp 00000000 00:00 0 
7fe42df99000-7fe42df9a000 rw-p 00000000 00:00 0 
7fe42df99000-7fe42df9b000 rw-p 00000000 00:00 0 
7fe42df9b000-7fe430908000 ---p 00000000 00:00 0 
";
        assert_eq!(found(torn), Some((Some(48), 1683)));
    }

    #[test]
    fn arenas_stacks_closures_and_pages_that_are_written_and_executed_are_no_compiler_of_ruby() {
        let closure = "7f7200000000-7f7200001000 r-xp 00000000 00:00 0 \n";
        for maps in [NO_COMPILER, V8, closure, &format!("{NO_COMPILER}{V8}{closure}"), ""] {
            assert_eq!(find_in_maps(maps), CodeSearch::Absent, "{maps}");
        }
    }

    #[test]
    fn what_could_be_another_compiler_is_never_said_to_be_rubys() {
        let second = WORKING.replace("7faf", "7fae");
        for maps in [format!("{RACER}{WORKING}"), format!("{second}{WORKING}")] {
            assert_eq!(find_in_maps(&maps), CodeSearch::Unsure, "{maps}");
        }
        // Its name is proof.
        let named =
            WRITING.replace("00:00 0 ", "00:00 0    [anon:Ruby:rb_yjit_reserve_addr_space]");
        assert_eq!(found(&format!("{RACER}{second}{named}")), Some((Some(48), 783)));
        let zjit = named.replace("yjit", "jit").replace("r-x", "rw-");
        assert_eq!(found(&zjit), Some((Some(48), 783)));
        let nothing =
            "7fafec908000-7fafef908000 ---p 00000000 00:00 0 [anon:Ruby:rb_yjit_reserve]\n";
        assert_eq!(find_in_maps(nothing), CodeSearch::Absent);
    }

    #[test]
    fn a_neighbour_makes_the_size_unknown_rather_than_wrong() {
        let below = "7fafec108000-7fafec908000 rw-p 00000000 00:00 0 \n";
        assert_eq!(found(&format!("{below}{WRITING}")), Some((None, 783)));
        let guard = WORKING.replace("7fafef908000 ---", "7fafef909000 ---");
        assert_eq!(found(&guard), Some((None, 775)));
        let odd = "7fafec907000-7fafec908000 ---p 00000000 00:00 0 \n";
        assert_eq!(found(&format!("{odd}{WORKING}")), Some((Some(48), 775)));
    }
}
