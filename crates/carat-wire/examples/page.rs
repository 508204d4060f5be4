//! Prints shared pages: `cargo run -p carat-wire --example page -- [--request] FILE…`.
//!
//! With `--request`, it first requests fresh figures of each process and waits up to 3 seconds for them.

#![expect(clippy::print_stdout, reason = "printing is the purpose of this example")]

use carat_wire::page::{self, PageHeader, PageReading, Word};
use std::fs::{File, OpenOptions};
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut request = false;
    for argument in std::env::args().skip(1) {
        if argument == "--request" {
            request = true;
            continue;
        }
        let file = OpenOptions::new().read(true).write(request).open(&argument)?;
        println!("{argument}");
        print(&if request { read_fresh(&file)? } else { read(&file)? });
    }
    Ok(())
}

fn read(file: &File) -> Result<PageReading, Failure> {
    Ok(page::read(|offset, buffer| file.read_exact_at(buffer, offset))?)
}

fn read_fresh(file: &File) -> Result<PageReading, Failure> {
    let request = read(file)?.requested.wrapping_add(1);
    file.write_all_at(&request.to_ne_bytes(), offset_of!(PageHeader, requested) as u64)?;
    let until = Instant::now() + Duration::from_secs(3);
    loop {
        let page = read(file)?;
        if (page.served, page.served_by_ruby) == (request, request) || Instant::now() > until {
            return Ok(page);
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

fn print(reading: &PageReading) {
    println!(
        "  pid {} parent {} started {:?}",
        reading.pid, reading.parent_pid, reading.start_time
    );
    println!("  generation {} born {}", reading.fork_generation, reading.born.ns);
    println!(
        "  request {} served {} by ruby {}",
        reading.requested, reading.served, reading.served_by_ruby
    );
    println!("  {:?} from {}; {}", reading.allocator, reading.malloc_file, reading.ruby);
    println!("  {:?}", reading.features);
    section("gc", &reading.gc);
    section("malloc", &reading.malloc);
    section("own", &reading.own);
    section("runtime", &reading.runtime);
    for pool in &reading.pools {
        let words = page::Pool::ALL.iter();
        println!(
            "  pool {:?}",
            words.map(|word| (word.name(), pool.get(*word))).collect::<Vec<_>>()
        );
    }
    for arena in &reading.arenas {
        let words = page::Arena::ALL.iter();
        println!(
            "  arena {:?}",
            words.map(|word| (word.name(), arena.get(*word))).collect::<Vec<_>>()
        );
    }
    let heap = &reading.heap_pages;
    println!("  heap pages {} in {} ranges at {:?}", heap.pages, heap.ranges.len(), heap.at);
}
