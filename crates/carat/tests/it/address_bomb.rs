//! A server that mapped much more memory than it has.

use crate::needs::TestRuby;
use crate::outside_ruby::OutsideRuby;
use crate::support::Folder;
use serde_json::Value;

/// Functions of the C library.
const FUNCTIONS: &str = "require 'fiddle'; long, int = Fiddle::TYPE_LONG, Fiddle::TYPE_INT; \
     libc = Fiddle::Handle::DEFAULT; \
     mmap = Fiddle::Function.new(libc['mmap'], [long, long, int, int, int, long], long); \
     mprotect = Fiddle::Function.new(libc['mprotect'], [long, long, int], int); \
     memset = Fiddle::Function.new(libc['memset'], [long, int, long], long); \
     memchr = Fiddle::Function.new(libc['memchr'], [long, int, long], long);";

/// Maps so many GiB, and reads the first one of them once: its pages are the kernel's zero page.
fn map(gibibytes: u64) -> String {
    format!(
        "{FUNCTIONS} $mapped = mmap.call(0, {gibibytes} << 30, 3, 0x4022, -1, 0); \
         memchr.call($mapped, 1, 1 << 30)"
    )
}

fn census(folder: &Folder, ruby: &OutsideRuby, more: &[&str]) -> Value {
    census_of(folder, ruby.pid, more)
}

fn census_of(folder: &Folder, process: u32, more: &[&str]) -> Value {
    let pid = process.to_string();
    let ran = folder.run(&[&["explain", pid.as_str(), "--json"][..], more].concat());
    let all: Value = serde_json::from_str(&ran.assert_code(0).out).unwrap();
    all["census"]["processes"][0].clone()
}

fn present(census: &Value) -> u64 {
    census["cost"]["present_bytes"].as_u64().unwrap()
}

/// The share of malloc's memory with a known holder.
fn held_share(census: &Value) -> f64 {
    let holders = census["owners"]["holders"].as_array().unwrap().iter();
    let held: f64 = holders.map(|one| one["amount"]["bytes"].as_f64().unwrap()).sum();
    held / (held + census["owners"]["nobody"]["bytes"].as_f64().unwrap())
}

#[test]
fn memory_that_was_mapped_and_never_written_is_left_out_and_the_rest_is_exact() {
    require!(Ruby);
    let folder = Folder::new("bomb");
    let mut ruby = OutsideRuby::start(TestRuby::OnPath);
    let before = census(&folder, &ruby, &["--owners"]);
    assert_eq!(before["cost"]["unsearched_bytes"], 0, "{before}");
    assert_eq!(ruby.eval(&map(400)), "0");
    let after = census(&folder, &ruby, &["--owners"]);
    let left_out = after["cost"]["unsearched_bytes"].as_u64().unwrap();
    assert!(left_out >= 1 << 30, "{after}");
    // No more is read than before, and what is found is the same but for the objects of the question.
    assert!(present(&after) < present(&before) + (64 << 20), "{after}");
    assert!((held_share(&after) - held_share(&before)).abs() < 0.02, "{after}");
}

/// Reads many mappings that were never written, as a debugger does that saves a core: each is smaller than that of the heap, and
/// together they show more pages than the process has.
fn read_small_mappings() -> String {
    format!(
        "{FUNCTIONS} 256.times.map {{ at = mmap.call(0, (2 << 20) + 4096, 3, 0x22, -1, 0); \
         mprotect.call(at + (2 << 20), 4096, 0); memchr.call(at, 1, 2 << 20) }}.uniq"
    )
}

/// Objects that are in use.
fn objects(census: &Value) -> f64 {
    let pools = census["heap"]["pools"].as_array().unwrap_or_else(|| panic!("{census}"));
    pools.iter().map(|pool| pool["live"].as_f64().unwrap()).sum()
}

fn assert_as_many(after: &Value, before: &Value) {
    let (after, before) = (objects(after), objects(before));
    assert!((after / before - 1.0).abs() < 0.02, "{after} objects, not {before}");
}

#[test]
fn the_heap_is_whole_where_other_memory_was_read_and_never_written() {
    require!(Ruby);
    let folder = Folder::new("read-as-a-whole");
    let mut ruby = OutsideRuby::start(TestRuby::OnPath);
    let before = census(&folder, &ruby, &[]);
    assert_eq!(ruby.eval(&read_small_mappings()), "[0]");
    assert_as_many(&census(&folder, &ruby, &[]), &before);
}

#[test]
fn so_is_that_of_a_child_that_shares_it_with_its_parent() {
    require!(Ruby);
    let folder = Folder::new("read-by-a-child");
    let mut ruby = OutsideRuby::start(TestRuby::OnPath);
    let before = census(&folder, &ruby, &[]);
    let child = ruby.eval(&format!(
        "told, tell = IO.pipe; child = fork {{ tell.puts(({}).to_s); sleep }}; told.gets.chomp + child.to_s",
        read_small_mappings()
    ));
    let child = child.strip_prefix("[0]").unwrap_or_else(|| panic!("{child}")).parse().unwrap();
    let after = census_of(&folder, child, &[]);
    ruby.eval(&format!("Process.kill(:KILL, {child}); Process.wait({child})"));
    assert_as_many(&after, &before);
}

#[test]
fn a_child_is_refused_whose_memory_cannot_be_told_from_much_that_was_only_read() {
    require!(Ruby);
    let folder = Folder::new("indistinct");
    let mut ruby = OutsideRuby::start(TestRuby::OnPath);
    ruby.eval(&map(4));
    // Some of it is written before the fork, and all of the first GiB is read behind it.
    let child = ruby.eval(
        "memset.call($mapped, 1, 8 << 20); \
         told, tell = IO.pipe; child = fork { memchr.call($mapped, 2, 1 << 30); tell.puts; sleep }; told.gets; child",
    );
    let ran = folder.run(&["explain", &child, "--details"]);
    ruby.eval(&format!("Process.kill(:KILL, {child}); Process.wait({child})"));
    ran.assert_says("MB that it shares with other processes cannot be told from memory that was read and never written");
    assert!(!ran.out.contains("slots of"), "{}", ran.out);
}

#[test]
fn a_reading_that_reaches_its_time_says_so_and_gives_no_figure() {
    require!(Ruby);
    let folder = Folder::new("max-time");
    let ruby = OutsideRuby::start(TestRuby::OnPath);
    let pid = ruby.pid.to_string();
    let ran = folder.run(&["explain", &pid, "--owners", "--max-time", "1us"]);
    ran.assert_code(1).assert_says("stopped after ").assert_says("`--max-time` sets the limit");
    ran.assert_says("code and files");
    assert!(!ran.out.contains("slots: "), "{}", ran.out);
}
