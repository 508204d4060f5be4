//! Reads just enough of an ELF file to tell whether one program can load one library.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// What a loader compares before it maps a library: word size and machine (elf(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElfKind {
    /// Bits of a word: 32 or 64.
    pub bits: u8,
    /// `e_machine`, such as 62 for x86-64 and 183 for arm64.
    pub machine: u16,
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
        write!(f, "{}-bit {machine}", self.bits)
    }
}

/// Reads the kind of a file; `None` where it is not ELF.
pub fn read_elf(path: &Path) -> io::Result<Option<ElfKind>> {
    let mut head = Vec::with_capacity(20);
    File::open(path)?.take(20).read_to_end(&mut head)?;
    Ok(parse_elf(&head))
}

fn parse_elf(head: &[u8]) -> Option<ElfKind> {
    let bits = match (head.get(..4)?, head.get(4)?) {
        (b"\x7fELF", 1) => 32,
        (b"\x7fELF", 2) => 64,
        _ => return None,
    };
    let machine = [*head.get(18)?, *head.get(19)?];
    let machine = match head[5] {
        2 => u16::from_be_bytes(machine),
        _ => u16::from_le_bytes(machine),
    };
    Some(ElfKind { bits, machine })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(class: u8, order: u8, machine: [u8; 2]) -> Vec<u8> {
        let mut head = vec![0x7f, b'E', b'L', b'F', class, order];
        head.resize(18, 0);
        head.extend(machine);
        head
    }

    #[test]
    fn word_size_and_machine_are_read_in_the_files_own_order() {
        for (head, kind) in [
            (head(2, 1, [62, 0]), Some(ElfKind { bits: 64, machine: 62 })),
            (head(1, 1, [3, 0]), Some(ElfKind { bits: 32, machine: 3 })),
            (head(2, 2, [0, 183]), Some(ElfKind { bits: 64, machine: 183 })),
            (head(7, 1, [62, 0]), None),
            (b"#!/bin/sh\n echo a script is no ELF".to_vec(), None),
            (b"\x7fELF".to_vec(), None),
            (Vec::new(), None),
        ] {
            assert_eq!(parse_elf(&head), kind, "{head:?}");
        }
    }
}
