//! The entry through which one loaded object calls a function of another.
//!
//! The dynamic linker writes the address of each such function into a table of the object that calls it (the global offset
//! table of the System V ABI, chapter "Program Loading and Dynamic Linking"). With another address in an entry, the calls
//! of that object go elsewhere, and those of all other objects stay.

use libc::{Elf64_Phdr, Elf64_Sym, PF_W, PT_DYNAMIC, PT_GNU_RELRO, PT_LOAD};
use libc::{PROT_READ, PROT_WRITE, c_char, c_int, c_void, dl_phdr_info};
use std::ffi::CStr;
use std::ops::Range;
use std::slice;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Types of relocations whose result is the address of a symbol alone: `R_X86_64_GLOB_DAT` and `R_X86_64_JUMP_SLOT`.
#[cfg(target_arch = "x86_64")]
const ADDRESSES: [u32; 2] = [6, 7];
/// `R_AARCH64_GLOB_DAT` and `R_AARCH64_JUMP_SLOT`.
#[cfg(target_arch = "aarch64")]
const ADDRESSES: [u32; 2] = [1025, 1026];

/// Tags of elf.h: where relocations are, and the bytes of them; those of calls come first.
const RELOCATIONS: [(i64, i64); 2] = [(DT_JMPREL, DT_PLTRELSZ), (DT_RELA, DT_RELASZ)];
const DT_NULL: i64 = 0;
const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;

/// `Elf64_Dyn` of elf.h.
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: usize,
}

/// `Elf64_Rela` of elf.h.
#[repr(C)]
struct Relocation {
    offset: usize,
    info: u64,
    _addend: i64,
}

/// An entry of the table.
#[derive(Debug)]
pub(crate) struct Import {
    entry: &'static AtomicPtr<c_void>,
    /// Whether the linker has made it read-only.
    is_read_only: bool,
}

impl Import {
    /// The entry for the function `name` in the loaded object that has code or data at `inside`; `None` if it calls no
    /// function of that name.
    ///
    /// An object must be one that is never unloaded.
    pub(crate) fn find(inside: *const c_void, name: &CStr) -> Option<Self> {
        LoadedObject::around(inside)?.import(name)
    }

    /// Lets the calls go to `function` and returns the address before; `None` if the kernel does not allow it.
    ///
    /// Other threads may call meanwhile: they get one or the other.
    ///
    /// # Safety
    /// `function` must be a function with the signature of the one that the entry is for. No two replacements may run at
    /// a time: entries share pages, and the one that ends first takes from the other the right to write.
    pub(crate) unsafe fn replace(&self, function: *mut c_void) -> Option<*mut c_void> {
        if self.is_read_only && !self.protect(PROT_READ | PROT_WRITE) {
            return None;
        }
        let before = self.entry.swap(function, Ordering::Relaxed);
        if self.is_read_only {
            self.protect(PROT_READ);
        }
        Some(before)
    }

    fn protect(&self, protection: c_int) -> bool {
        let page = page_bytes();
        let start = self.entry.as_ptr() as usize & !(page - 1);
        // SAFETY: the page is part of the table, which stays readable.
        unsafe { libc::mprotect(start as *mut c_void, page, protection) == 0 }
    }
}

fn page_bytes() -> usize {
    // SAFETY: sysconf accesses no memory of ours.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

struct ObjectSearch {
    inside: usize,
    found: Option<LoadedObject>,
}

/// Called for each loaded object, until it returns another number than 0.
unsafe extern "C" fn visit(info: *mut dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
    // SAFETY: `find` passes the address of its search, and the linker describes an object that is loaded.
    let (search, info) = unsafe { (&mut *search.cast::<ObjectSearch>(), &*info) };
    // SAFETY: the program headers of a loaded object are mapped for as long as it is.
    let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let object = LoadedObject { bias: info.dlpi_addr as usize, headers };
    if !object.contains(search.inside) {
        return 0;
    }
    search.found = Some(object);
    1
}

/// A program or library that is loaded and never unloaded.
pub(crate) struct LoadedObject {
    /// What is added to the addresses in the file.
    bias: usize,
    headers: &'static [Elf64_Phdr],
}

impl LoadedObject {
    /// The one that has code or data at `inside`.
    pub(crate) fn around(inside: *const c_void) -> Option<Self> {
        let mut search = ObjectSearch { inside: inside as usize, found: None };
        // SAFETY: `visit` gets the address of `search`, which outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
        search.found
    }

    fn contains(&self, address: usize) -> bool {
        self.segments().any(|(segment, _)| segment.contains(&address))
    }

    /// The addresses of its data, which it may write to.
    pub(crate) fn data(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.segments().filter(|(_, flags)| flags & PF_W != 0).map(|(segment, _)| segment)
    }

    /// What is loaded of the file, with the rights to it.
    fn segments(&self) -> impl Iterator<Item = (Range<usize>, u32)> + '_ {
        let loaded = self.headers.iter().filter(|header| header.p_type == PT_LOAD);
        loaded.map(|header| {
            let start = self.bias + header.p_vaddr as usize;
            (start..start + header.p_memsz as usize, header.p_flags)
        })
    }

    fn import(&self, name: &CStr) -> Option<Import> {
        let symbols = self.address(DT_SYMTAB)? as *const Elf64_Sym;
        let names = self.address(DT_STRTAB)?;
        let is_named = |relocation: &Relocation| {
            // SAFETY: the linker has resolved this relocation by this symbol and its name, which ends with NUL.
            unsafe {
                let symbol = &*symbols.add((relocation.info >> 32) as usize);
                CStr::from_ptr((names + symbol.st_name as usize) as *const c_char) == name
            }
        };
        let mut relocations = RELOCATIONS.iter().flat_map(|tags| self.relocations(*tags));
        let found = relocations.find(|relocation| {
            ADDRESSES.contains(&(relocation.info as u32)) && is_named(relocation)
        })?;
        let address = self.bias + found.offset;
        // SAFETY: what such a relocation writes is an aligned word of the object's table.
        let entry = unsafe { AtomicPtr::from_ptr(address as *mut *mut c_void) };
        Some(Import { entry, is_read_only: self.is_read_only(address) })
    }

    fn relocations(&self, (table, bytes): (i64, i64)) -> &'static [Relocation] {
        match (self.address(table), self.dynamic(bytes)) {
            // SAFETY: the linker has read this table of this size.
            (Some(start), Some(bytes)) => unsafe {
                slice::from_raw_parts(start as *const Relocation, bytes / size_of::<Relocation>())
            },
            _ => &[],
        }
    }

    /// An address in the dynamic section. glibc has added the bias there, musl has not.
    fn address(&self, tag: i64) -> Option<usize> {
        let address = self.dynamic(tag)?;
        Some(if address < self.bias { address + self.bias } else { address })
    }

    fn dynamic(&self, tag: i64) -> Option<usize> {
        let header = self.header(PT_DYNAMIC)?;
        let mut entry = (self.bias + header.p_vaddr as usize) as *const Dynamic;
        loop {
            // SAFETY: the section ends with `DT_NULL`.
            let (found, next) = unsafe { (&*entry, entry.add(1)) };
            match found.tag {
                DT_NULL => return None,
                other if other == tag => return Some(found.value),
                _ => entry = next,
            }
        }
    }

    /// Whether the linker has made this address read-only: whole pages of `PT_GNU_RELRO`, its end rounded down
    /// (`_dl_protect_relro` of glibc; musl does the same).
    fn is_read_only(&self, address: usize) -> bool {
        let page = page_bytes();
        self.header(PT_GNU_RELRO).is_some_and(|header| {
            let start = self.bias + header.p_vaddr as usize;
            let end = start + header.p_memsz as usize;
            (start & !(page - 1)..end & !(page - 1)).contains(&address)
        })
    }

    fn header(&self, kind: u32) -> Option<&'static Elf64_Phdr> {
        self.headers.iter().find(|header| header.p_type == kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, PoisonError};

    /// Held by each test that replaces an entry.
    static REPLACEMENT: Mutex<()> = Mutex::new(());

    extern "C" fn forty_two() -> libc::pid_t {
        42
    }

    #[test]
    fn calls_of_this_object_go_where_the_entry_says_and_back() {
        let _alone = REPLACEMENT.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: getppid accesses no memory.
        let parent = || unsafe { libc::getppid() };
        let (usual, inside) = (parent(), forty_two as *const c_void);
        let import = Import::find(inside, c"getppid").expect("this program calls getppid");
        // SAFETY: the signature is that of getppid, and the second address was there before.
        let before = unsafe { import.replace(forty_two as *mut c_void) }.expect("replaced");
        assert_eq!(parent(), 42);
        // SAFETY: as above.
        let replaced = unsafe { import.replace(before) };
        assert_eq!((parent(), replaced), (usual, Some(forty_two as *mut c_void)));
    }

    #[test]
    fn a_function_that_is_not_called_and_an_address_of_no_object_have_no_entry() {
        assert!(Import::find(forty_two as *const c_void, c"no_such_function").is_none());
        assert!(Import::find(std::ptr::null(), c"getppid").is_none());
    }

    #[test]
    fn what_the_linker_made_read_only_is_so_again_after_a_replacement() {
        let _alone = REPLACEMENT.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: getpgrp accesses no memory.
        assert!(unsafe { libc::getpgrp() } > 0);
        let import = Import::find(forty_two as *const c_void, c"getpgrp").expect("found");
        let protection = || {
            let address = import.entry.as_ptr() as usize;
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            let line = maps.lines().find(|line| {
                let (range, _) = line.split_once(' ').unwrap();
                let (start, end) = range.split_once('-').unwrap();
                let [start, end] = [start, end].map(|at| usize::from_str_radix(at, 16).unwrap());
                (start..end).contains(&address)
            });
            line.unwrap().split(' ').nth(1).unwrap().to_owned()
        };
        let at_first = protection();
        assert_eq!(at_first == "r--p", import.is_read_only, "{at_first}");
        // SAFETY: what is there stays there.
        unsafe { import.replace(import.entry.load(Ordering::Relaxed)) };
        assert_eq!(protection(), at_first);
    }
}
