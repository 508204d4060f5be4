//! Which allocator a process uses.

use crate::observe::{Mapping, ProbeFigures, Region, RegionHints, classify};
use carat_model::Bytes;
use carat_model::CLibrary;
use carat_model::ledger::{Basis, DetectedAllocator};

/// Allocator libraries, by a part of their file name.
const LIBRARIES: [&str; 3] = ["jemalloc", "mimalloc", "tcmalloc"];
/// The one that grows its heap as glibc's malloc does.
const GROWS_BY_BRK: &str = "tcmalloc";
/// Start-up code allocates a little from glibc before another allocator takes over.
const GLIBC_IN_USE: Bytes = Bytes(3 << 20);

/// The allocator that the probe found, or to which Ruby's own calls lead. Where the inside was not read, what is mapped tells
/// only where nothing else is possible: a library can be mapped without being used.
pub(super) fn detect(mappings: &[Mapping], inside: Option<&ProbeFigures>) -> DetectedAllocator {
    let loaded: Vec<String> = LIBRARIES
        .iter()
        .filter(|library| mappings.iter().any(|mapping| is_library(&mapping.name, library)))
        .map(|&library| library.to_owned())
        .collect();
    // What calls lead to is proof; what is mapped is only a sign.
    let (active, evidence) = inside.and_then(found_inside).unwrap_or_else(|| {
        let (active, evidence) = by_mappings(mappings, &loaded);
        (active.map(str::to_owned), evidence)
    });
    DetectedAllocator { active, loaded, evidence }
}

/// What the inside tells, also that it is an allocator without a name here.
fn found_inside(figures: &ProbeFigures) -> Option<(Option<String>, String)> {
    let active = figures.allocator.clone();
    match (&figures.malloc_file, figures.basis) {
        (Some(file), _) => Some((active, format!("Ruby's calls of `malloc` lead to {file}"))),
        (None, Basis::Probe) if active.is_some() => {
            Some((active, "the probe looked up `malloc` inside the process".to_owned()))
        }
        _ => None,
    }
}

fn by_mappings<'a>(mappings: &[Mapping], loaded: &'a [String]) -> (Option<&'a str>, String) {
    let c_library = mappings.iter().find_map(|mapping| CLibrary::of(&mapping.name));
    let held = glibc_heap(mappings);
    match (loaded, c_library) {
        ([], Some(CLibrary::Musl)) => {
            (Some("musl"), "musl is mapped and no other allocator".to_owned())
        }
        ([], Some(CLibrary::Glibc)) => {
            (Some("glibc"), "no other allocator library is mapped".to_owned())
        }
        ([], None) => {
            (None, "no C library is mapped; a static program contains its own allocator".to_owned())
        }
        ([only], _) if only != GROWS_BY_BRK && held > GLIBC_IN_USE => {
            (Some("glibc"), format!("{only} is mapped, but glibc's own heap holds {held}"))
        }
        ([only], _) if held <= GLIBC_IN_USE => {
            (Some(only), format!("{only} is mapped and the heap of brk holds only {held}"))
        }
        ([only], _) => (
            None,
            format!(
                "{only} is mapped, and both it and glibc may have grown the heap of brk, which holds {held}"
            ),
        ),
        (several, _) => {
            (None, format!("{} are mapped; which one serves was not read", several.join(" and ")))
        }
    }
}

fn glibc_heap(mappings: &[Mapping]) -> Bytes {
    let hints = RegionHints { stack_pointers: &[], glibc: true, transient_heap: false };
    let regions = classify(mappings, hints);
    // mimalloc and jemalloc align their own regions like arenas, so only the program break is proof.
    let main = mappings.iter().zip(&regions).filter(|(_, region)| **region == Region::MainArena);
    main.map(|(mapping, _)| mapping.rss).sum()
}

fn is_library(path: &str, word: &str) -> bool {
    path.rsplit('/').next().is_some_and(|file| file.starts_with("lib") && file.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::parse_mappings;

    fn process(heap_kib: u64, libraries: &[&str]) -> Vec<Mapping> {
        let mut maps = format!(
            "55a000000000-55a010000000 rw-p 0 00:00 0 [heap]\nRss: {heap_kib} kB\nPss: {heap_kib} kB\n"
        );
        for (library, number) in libraries.iter().zip(0..) {
            maps += &format!(
                "7f000{number}000000-7f000{number}200000 r-xp 0 fe:00 5 /usr/lib/{library}\n"
            );
        }
        parse_mappings(maps.as_bytes())
    }

    #[test]
    fn a_mapped_allocator_is_active_only_if_glibcs_heap_is_small() {
        for (heap, library, active) in [
            (27_000, "libc.so.6", Some("glibc")),
            (27_000, "libc-2.31.so", Some("glibc")),
            (132, "libjemalloc.so.2", Some("jemalloc")),
            (27_000, "libjemalloc.so.2", Some("glibc")),
            (132, "libtcmalloc_minimal.so.4", Some("tcmalloc")),
            // The heap of brk is tcmalloc's as well as glibc's.
            (27_000, "libtcmalloc_minimal.so.4", None),
            (132, "ld-musl-x86_64.so.1", Some("musl")),
            (132, "x86_64-linux-musl/libc.so", Some("musl")),
            (132, "libz.so.1", None),
        ] {
            let allocator = detect(&process(heap, &[library]), None);
            assert_eq!(allocator.active.as_deref(), active, "{library} {heap}");
        }
    }

    #[test]
    fn of_two_mapped_allocators_the_mappings_alone_name_none() {
        let both = process(132, &["libjemalloc.so.2", "libmimalloc.so.2"]);
        let allocator = detect(&both, None);
        assert_eq!((allocator.active, allocator.loaded.len()), (None, 2));
        let (basis, file) = (Basis::Outside, Some("libmimalloc.so.2".to_owned()));
        let figures = ProbeFigures { basis, malloc_file: file, ..ProbeFigures::default() };
        let allocator = Some("mimalloc".to_owned());
        let named = detect(&both, Some(&ProbeFigures { allocator, ..figures.clone() }));
        assert_eq!(named.active.as_deref(), Some("mimalloc"));
        assert!(named.evidence.contains("libmimalloc.so.2"), "{}", named.evidence);
        // One that carat does not know is not taken for another.
        assert_eq!(detect(&process(132, &["libc.so.6"]), Some(&figures)).active, None);
    }

    #[test]
    fn the_allocator_found_by_the_probe_takes_precedence() {
        let probe = ProbeFigures { allocator: Some("mimalloc".into()), ..ProbeFigures::default() };
        let allocator = detect(&process(27_000, &["libjemalloc.so.2"]), Some(&probe));
        assert_eq!(allocator.active.as_deref(), Some("mimalloc"));
        assert_eq!(allocator.loaded, ["jemalloc"]);
    }
}
