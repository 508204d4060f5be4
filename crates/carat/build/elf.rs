//! Makes a library load under older C libraries than the one it was linked against.
//!
//! The linker notes with each function the version of the C library that defines it here; functions that
//! merely moved between libraries (`dlsym`, `pthread_create` in glibc 2.34) then fail to load elsewhere,
//! and so does the whole library for functions that nothing ever calls (`stat64`, for backtraces). This
//! takes the note away from every version newer than [`OLDEST`] and lets such a function be missing.

/// What every glibc since 2012 has.
const OLDEST: (u32, u32) = (2, 17);

const DYNSYM: u32 = 11;
const VERSYM: u32 = 0x6fff_ffff;
const VERNEED: u32 = 0x6fff_fffe;
/// `VER_FLG_WEAK`: a missing version is not an error.
const WEAK_VERSION: u16 = 2;
/// `VER_NDX_GLOBAL`: no particular version.
const ANY_VERSION: u16 = 1;
/// Upper half of `st_info`: may be missing.
const WEAK_SYMBOL: u8 = 2 << 4;

struct Section {
    kind: u32,
    offset: usize,
    size: usize,
    link: usize,
}

/// Loosens a 64-bit little-endian library in place; `None` where it is not one.
pub(crate) fn loosen(file: &mut [u8]) -> Option<()> {
    if file.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let sections = sections(file)?;
    let of = |kind| sections.iter().find(|section| section.kind == kind);
    let (Some(needs), Some(versions), Some(symbols)) = (of(VERNEED), of(VERSYM), of(DYNSYM)) else {
        // Another C library than glibc knows no versions.
        return Some(());
    };
    let names = sections.get(needs.link)?.offset;
    let newer = loosen_needs(file, needs, names)?;
    for n in 0..symbols.size / 24 {
        let version = versions.offset + n * 2;
        if newer.contains(&u16_at(file, version)?) {
            file.get_mut(version..version + 2)?.copy_from_slice(&ANY_VERSION.to_le_bytes());
            let info = file.get_mut(symbols.offset + n * 24 + 4)?;
            *info = *info & 0xf | WEAK_SYMBOL;
        }
    }
    Some(())
}

/// Marks the versions that are too new and returns their numbers.
fn loosen_needs(file: &mut [u8], needs: &Section, names: usize) -> Option<Vec<u16>> {
    let mut newer = Vec::new();
    let mut need = needs.offset;
    loop {
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

fn sections(file: &[u8]) -> Option<Vec<Section>> {
    let table = u64_at(file, 0x28)?;
    let (size, count) = (u16_at(file, 0x3a)? as usize, u16_at(file, 0x3c)? as usize);
    let section = |n: usize| {
        let at = table + n * size;
        Some(Section {
            kind: u32_at(file, at + 4)?,
            offset: u64_at(file, at + 0x18)?,
            size: u64_at(file, at + 0x20)?,
            link: u32_at(file, at + 0x28)? as usize,
        })
    };
    (0..count).map(section).collect()
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
