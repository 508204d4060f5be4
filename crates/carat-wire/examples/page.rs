//! Prints shared pages: `cargo run -p carat-wire --example page -- [--ask] FILE…`.
//!
//! With `--ask`, asks each process for fresh figures first and waits up to 3 seconds for them.

#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use carat_wire::page::{self, PageHeader, PageReading, Word};
use std::fs::{File, OpenOptions};
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut ask = false;
    for argument in std::env::args().skip(1) {
        if argument == "--ask" {
            ask = true;
            continue;
        }
        let file = OpenOptions::new().read(true).write(ask).open(&argument)?;
        println!("{argument}");
        print(&if ask { asked(&file)? } else { read(&file)? });
    }
    Ok(())
}

fn read(file: &File) -> Result<PageReading, Failure> {
    Ok(page::read(|offset, buffer| file.read_exact_at(buffer, offset))?)
}

fn asked(file: &File) -> Result<PageReading, Failure> {
    let request = read(file)?.requested.wrapping_add(1);
    file.write_all_at(&request.to_ne_bytes(), offset_of!(PageHeader, requested) as u64)?;
    let until = Instant::now() + Duration::from_secs(3);
    loop {
        let seen = read(file)?;
        if (seen.served, seen.served_by_ruby) == (request, request) || Instant::now() > until {
            return Ok(seen);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn section<W: Word>(name: &str, values: &page::SectionReading<W>) {
    println!("  {name} at {:?}", values.at.map(|at| at.ns));
    for (word, value) in values.iter() {
        println!("    {:24} {value}", word.name());
    }
}

fn print(seen: &PageReading) {
    println!("  pid {} parent {} started {:?}", seen.pid, seen.parent_pid, seen.start_time);
    println!("  generation {} born {}", seen.fork_generation, seen.born.ns);
    println!("  request {} served {} by ruby {}", seen.requested, seen.served, seen.served_by_ruby);
    println!("  {:?} from {}; {}", seen.allocator, seen.malloc_file, seen.ruby);
    println!("  {:?}", seen.features);
    section("gc", &seen.gc);
    section("malloc", &seen.malloc);
    section("own", &seen.own);
    section("runtime", &seen.runtime);
    for pool in &seen.pools {
        let words = page::Pool::ALL.iter();
        println!(
            "  pool {:?}",
            words.map(|word| (word.name(), pool.get(*word))).collect::<Vec<_>>()
        );
    }
    for arena in &seen.arenas {
        let words = page::Arena::ALL.iter();
        println!(
            "  arena {:?}",
            words.map(|word| (word.name(), arena.get(*word))).collect::<Vec<_>>()
        );
    }
    let heap = &seen.heap_pages;
    println!("  heap pages {} in {} ranges at {:?}", heap.pages, heap.ranges.len(), heap.at);
}
