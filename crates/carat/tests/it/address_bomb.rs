//! A server that mapped much more memory than it has.

use crate::needs::TestRuby;
use crate::outside_ruby::OutsideRuby;
use crate::support::Folder;
use serde_json::Value;

/// Maps so many GiB, and reads the first one of them once: its pages are the kernel's zero page.
fn map(gibibytes: u64) -> String {
    format!(
        "require 'fiddle'; long, int = Fiddle::TYPE_LONG, Fiddle::TYPE_INT; \
         libc = Fiddle::Handle::DEFAULT; \
         mmap = Fiddle::Function.new(libc['mmap'], [long, long, int, int, int, long], long); \
         $mapped = mmap.call(0, {gibibytes} << 30, 3, 0x4022, -1, 0); \
         memchr = Fiddle::Function.new(libc['memchr'], [long, int, long], long); \
         memchr.call($mapped, 1, 1 << 30)"
    )
}

fn census(folder: &Folder, ruby: &OutsideRuby, more: &[&str]) -> Value {
    let pid = ruby.pid.to_string();
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
