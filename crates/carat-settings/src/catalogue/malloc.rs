//! Settings of malloc: another allocator, and the variables of each.

use crate::allocator::allocator_of;
use crate::catalogue::jemalloc::JemallocOptions;
use crate::elf::{ElfKind, read_elf};
use crate::environment::{ApplyError, Environment, EnvironmentBuilder};
use crate::observation::{MallocInUse, ProcessObservation, SettingStatus};
use crate::setting::{Mechanism, Setting, SettingDefinition};
use crate::value::{MemorySize, SettingValue, WholeNumber, alternatives};
use carat_wire::page::{AllocatorKind, Word};
use std::fmt;
use std::path::{Path, PathBuf};

pub(super) const SETTINGS: &[SettingDefinition] = &[
    SettingDefinition::of::<PreloadedAllocator>(),
    SettingDefinition::of::<ArenaMax>(),
    SettingDefinition::of::<TrimThreshold>(),
    SettingDefinition::of::<MmapThreshold>(),
    SettingDefinition::of::<TopPad>(),
    SettingDefinition::of::<TcacheCount>(),
    SettingDefinition::of::<MallocConf>(),
];

/// Which malloc serves the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AllocatorChoice {
    /// The C library's.
    System,
    /// One that is looked for by name.
    Named(&'static str),
    /// A library of this path.
    Library(PathBuf),
}

impl fmt::Display for AllocatorChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("system"),
            Self::Named(name) => f.write_str(name),
            Self::Library(path) => path.display().fmt(f),
        }
    }
}

impl SettingValue for AllocatorChoice {
    const WORDS: &'static [&'static str] = &["system", "jemalloc", "mimalloc", "tcmalloc"];

    fn parse(text: &str) -> Option<Self> {
        match Self::WORDS.iter().find(|word| **word == text) {
            Some(&"system") => Some(Self::System),
            Some(name) => Some(Self::Named(name)),
            None => Path::new(text).is_absolute().then(|| Self::Library(text.into())),
        }
    }

    fn accepted() -> String {
        format!("{} or an absolute path", alternatives(Self::WORDS))
    }
}

pub(crate) struct PreloadedAllocator;

impl Setting for PreloadedAllocator {
    type Value = AllocatorChoice;
    const NAME: &'static str = "allocator";
    const DEFAULT: &'static str = "system";
    const MECHANISM: Mechanism = Mechanism::Own;
    const LEVELS: &'static [&'static str] = &["jemalloc", "mimalloc", "tcmalloc"];
    const VERIFIES_DEFAULT: bool = true;
    const DOES: &'static str = "Preloads another malloc, or for `system` takes the libraries of others out of LD_PRELOAD. Its options, not its name, decide how much memory an idle server keeps.";
    const COSTS: &'static str =
        "About 1 MB per process; a few percent of speed in either direction.";
    const VERIFIED_BY: &'static str = "the library in /proc/PID/maps, and that its malloc serves the process; `system`: that the C library's malloc serves it";

    fn apply(
        value: &AllocatorChoice,
        server: &mut EnvironmentBuilder<'_>,
    ) -> Result<(), ApplyError> {
        let library = match value {
            AllocatorChoice::System => {
                remove_allocators(server);
                return Ok(());
            }
            AllocatorChoice::Library(path) => path.clone(),
            AllocatorChoice::Named(name) => (server.context.find_allocator)(name)
                .ok_or_else(|| ApplyError::NoAllocator { name: (*name).to_owned() })?,
        };
        // Read where it is from here, but named as the server will see it.
        let inside_root = server.root.join(library.strip_prefix("/").unwrap_or(&library));
        check_library(&library, &inside_root, server.context.ruby)?;
        // Without itself: it comes first wherever it stood.
        let others = server.current("LD_PRELOAD").map(|all| without(&all, &library));
        let others = others.filter(|others| !others.is_empty());
        if let Some(warning) = other_allocator(&library, others.as_deref()) {
            server.warn(warning);
        }
        // Before the others: the first library with `malloc` serves (ld.so(8)).
        server.prepend("LD_PRELOAD", &library.display().to_string(), others);
        server.preload(library);
        Ok(())
    }

    fn verify(
        value: &AllocatorChoice,
        process: &ProcessObservation<'_>,
        environment: &Environment,
    ) -> SettingStatus {
        if *value == AllocatorChoice::System {
            return served_by_libc(process);
        }
        let Some(maps) = process.maps else {
            return SettingStatus::Unknown("/proc/PID/maps cannot be read".into());
        };
        // No other setting preloads, so the first library is that of this one.
        let Some(library) = environment.preload.first() else {
            return SettingStatus::Unknown("no library was preloaded".into());
        };
        let root = environment.root.as_deref().unwrap_or(Path::new("/"));
        // The kernel shows the file behind all links, which the name of a version often is.
        let file = behind_links(root, library).unwrap_or_else(|| library.clone());
        if is_mapped(maps, &file) || is_mapped(maps, library) {
            served_by(&file, process)
        } else {
            let is_named =
                |value: &str| value.split([':', ' ']).any(|one| Path::new(one) == library);
            let why = match process.variable_status("LD_PRELOAD", is_named) {
                SettingStatus::Applied(_) => {
                    "although LD_PRELOAD names it; the loader ignores preloads for setuid and static programs and for \
                     other machines"
                }
                _ => "and LD_PRELOAD in /proc/PID/environ does not name it",
            };
            SettingStatus::NotApplied(format!("{} is not mapped, {why}", library.display()))
        }
    }
}

/// Takes the libraries of allocators out of `LD_PRELOAD`, which images often set, and keeps the others.
fn remove_allocators(server: &mut EnvironmentBuilder<'_>) {
    let Some(all) = server.current("LD_PRELOAD") else { return };
    let parts = all.split([':', ' ']).filter(|path| !path.is_empty());
    let (removed, kept): (Vec<&str>, Vec<&str>) =
        parts.partition(|path| allocator_of(Path::new(path)).is_some());
    if !removed.is_empty() {
        server.warn(format!("LD_PRELOAD names {}, which is left out", removed.join(" and ")));
        server.set("LD_PRELOAD", kept.join(":"));
    }
}

/// Whether the malloc of the C library serves, and nothing that is preloaded or linked.
fn served_by_libc(process: &ProcessObservation<'_>) -> SettingStatus {
    match process.malloc {
        Some(MallocInUse { kind: AllocatorKind::Glibc | AllocatorKind::Musl, file }) => {
            SettingStatus::Applied(format!("malloc is that of {file}"))
        }
        Some(MallocInUse { file, .. }) => {
            SettingStatus::NotApplied(format!("malloc is that of {file}"))
        }
        None => {
            let mut files = process.maps.unwrap_or_default().lines().filter_map(file_of);
            // What is mapped need not serve.
            let other = files.find(|file| allocator_of(Path::new(file)).is_some());
            let mapped = other.map(|file| format!("{file} is mapped; ")).unwrap_or_default();
            SettingStatus::Unknown(format!("{mapped}whose malloc serves is unknown"))
        }
    }
}

/// The file of a line of `/proc/PID/maps`.
fn file_of(line: &str) -> Option<&str> {
    line.find('/').map(|start| &line[start..])
}

/// Whether the malloc of a mapped library is the one that serves.
fn served_by(library: &Path, process: &ProcessObservation<'_>) -> SettingStatus {
    let name = library.display();
    let Some(serving) = process.malloc else {
        return SettingStatus::Unknown(format!("{name} is mapped; whose malloc serves is unknown"));
    };
    let file = Path::new(serving.file);
    // By name: the server's path to the library can lead through links or another root.
    let same_file = file.file_name() == library.file_name();
    if same_file || allocator_of(library).is_some_and(|own| own == serving.kind.name()) {
        SettingStatus::Applied(format!("malloc is that of {name}"))
    } else {
        let serving = file.display();
        SettingStatus::NotApplied(format!("{name} is mapped, but malloc is that of {serving}"))
    }
}

/// Refuses a library that the loader would not preload into this Ruby; `here` is its path outside the server's root.
fn check_library(library: &Path, here: &Path, ruby: Option<ElfKind>) -> Result<(), ApplyError> {
    // LD_PRELOAD has no way to quote its separators (ld.so(8)).
    if library.to_string_lossy().contains([' ', ':']) {
        return Err(ApplyError::Separator(library.to_owned()));
    }
    let kind = read_elf(here).map_err(|error| ApplyError::Unreadable {
        path: library.to_owned(),
        reason: error.to_string(),
    })?;
    let Some(ruby) = ruby else { return Ok(()) };
    let other = match kind {
        Some(kind) if ruby.can_load(kind) => return Ok(()),
        Some(kind) => kind.to_string(),
        None => "not a library".into(),
    };
    Err(ApplyError::OtherMachine { path: library.to_owned(), library: other, ruby })
}

/// The file in `root` that a link there points to, as a path inside: the kernel shows that file among the mappings.
pub(super) fn behind_links(root: &Path, library: &Path) -> Option<PathBuf> {
    let file = root.join(library.strip_prefix("/").ok()?).canonicalize().ok()?;
    Some(Path::new("/").join(file.strip_prefix(root.canonicalize().ok()?).ok()?))
}

pub(super) fn is_mapped(maps: &str, library: &Path) -> bool {
    // By its end: from outside, a path in another root begins with that root.
    maps.lines().any(|line| line.ends_with(&library.display().to_string()))
}

/// What `LD_PRELOAD` names besides `library`, which a server that restarts itself through carat already has.
fn without(all: &str, library: &Path) -> String {
    let others = all.split([':', ' ']).filter(|path| Path::new(path) != library);
    others.collect::<Vec<_>>().join(":")
}

/// A warning where `LD_PRELOAD` already names another allocator.
fn other_allocator(library: &Path, inherited: Option<&str>) -> Option<String> {
    let ours = allocator_of(library);
    let theirs = inherited?
        .split([':', ' '])
        .find_map(|path| allocator_of(Path::new(path)))
        .filter(|theirs| Some(*theirs) != ours)?;
    Some(format!(
        "LD_PRELOAD already names {theirs}; {} comes first and is used",
        library.display()
    ))
}

struct ArenaMax;

impl Setting for ArenaMax {
    type Value = WholeNumber<1, 1024>;
    const NAME: &'static str = "arena_max";
    const DEFAULT: &'static str = "8 per core";
    const MECHANISM: Mechanism = Mechanism::Variable("MALLOC_ARENA_MAX");
    const MALLOC: Option<AllocatorKind> = Some(AllocatorKind::Glibc);
    const LEVELS: &'static [&'static str] = &["4", "2", "1"];
    const DOES: &'static str =
        "Limits the number of arenas of glibc's malloc, so that threads share their free memory.";
    const COSTS: &'static str =
        "Threads wait for each other in malloc; Heroku measured 3 % slower responses with 2.";
    const VERIFIED_BY: &'static str =
        "the variable in /proc/PID/environ, and at most that many arenas in /proc/PID/maps";

    fn verify(
        value: &Self::Value,
        process: &ProcessObservation<'_>,
        _environment: &Environment,
    ) -> SettingStatus {
        let Some(maps) = process.maps else {
            return SettingStatus::Unknown("/proc/PID/maps cannot be read".into());
        };
        // The main arena is the heap that brk grows; every other arena has mappings of its own.
        let Arenas { known, may_be_more } = secondary_arenas(maps);
        let arenas = 1 + known;
        // More is proof against it, whatever the environment says.
        if arenas as u64 > value.0 {
            return SettingStatus::NotApplied(format!(
                "{arenas} arenas are mapped; perhaps a program in between removes the variable"
            ));
        }
        // So few may be all that this process needed so far.
        let more = if may_be_more { " or more" } else { "" };
        match process.has_variable("MALLOC_ARENA_MAX", &value.to_string()) {
            SettingStatus::Applied(_) => {
                SettingStatus::Applied(format!("{arenas}{more} of at most {value} arenas"))
            }
            other => other,
        }
    }
}

/// Address space of a heap, and the boundary to which it is aligned (malloc/arena.c, `HEAP_MAX_SIZE`).
const HEAP: u64 = 64 << 20;
/// An arena begins a further heap where a request does not fit into what is left of the last one. No request is larger than
/// this: malloc maps such blocks by themselves (malloc.c, `DEFAULT_MMAP_THRESHOLD_MAX`).
const LARGEST_REQUEST: u64 = 32 << 20;

/// glibc's arenas besides the main one.
#[derive(Debug, PartialEq, Eq)]
struct Arenas {
    /// At least so many: one for each heap that nothing can have outgrown, so that it is the last of its arena.
    known: usize,
    /// Whether other heaps may be of further arenas.
    may_be_more: bool,
}

/// Counts arenas by their heaps, of which the first part is writable and the rest, if any, is not accessible.
fn secondary_arenas(maps: &str) -> Arenas {
    let ranges: Vec<AnonymousRange<'_>> = maps.lines().filter_map(AnonymousRange::parse).collect();
    // Neighbours, because the part without access follows the writable one.
    let heaps = ranges.windows(2).filter(|pair| pair[0].is_heap_before(&pair[1]));
    let (last, full): (Vec<_>, Vec<_>) =
        heaps.partition(|heap| heap[0].end - heap[0].start < HEAP - LARGEST_REQUEST);
    Arenas { known: last.len(), may_be_more: !full.is_empty() }
}

/// A mapping without a file.
struct AnonymousRange<'a> {
    start: u64,
    end: u64,
    access: &'a str,
}

impl<'a> AnonymousRange<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let access = fields.next()?;
        let is_named = fields.nth(3).is_some();
        let (start, end) =
            (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
        (!is_named).then_some(Self { start, end, access })
    }

    /// Whether this is the writable part of a heap whose inaccessible part is `rest`.
    fn is_heap_before(&self, rest: &Self) -> bool {
        self.start.is_multiple_of(HEAP)
            && self.access.starts_with("rw-")
            && rest.start == self.end
            && rest.access.starts_with("---")
            && rest.end - self.start >= HEAP
    }
}

struct TrimThreshold;

impl Setting for TrimThreshold {
    type Value = MemorySize;
    const NAME: &'static str = "malloc.trim_threshold";
    const DEFAULT: &'static str = "128k, growing";
    const MECHANISM: Mechanism = Mechanism::Variable("MALLOC_TRIM_THRESHOLD_");
    const MALLOC: Option<AllocatorKind> = Some(AllocatorKind::Glibc);
    const DOES: &'static str = "Returns the top of glibc's heap to the kernel above this size, and stops the threshold from growing.";
    const COSTS: &'static str = "More system calls while the heap's top moves.";
}

/// glibc ignores larger values: half of `HEAP_MAX_SIZE` (malloc/malloc.c, `do_set_mmap_threshold`).
const MOST_MMAP_THRESHOLD: u64 = 32 << 20;

struct MmapThreshold;

impl Setting for MmapThreshold {
    type Value = MemorySize<0, MOST_MMAP_THRESHOLD>;
    const NAME: &'static str = "malloc.mmap_threshold";
    const DEFAULT: &'static str = "128k, growing";
    const MECHANISM: Mechanism = Mechanism::Variable("MALLOC_MMAP_THRESHOLD_");
    const MALLOC: Option<AllocatorKind> = Some(AllocatorKind::Glibc);
    const DOES: &'static str = "Gives larger blocks a mapping of their own, which is returned to the kernel when freed, and stops the threshold from growing.";
    const COSTS: &'static str = "A system call and new page faults for every such block.";
}

struct TopPad;

impl Setting for TopPad {
    type Value = MemorySize;
    const NAME: &'static str = "malloc.top_pad";
    // No value: also 128k, once it is set, stops the thresholds from growing (`do_set_top_pad`, malloc/malloc.c).
    const DEFAULT: &'static str = "128k, and thresholds that grow";
    const MECHANISM: Mechanism = Mechanism::Variable("MALLOC_TOP_PAD_");
    const MALLOC: Option<AllocatorKind> = Some(AllocatorKind::Glibc);
    const DOES: &'static str = "Grows glibc's heap by this much more than requested.";
    const COSTS: &'static str = "A large pad keeps memory; a small one means more system calls.";
}

struct TcacheCount;

impl Setting for TcacheCount {
    type Value = WholeNumber<0, 65535>;
    const NAME: &'static str = "malloc.tcache_count";
    const DEFAULT: &'static str = "7";
    const MECHANISM: Mechanism = Mechanism::Tunable("glibc.malloc.tcache_count");
    const MALLOC: Option<AllocatorKind> = Some(AllocatorKind::Glibc);
    const DOES: &'static str = "Limits how many free blocks of each size a thread caches.";
    const COSTS: &'static str = "A small count means more locking in malloc.";
}

struct MallocConf;

impl Setting for MallocConf {
    type Value = JemallocOptions;
    const NAME: &'static str = "malloc_conf";
    const DEFAULT: &'static str = "empty";
    const MECHANISM: Mechanism = Mechanism::Variable("MALLOC_CONF");
    const MALLOC: Option<AllocatorKind> = Some(AllocatorKind::Jemalloc);
    const LEVELS: &'static [&'static str] =
        &["dirty_decay_ms:1000,narenas:2", "dirty_decay_ms:0,muzzy_decay_ms:0"];
    const DOES: &'static str =
        "Options of jemalloc, such as `dirty_decay_ms:1000,narenas:2,background_thread:true`.";
    const COSTS: &'static str = "Depends on the option; a short decay means more page faults.";

    fn verify(
        value: &JemallocOptions,
        process: &ProcessObservation<'_>,
        _environment: &Environment,
    ) -> SettingStatus {
        match (process.has_variable("MALLOC_CONF", &value.to_string()), value.unknown()) {
            // jemalloc has read the variable, but perhaps not this option of it.
            (SettingStatus::Applied(reason), Some(option)) => SettingStatus::Unknown(format!(
                "{reason}, but not every jemalloc has `{option}`; one that does not says \"Invalid conf pair\" on the \
                 server's stderr"
            )),
            (status, _) => status,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::tests::{MAPS, word};

    const JEMALLOC: MallocInUse<'_> =
        MallocInUse { kind: AllocatorKind::Jemalloc, file: "/usr/lib/libjemalloc.so.2" };

    fn status<S: Setting>(text: &str, maps: Option<&str>) -> &'static str {
        let environment = Environment {
            preload: vec!["/usr/lib/libjemalloc.so.2".into()],
            ..Environment::default()
        };
        let environ = Some(&b"MALLOC_ARENA_MAX=2\0"[..]);
        let malloc = Some(JEMALLOC);
        let process = ProcessObservation { maps, environ, malloc, ..ProcessObservation::default() };
        word(&S::verify(&S::Value::parse(text).unwrap(), &process, &environment))
    }

    #[test]
    fn a_preload_and_a_limit_of_arenas_are_verified_by_the_mappings() {
        assert_eq!(status::<PreloadedAllocator>("jemalloc", Some(MAPS)), "applied");
        assert_eq!(status::<PreloadedAllocator>("jemalloc", Some("")), "not applied");
        assert_eq!(status::<PreloadedAllocator>("jemalloc", None), "unknown");
        assert_eq!(status::<ArenaMax>("2", Some(MAPS)), "applied");
        assert_eq!(status::<ArenaMax>("1", Some(MAPS)), "not applied");
        assert_eq!(status::<ArenaMax>("4", Some(MAPS)), "not applied", "with another value");
        assert_eq!(status::<ArenaMax>("1", None), "unknown");
    }

    #[test]
    fn a_library_that_is_mapped_and_does_not_serve_is_not_applied() {
        let environment = Environment {
            preload: vec!["/usr/lib/libjemalloc.so.2".into()],
            ..Environment::default()
        };
        let jemalloc = AllocatorChoice::Named("jemalloc");
        let of_libc = MallocInUse { kind: AllocatorKind::Glibc, file: "/usr/lib/libc.so.6" };
        for (malloc, expected) in
            [(Some(JEMALLOC), "applied"), (Some(of_libc), "not applied"), (None, "unknown")]
        {
            let process = ProcessObservation { maps: Some(MAPS), malloc, ..Default::default() };
            let status = PreloadedAllocator::verify(&jemalloc, &process, &environment);
            assert_eq!(word(&status), expected, "{status:?}");
        }
    }

    #[test]
    fn the_systems_malloc_is_verified_by_what_serves() {
        let status = |malloc, maps| {
            let process = ProcessObservation { maps, malloc, ..Default::default() };
            let environment = Environment::default();
            PreloadedAllocator::verify(&AllocatorChoice::System, &process, &environment)
        };
        let of_libc = MallocInUse { kind: AllocatorKind::Glibc, file: "/usr/lib/libc.so.6" };
        let of_musl = MallocInUse { kind: AllocatorKind::Musl, file: "/lib/ld-musl-x86_64.so.1" };
        let other = MallocInUse { kind: AllocatorKind::Other, file: "/opt/libmine.so" };
        for (malloc, expected) in [
            // What is mapped and does not serve does no harm.
            (Some(of_libc), "applied"),
            (Some(of_musl), "applied"),
            (Some(JEMALLOC), "not applied"),
            (Some(other), "not applied"),
            (None, "unknown"),
        ] {
            assert_eq!(word(&status(malloc, Some(MAPS))), expected, "{malloc:?}");
        }
        assert_eq!(word(&status(None, None)), "unknown");
    }

    #[test]
    fn a_library_that_is_a_link_in_the_root_is_verified_by_the_file_there() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("usr/lib");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("libtcmalloc.so.4.5.18"), "").unwrap();
        std::os::unix::fs::symlink("libtcmalloc.so.4.5.18", folder.join("libtcmalloc.so.4"))
            .unwrap();
        let environment = Environment {
            preload: vec!["/usr/lib/libtcmalloc.so.4".into()],
            root: Some(root.path().to_owned()),
            ..Environment::default()
        };
        for (mapped, expected) in [("4.5.18", "applied"), ("4.5.9", "not applied")] {
            let maps =
                format!("7f00-7f01 r-xp 0 fe:00 7 {}/libtcmalloc.so.{mapped}\n", folder.display());
            let file = "/usr/lib/libtcmalloc.so.4";
            let malloc = Some(MallocInUse { kind: AllocatorKind::Tcmalloc, file });
            let process =
                ProcessObservation { maps: Some(&maps), malloc, ..ProcessObservation::default() };
            let tcmalloc = AllocatorChoice::parse("tcmalloc").unwrap();
            let status = PreloadedAllocator::verify(&tcmalloc, &process, &environment);
            assert_eq!(word(&status), expected, "{mapped}");
        }
    }

    #[test]
    fn an_arena_is_told_from_other_anonymous_memory() {
        assert_eq!(secondary_arenas(MAPS), Arenas { known: 1, may_be_more: false });
        assert_eq!(secondary_arenas(""), Arenas { known: 0, may_be_more: false });
    }

    #[test]
    fn an_arena_that_needs_several_heaps_is_not_taken_for_several_arenas() {
        // Two heaps that are nearly full and one that is not: one arena of 140 MB, or up to three.
        let maps = "\
7f0000000000-7f0003ff0000 rw-p 00000000 00:00 0 
7f0003ff0000-7f0004000000 ---p 00000000 00:00 0 
7f0008000000-7f000a100000 rw-p 00000000 00:00 0 
7f000a100000-7f000c000000 ---p 00000000 00:00 0 
7f0010000000-7f0011000000 rw-p 00000000 00:00 0 
7f0011000000-7f0014000000 ---p 00000000 00:00 0 
";
        assert_eq!(secondary_arenas(maps), Arenas { known: 1, may_be_more: true });
        let environ = Some(&b"MALLOC_ARENA_MAX=2\0"[..]);
        let process = ProcessObservation { maps: Some(maps), environ, ..Default::default() };
        let status = ArenaMax::verify(&WholeNumber(2), &process, &Environment::default());
        assert_eq!(status, SettingStatus::Applied("2 or more of at most 2 arenas".into()));
    }
}
