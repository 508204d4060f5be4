//! With which malloc a Ruby is linked: the one that serves if no library is preloaded.

use crate::allocator::{DIRECTORIES, allocator_of};
use carat_model::CLibrary;
use carat_ruby::allocator::MARKS;
use carat_wire::page::{AllocatorKind, Word};
use goblin::elf::Elf;
use std::fs;
use std::path::{Path, PathBuf};

/// The malloc with which a program is linked; `None` if that cannot be told.
///
/// It is the first in the order of the dynamic linker: the program itself, then what it needs, in that order. What its
/// libraries need comes after the C library, which every program needs. `root` is the directory that will be its root.
pub fn linked_malloc(root: &Path, program: &Path) -> Option<AllocatorKind> {
    let bytes = fs::read(program).ok()?;
    let elf = Elf::parse(&bytes).ok()?;
    contained(&elf)
        .or_else(|| elf.libraries.iter().find_map(|name| of_library(root, program, &elf, name)))
}

/// The malloc of a library that a program needs; `None` if it has none.
fn of_library(root: &Path, program: &Path, elf: &Elf<'_>, name: &str) -> Option<AllocatorKind> {
    // By its name alone, so that the file need not be found.
    if let Some(own) = allocator_of(Path::new(name)) {
        return AllocatorKind::ALL.iter().copied().find(|kind| kind.name() == own);
    }
    // A Ruby that is a library contains its allocator there, if it has one.
    if name.starts_with("libruby") {
        let bytes = fs::read(find_library(root, program, elf, name)?).ok()?;
        return contained(&Elf::parse(&bytes).ok()?);
    }
    // Any other library has no malloc that is known, so the next one is asked.
    match CLibrary::of(name)? {
        CLibrary::Glibc => Some(AllocatorKind::Glibc),
        CLibrary::Musl => Some(AllocatorKind::Musl),
    }
}

/// The allocator that a file contains.
fn contained(elf: &Elf<'_>) -> Option<AllocatorKind> {
    // A file can have an allocator under a prefix; only one that defines `malloc` serves Ruby.
    defined(elf).find(|name| *name == "malloc")?;
    let marked = MARKS.iter().find(|(mark, _)| defined(elf).any(|name| mark.to_str() == Ok(name)));
    Some(marked.map_or(AllocatorKind::Other, |(_, kind)| *kind))
}

/// Names of the functions that a file defines for others.
fn defined<'a>(elf: &'a Elf<'_>) -> impl Iterator<Item = &'a str> {
    let symbols = elf.dynsyms.iter().filter(|symbol| !symbol.is_import());
    symbols.filter_map(|symbol| elf.dynstrtab.get_at(symbol.st_name))
}

/// A library that a program needs, where the dynamic linker looks for it: the folders in the program, then the usual ones.
fn find_library(root: &Path, program: &Path, elf: &Elf<'_>, name: &str) -> Option<PathBuf> {
    // `$ORIGIN` is the folder of the file behind all links, as the loader sees it.
    let origin = program.canonicalize().ok()?.parent()?.display().to_string();
    let own = elf.runpaths.iter().chain(&elf.rpaths).flat_map(|paths| paths.split(':'));
    let own =
        own.map(|path| match path.strip_prefix("$ORIGIN").or(path.strip_prefix("${ORIGIN}")) {
            Some(rest) => PathBuf::from(format!("{origin}{rest}")),
            None => root.join(path.trim_start_matches('/')),
        });
    let multiarch = format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let usual = [multiarch.as_str()].into_iter().chain(DIRECTORIES.iter().copied());
    let usual = usual.map(|folder| root.join(folder));
    own.chain(usual).map(|folder| folder.join(name)).find(|file| file.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_is_linked_with_the_malloc_of_its_c_library() {
        let own = linked_malloc(Path::new("/"), Path::new("/proc/self/exe"));
        assert_eq!(own, Some(AllocatorKind::Glibc));
        assert_eq!(linked_malloc(Path::new("/"), Path::new("/etc/passwd")), None);
        assert_eq!(linked_malloc(Path::new("/"), Path::new("/nowhere")), None);
    }
}
