//! Reads of an ELF file what tells whether one program can load one library.

use goblin::elf::Elf;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

/// What has to agree before a library can be mapped into a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElfKind {
    /// Bits of a word: 32 or 64.
    pub bits: u8,
    /// `e_machine`, such as 62 for x86-64 and 183 for arm64 (elf(5)).
    pub machine: u16,
    /// The C library; `None` where the file names none, as a static program does.
    pub c_library: Option<CLibrary>,
}

/// C libraries, of which a process has one: musl's loader ends a program whose preload wants glibc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CLibrary {
    /// That of most distributions.
    Glibc,
    /// That of Alpine.
    Musl,
}

impl ElfKind {
    /// Whether a program of this kind can load a library of that one, as far as either says.
    pub fn can_load(self, library: Self) -> bool {
        let of_one = self.c_library.zip(library.c_library).is_none_or(|(own, its)| own == its);
        (self.bits, self.machine) == (library.bits, library.machine) && of_one
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

fn parse_elf(bytes: &[u8]) -> Option<ElfKind> {
    let elf = Elf::parse(bytes).ok()?;
    let named = elf.interpreter.iter().chain(&elf.libraries).find_map(|name| CLibrary::of(name));
    let bits = if elf.is_64 { 64 } else { 32 };
    Some(ElfKind { bits, machine: elf.header.e_machine, c_library: named })
}

impl CLibrary {
    /// The C library that a loader or a library of this name or path belongs to; `None` where to neither.
    pub fn of(path: &str) -> Option<Self> {
        let file = path.rsplit('/').next()?;
        let is = |start: &str| file.starts_with(start);
        // musl is one file under two names; before glibc 2.34 its file had the version in its name.
        if is("ld-musl") || is("libc.musl") || file == "libc.so" {
            Some(Self::Musl)
        } else if is("ld-linux") || is("ld64") || is("libc-2.") || file == "libc.so.6" {
            Some(Self::Glibc)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header of a file that has nothing else.
    fn head(class: u8, order: u8, machine: [u8; 2]) -> Vec<u8> {
        let mut head = vec![0x7f, b'E', b'L', b'F', class, order, 1];
        head.resize(18, 0);
        head.extend(machine);
        head.resize(64, 0);
        head
    }

    #[test]
    fn word_size_and_machine_are_read_in_the_files_own_order() {
        let kind = |bits, machine| Some(ElfKind { bits, machine, c_library: None });
        for (head, kind) in [
            (head(2, 1, [62, 0]), kind(64, 62)),
            (head(1, 1, [3, 0]), kind(32, 3)),
            (head(2, 2, [0, 183]), kind(64, 183)),
            (head(7, 1, [62, 0]), None),
            (b"#!/bin/sh\n echo a script is no ELF".to_vec(), None),
            (b"\x7fELF".to_vec(), None),
            (Vec::new(), None),
        ] {
            assert_eq!(parse_elf(&head), kind, "{head:?}");
        }
    }

    #[test]
    fn the_c_library_is_told_by_the_loader_or_by_what_is_needed() {
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
    fn a_library_for_another_c_library_is_not_loaded_and_one_that_names_none_is() {
        let kind = |c_library| ElfKind { bits: 64, machine: 62, c_library };
        let (musl, glibc) = (kind(Some(CLibrary::Musl)), kind(Some(CLibrary::Glibc)));
        assert!(!musl.can_load(glibc) && !glibc.can_load(musl));
        assert!(musl.can_load(musl) && musl.can_load(kind(None)) && kind(None).can_load(glibc));
        assert!(!musl.can_load(ElfKind { bits: 32, ..musl }));
    }
}
