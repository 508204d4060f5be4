//! Makes a library load with older C libraries than the one it was linked against.
//!
//! The linker records for each function the version of the C library that defines it here. Functions that only moved
//! between libraries (`dlsym`, `pthread_create` in glibc 2.34) then fail to load elsewhere, and so does the whole library
//! because of functions that are never called (`stat64`, for backtraces). This module removes the requirement of every
//! version newer than [`OLDEST`] and allows such a function to be missing.

/// Every glibc since 2012 has this version.
const OLDEST: (u32, u32) = (2, 17);

const DYNSYM: u32 = 11;
const VERSYM: u32 = 0x6fff_ffff;
const VERNEED: u32 = 0x6fff_fffe;
/// `VER_FLG_WEAK`: a missing version is not an error.
const WEAK_VERSION: u16 = 2;
/// `VER_NDX_GLOBAL`: any version.
const ANY_VERSION: u16 = 1;
/// Upper half of `st_info`: the symbol may be missing.
const WEAK_SYMBOL: u8 = 2 << 4;

struct ElfSection {
    kind: u32,
    offset: usize,
    size: usize,
    link: usize,
}

/// Relaxes the requirements of a 64-bit little-endian library in place; `None` if it is not one.
pub(crate) fn relax_versions(file: &mut [u8]) -> Option<()> {
    // 64 bits, little-endian (elf(5), `EI_CLASS` and `EI_DATA`).
    if file.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let sections = sections(file)?;
    let (Some(needs), Some(versions), Some(symbols)) = (
        find_section(&sections, VERNEED),
        find_section(&sections, VERSYM),
        find_section(&sections, DYNSYM),
    ) else {
        // Only glibc has symbol versions.
        return Some(());
    };
    let names = sections.get(needs.link)?.offset;
    let newer = relax_needs(file, needs, names)?;
    // A symbol of `.dynsym` has 24 bytes and its version two (elf(5), `Elf64_Sym`).
    for n in 0..symbols.size / 24 {
        let version = versions.offset + n * 2;
        if newer.contains(&u16_at(file, version)?) {
            file.get_mut(version..version + 2)?.copy_from_slice(&ANY_VERSION.to_le_bytes());
            let info = file.get_mut(symbols.offset + n * 24 + 4)?;
            // The lower half of `st_info` is the type, which stays.
            *info = *info & 0xf | WEAK_SYMBOL;
        }
    }
    Some(())
}

/// Marks the versions that are too new as optional and returns their numbers.
fn relax_needs(file: &mut [u8], needs: &ElfSection, names: usize) -> Option<Vec<u16>> {
    let mut newer = Vec::new();
    let mut need = needs.offset;
    loop {
        // Offsets of `Elf64_Verneed` and `Elf64_Vernaux` (elf.h).
        let mut version = need + u32_at(file, need + 8)? as usize;
        for _ in 0..u16_at(file, need + 2)? {
            let name = text_at(file, names + u32_at(file, version + 8)? as usize)?;
            if glibc_version(name).is_some_and(|found| found > OLDEST) {
                newer.push(u16_at(file, version + 6)?);
                file.get_mut(version + 4..version + 6)?
                    .copy_from_slice(&WEAK_VERSION.to_le_bytes());
            }
            version += u32_at(file, version + 12)? as usize;
        }
        match u32_at(file, need + 12)? {
            0 => return Some(newer),
            next => need += next as usize,
        }
    }
}

fn find_section(sections: &[ElfSection], kind: u32) -> Option<&ElfSection> {
    sections.iter().find(|section| section.kind == kind)
}

fn sections(file: &[u8]) -> Option<Vec<ElfSection>> {
    let table = u64_at(file, 0x28)?;
    // `e_shoff`, `e_shentsize` and `e_shnum` of `Elf64_Ehdr` (elf(5)).
    let (size, count) = (u16_at(file, 0x3a)? as usize, u16_at(file, 0x3c)? as usize);
    (0..count).map(|n| section(file, table + n * size)).collect()
}

fn section(file: &[u8], at: usize) -> Option<ElfSection> {
    Some(ElfSection {
        kind: u32_at(file, at + 4)?,
        offset: u64_at(file, at + 0x18)?,
        size: u64_at(file, at + 0x20)?,
        link: u32_at(file, at + 0x28)? as usize,
    })
}

fn glibc_version(name: &[u8]) -> Option<(u32, u32)> {
    let text = std::str::from_utf8(name).ok()?.strip_prefix("GLIBC_")?;
    let mut parts = text.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

fn text_at(file: &[u8], at: usize) -> Option<&[u8]> {
    file.get(at..)?.split(|byte| *byte == 0).next()
}

fn u16_at(file: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(file.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(file: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(file.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(file: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(file.get(at..at + 8)?.try_into().ok()?)).ok()
}
