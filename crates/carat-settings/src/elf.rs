//! Reads from ELF files whether a program can load a library.

use carat_model::CLibrary;
use carat_ruby::RubyVersion;
use goblin::elf::Elf;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

/// What must agree between a program and a library that it loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElfKind {
    /// Bits of a word: 32 or 64.
    pub bits: u8,
    /// `e_machine`, such as 62 for x86-64 and 183 for arm64 (elf(5)).
    pub machine: u16,
    /// The C library; `None` where the file names none, such as a static program.
    pub c_library: Option<CLibrary>,
}

impl ElfKind {
    /// Whether a program of this kind can load a library of the other kind; an unnamed C library fits both.
    pub fn can_load(self, library: Self) -> bool {
        let same_c_library =
            self.c_library.zip(library.c_library).is_none_or(|(own, other)| own == other);
        (self.bits, self.machine) == (library.bits, library.machine) && same_c_library
    }
}

impl fmt::Display for ElfKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = match self.machine {
            3 => "x86",
            40 => "arm",
            62 => "x86-64",
            183 => "arm64",
            243 => "riscv",
            other => return write!(f, "{}-bit machine {other}", self.bits),
        };
        write!(f, "{}-bit {machine}", self.bits)?;
        match self.c_library {
            Some(CLibrary::Glibc) => write!(f, " with glibc"),
            Some(CLibrary::Musl) => write!(f, " with musl"),
            None => Ok(()),
        }
    }
}

/// Reads the kind of a file; `None` where it is not ELF.
pub fn read_elf(path: &Path) -> io::Result<Option<ElfKind>> {
    Ok(parse_elf(&fs::read(path)?))
}

/// Reads which version of Ruby a program is; `None` where it is another program.
pub fn read_ruby_version(path: &Path) -> io::Result<Option<RubyVersion>> {
    // The whole file, because a description can be anywhere in it.
    Ok(parse_ruby_version(&fs::read(path)?))
}

/// From the name of the library that the program needs, such as `libruby-3.1.so.3.1`, or in a Ruby without one from its
/// `RUBY_DESCRIPTION`, such as `ruby 3.1.2p20 (2022-04-12 …`.
fn parse_ruby_version(bytes: &[u8]) -> Option<RubyVersion> {
    let elf = Elf::parse(bytes).ok()?;
    // The library's name is certain; only a Ruby without one is searched for its description.
    if let Some(library) = elf.libraries.iter().find_map(|name| name.strip_prefix("libruby")) {
        return RubyVersion::find_in(library);
    }
    memchr::memmem::find_iter(bytes, b"ruby ").find_map(|start| {
        // Number and year stand within the first 32 bytes.
        let text = &bytes[start..bytes.len().min(start + 32)];
        // A string of C ends at its first null.
        let text = String::from_utf8_lossy(text.split(|byte| *byte == 0).next()?).into_owned();
        let mut words = text.split(' ').skip(1);
        let number = words.next()?;
        // `ruby ` is in many strings; only a version with a date of release is the description.
        let described = number.starts_with(|first: char| first.is_ascii_digit())
            && number.matches('.').count() == 2
            && words.next()?.starts_with("(20");
        described.then(|| RubyVersion::find_in(number)).flatten()
    })
}

fn parse_elf(bytes: &[u8]) -> Option<ElfKind> {
    let elf = Elf::parse(bytes).ok()?;
    // A library has no interpreter, so it is told by what it needs.
    let named = elf.interpreter.iter().chain(&elf.libraries).find_map(|name| CLibrary::of(name));
    let bits = if elf.is_64 { 64 } else { 32 };
    Some(ElfKind { bits, machine: elf.header.e_machine, c_library: named })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that contains only an ELF header.
    fn header(class: u8, order: u8, machine: [u8; 2]) -> Vec<u8> {
        let mut header = vec![0x7f, b'E', b'L', b'F', class, order, 1];
        header.resize(18, 0);
        header.extend(machine);
        header.resize(64, 0);
        header
    }

    #[test]
    fn word_size_and_machine_are_read_in_the_byte_order_of_the_file() {
        let kind = |bits, machine| Some(ElfKind { bits, machine, c_library: None });
        for (bytes, kind) in [
            (header(2, 1, [62, 0]), kind(64, 62)),
            (header(1, 1, [3, 0]), kind(32, 3)),
            (header(2, 2, [0, 183]), kind(64, 183)),
            (header(7, 1, [62, 0]), None),
            (b"#!/bin/sh\n echo a script is not ELF".to_vec(), None),
            (b"\x7fELF".to_vec(), None),
            (Vec::new(), None),
        ] {
            assert_eq!(parse_elf(&bytes), kind, "{bytes:?}");
        }
    }

    #[test]
    fn the_version_of_a_static_ruby_is_read_from_its_description() {
        let with = |text: &str| [header(2, 1, [62, 0]).as_slice(), text.as_bytes(), b"\0"].concat();
        for (text, expected) in [
            ("ruby 3.3.8 (2025-04-09 revision b200bad6cd) [x86_64-linux]", Some((3, 3))),
            ("usage: ruby 1 \0ruby 4.1.0dev (2026-07-28 master 120c8fa88c)", Some((4, 1))),
            ("ruby 3.1 is required", None),
            ("", None),
        ] {
            let found = parse_ruby_version(&with(text)).map(|found| (found.major, found.minor));
            assert_eq!(found, expected, "{text}");
        }
        assert_eq!(parse_ruby_version(b"#!/usr/bin/ruby 3.1.2 (2022"), None);
    }

    #[test]
    fn the_loader_or_a_needed_library_names_the_c_library() {
        for (name, expected) in [
            ("/lib/ld-musl-x86_64.so.1", Some(CLibrary::Musl)),
            ("libc.musl-x86_64.so.1", Some(CLibrary::Musl)),
            ("/lib64/ld-linux-x86-64.so.2", Some(CLibrary::Glibc)),
            ("libc.so.6", Some(CLibrary::Glibc)),
            ("/usr/lib/x86_64-linux-gnu/libc-2.31.so", Some(CLibrary::Glibc)),
            ("/usr/lib/x86_64-linux-musl/libc.so", Some(CLibrary::Musl)),
            ("libm.so.6", None),
        ] {
            assert_eq!(CLibrary::of(name), expected, "{name}");
        }
        let shell = read_elf(Path::new("/bin/sh")).unwrap().unwrap();
        assert!(shell.c_library.is_some(), "{shell}");
    }

    #[test]
    fn a_library_that_names_another_c_library_is_not_loaded_and_one_that_names_none_is() {
        let kind = |c_library| ElfKind { bits: 64, machine: 62, c_library };
        let (musl, glibc) = (kind(Some(CLibrary::Musl)), kind(Some(CLibrary::Glibc)));
        assert!(!musl.can_load(glibc) && !glibc.can_load(musl));
        assert!(musl.can_load(musl) && musl.can_load(kind(None)) && kind(None).can_load(glibc));
        assert!(!musl.can_load(ElfKind { bits: 32, ..musl }));
    }
}
