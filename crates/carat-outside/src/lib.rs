//! The memory of a running Ruby, read from outside: slots, classes, malloc's chunks and unshared pages.
//!
//! Nothing is stopped, injected or written. Memory is read through `/proc/PID/mem`, page by page, and only pages that
//! `/proc/PID/pagemap` calls present. `process_vm_readv` is never used: it pins pages, and since Linux 5.19 pinning a page
//! that is shared copy-on-write gives the observed process a copy of its own (`FAULT_FLAG_UNSHARE`).
//!
//! Offsets inside Ruby and malloc are learned from the process, by vote; where a vote is not clear the part is left out
//! and the reason said. Values of the observed process are untrusted: every one is checked before it is used.
//!
//! ```text
//!  census                      one reading of one process: plain data
//!  glance                      version, allocator and arenas alone, in few reads
//!  keeper                      who keeps one class, where that is cheap
//!  unshared                    why pages of a forked process are no longer shared
//!  who                         who keeps objects alive, by name; heap dumps, written and read
//!  reach                       what the roots reach, and what a full collection would free
//!  owners                      who holds malloc's chunks
//!  jit                         machine code of Ruby's compiler, and what it keeps for it
//!  malloc                      arenas and chunks of glibc
//!  heap                        heap pages, slots, classes
//!  serving                     which malloc serves
//!  elf                         symbols from the process's memory
//!  refusal, denied             why a process is not read
//!  canary                      whether reading un-shares pages on this kernel
//!  fake_ruby                   a small Ruby that is made up
//!  live, copy, fake            the memory of a process: read when needed, copied, made up
//!  need                        how much memory of our own a reading takes, and who may refuse it
//!  mapped_file, counts         the file behind a mapping; what the kernel counts
//!  memory, bytes, hash, …      mappings, pages, numbers
//!  printable                   which characters can be shown
//! ```

pub mod bytes;
pub mod canary;
pub mod census;
pub mod copy;
pub mod counts;
pub mod denied;
pub mod elf;
pub mod fake;
pub mod fake_ruby;
pub mod glance;
pub mod hash;
pub mod heap;
pub mod jit;
pub mod keeper;
pub mod live;
pub mod malloc;
pub mod mapped_file;
pub mod memory;
pub mod need;
mod number_set;
pub mod owners;
mod page_cache;
pub mod printable;
pub mod reach;
pub mod readings;
mod real_pages;
pub mod refusal;
pub mod serving;
mod swapped;
pub mod unshared;
pub mod who;
