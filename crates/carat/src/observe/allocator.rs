//! Which allocator a process uses.

use crate::core::Bytes;
use crate::core::ledger::DetectedAllocator;
use crate::observe::{Mapping, ProbeFigures, Region, RegionHints, classify};
use crate::settings::CLibrary;

/// Allocator libraries, by a part of their file name.
const LIBRARIES: [&str; 3] = ["jemalloc", "mimalloc", "tcmalloc"];
/// Start-up code allocates a little from glibc before another allocator takes over.
const GLIBC_IN_USE: Bytes = Bytes(3 << 20);

/// The allocator that the probe found. Without a probe it follows from the mapped libraries and from how much glibc's own
/// heap holds, because a library can be mapped without being used.
pub(crate) fn detect(mappings: &[Mapping], probe: Option<&ProbeFigures>) -> DetectedAllocator {
    let loaded: Vec<String> = LIBRARIES
        .iter()
        .filter(|library| mappings.iter().any(|mapping| is_library(&mapping.name, library)))
        .map(|&library| library.to_owned())
        .collect();
    if let Some(active) = probe.and_then(|probe| probe.allocator.clone()) {
        let evidence = "the probe looked up `malloc` inside the process".to_owned();
        return DetectedAllocator { active: Some(active), loaded, evidence };
    }
    let c_library = mappings.iter().find_map(|mapping| CLibrary::of(&mapping.name));
    let held = glibc_heap(mappings);
    let (active, evidence) = match (loaded.first(), c_library) {
        (None, Some(CLibrary::Musl)) => {
            (Some("musl"), "musl is mapped and no other allocator".to_owned())
        }
        (None, Some(CLibrary::Glibc)) => {
            (Some("glibc"), "no other allocator library is mapped".to_owned())
        }
        (None, None) => {
            (None, "no C library is mapped; a static program contains its own allocator".to_owned())
        }
        (Some(other), _) if held > GLIBC_IN_USE => {
            (Some("glibc"), format!("{other} is mapped, but glibc's own heap holds {held}"))
        }
        (Some(other), _) => (
            Some(other.as_str()),
            format!("{other} is mapped and glibc's own heap holds only {held}"),
        ),
    };
    DetectedAllocator { active: active.map(str::to_owned), loaded, evidence }
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

    fn process(heap_kib: u64, library: &str) -> Vec<Mapping> {
        parse_mappings(
            format!(
                "55a000000000-55a010000000 rw-p 0 00:00 0 [heap]\nRss: {heap_kib} kB\nPss: {heap_kib} kB\n\
                 7f0000000000-7f0000200000 r-xp 0 fe:00 5 /usr/lib/{library}\n"
            )
            .as_bytes(),
        )
    }

    #[test]
    fn a_mapped_allocator_is_active_only_if_glibcs_heap_is_small() {
        for (heap, library, active) in [
            (27_000, "libc.so.6", Some("glibc")),
            (27_000, "libc-2.31.so", Some("glibc")),
            (132, "libjemalloc.so.2", Some("jemalloc")),
            (27_000, "libjemalloc.so.2", Some("glibc")),
            (132, "libtcmalloc_minimal.so.4", Some("tcmalloc")),
            (132, "ld-musl-x86_64.so.1", Some("musl")),
            (132, "x86_64-linux-musl/libc.so", Some("musl")),
            (132, "libz.so.1", None),
        ] {
            let allocator = detect(&process(heap, library), None);
            assert_eq!(allocator.active.as_deref(), active, "{library} {heap}");
        }
    }

    #[test]
    fn the_allocator_found_by_the_probe_takes_precedence() {
        let probe = ProbeFigures { allocator: Some("mimalloc".into()), ..ProbeFigures::default() };
        let allocator = detect(&process(27_000, "libjemalloc.so.2"), Some(&probe));
        assert_eq!(allocator.active.as_deref(), Some("mimalloc"));
        assert_eq!(allocator.loaded, ["jemalloc"]);
    }
}
