//! The assertions of `bin/fuzz` on random mutations of its seeds.
//!
//! Without coverage guidance this is no substitute, but it takes seconds and its inputs are reproducible.
//! `CARAT_TEST_FUZZ=N` tries N inputs per parser.

use carat_model::load::ReplayFormat;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

#[path = "../../../../fuzz/bodies/cable_message.rs"]
mod cable_message;
#[path = "../../../../fuzz/bodies/experiment.rs"]
mod experiment;
#[path = "../../../../fuzz/bodies/heap_dump.rs"]
mod heap_dump;
#[path = "../../../../fuzz/bodies/http_response.rs"]
mod http_response;
#[path = "../../../../fuzz/bodies/maps.rs"]
mod maps;
#[path = "../../../../fuzz/bodies/outside_heap.rs"]
mod outside_heap;
#[path = "../../../../fuzz/bodies/outside_jemalloc.rs"]
mod outside_jemalloc;
#[path = "../../../../fuzz/bodies/outside_malloc.rs"]
mod outside_malloc;
#[path = "../../../../fuzz/bodies/outside_regions.rs"]
mod outside_regions;
#[path = "../../../../fuzz/bodies/probe_page.rs"]
mod probe_page;
#[path = "../../../../fuzz/bodies/proc_text.rs"]
mod proc_text;
#[path = "../../../../fuzz/bodies/recording.rs"]
mod recording;
#[path = "../../../../fuzz/bodies/redis_reply.rs"]
mod redis_reply;
#[path = "../../../../fuzz/bodies/replay.rs"]
mod replay;
#[path = "../../../../fuzz/bodies/results_file.rs"]
mod results_file;
#[path = "../../../../fuzz/bodies/scenario.rs"]
mod scenario;
#[path = "../../../../fuzz/bodies/websocket_frame.rs"]
mod websocket_frame;

/// Inputs per parser.
const INPUTS: u64 = 20_000;
/// Parsers of whole files are this many times slower, so they get fewer inputs.
const FILES: u64 = 40;
/// Longest input in bytes.
const LONGEST: usize = 4096;
/// Bytes that often reveal errors in the parsing of lengths and lines.
const EDGES: [u8; 10] = [0, 1, 0x7e, 0x7f, 0x80, 0x81, 0xff, b'\r', b'\n', b'0'];

/// The seeds of a target, in a fixed order.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|one| one.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// A random position in so many bytes, the end included.
fn place(random: &mut ChaCha8Rng, length: usize) -> usize {
    random.random_range(0..=length)
}

/// One mutation: a byte, a bit, or a piece that is removed, repeated or taken from another seed.
fn change(input: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut ChaCha8Rng) {
    let (one, two) = (place(random, input.len()), place(random, input.len()));
    let (from, to) = (one.min(two), one.max(two));
    match random.random_range(0..6) {
        0 if from < input.len() => input[from] = EDGES[random.random_range(0..EDGES.len())],
        1 if from < input.len() => input[from] ^= 1 << random.random_range(0..8),
        2 => drop(input.drain(from..to)),
        3 => {
            let piece = input[from..to].to_vec();
            input.splice(from..from, piece);
        }
        4 => {
            let other = &seeds[random.random_range(0..seeds.len())];
            let (one, two) = (place(random, other.len()), place(random, other.len()));
            let piece = other[one.min(two)..one.max(two)].to_vec();
            input.splice(from..to, piece);
        }
        _ => input.insert(from, random.random()),
    }
    input.truncate(LONGEST);
}

/// Checks a parser's assertions on its seeds and on random mutations of them.
fn try_all(target: &str, check: fn(&[u8])) {
    try_one_in(1, target, check);
}

/// The same with one in `so_many` of the usual number of inputs.
fn try_one_in(so_many: u64, target: &str, check: fn(&[u8])) {
    let seeds = seeds(target);
    assert!(!seeds.is_empty(), "no seeds for {target}");
    let inputs = std::env::var("CARAT_TEST_FUZZ").map_or(INPUTS, |text| text.parse().unwrap());
    let count = inputs / so_many;
    let mut random = ChaCha8Rng::seed_from_u64(count);
    let made = (0..count).map(|_| {
        let mut input = seeds[random.random_range(0..seeds.len())].clone();
        for _ in 0..random.random_range(1..8) {
            change(&mut input, &seeds, &mut random);
        }
        input
    });
    for input in seeds.iter().cloned().chain(made) {
        let held = catch_unwind(|| check(&input));
        assert!(held.is_ok(), "{target} fails on \"{}\"", input.escape_ascii());
    }
}

#[test]
fn an_http_response_is_parsed_the_same_however_it_is_split() {
    try_all("http_response", http_response::check);
}

#[test]
fn websocket_messages_are_the_same_however_they_are_split() {
    try_all("websocket_frame", websocket_frame::check);
}

#[test]
fn an_action_cable_message_is_parsed_the_same_by_a_new_parser() {
    try_all("cable_message", cable_message::check);
}

#[test]
fn what_a_scenario_reads_of_a_response_is_read_or_refused() {
    try_all("scenario", scenario::check);
}

#[test]
fn a_reply_of_redis_is_the_same_however_it_is_split() {
    try_all("redis_reply", redis_reply::check);
}

#[test]
fn a_list_of_urls_is_read_or_refused_and_what_is_read_can_be_sent() {
    try_all("url_list", |input| replay::check(input, Some(ReplayFormat::Urls)));
}

#[test]
fn a_log_is_read_or_refused_in_every_format_and_what_is_read_can_be_sent() {
    try_all("request_log", |input| {
        for format in [ReplayFormat::AccessLog, ReplayFormat::Rails, ReplayFormat::Lograge] {
            replay::check(input, Some(format));
        }
        replay::check(input, None);
    });
}

#[test]
fn a_har_is_read_or_refused_and_what_is_read_can_be_sent() {
    try_all("har", |input| replay::check(input, Some(ReplayFormat::Har)));
}

#[test]
fn an_openapi_file_is_read_or_refused_and_what_is_read_can_be_sent() {
    try_all("openapi", |input| replay::check(input, Some(ReplayFormat::OpenApi)));
}

#[test]
fn an_experiment_file_is_parsed_or_refused_with_a_reason() {
    try_all("experiment", experiment::check);
}

#[test]
fn every_mapping_that_is_read_has_addresses_and_a_size() {
    try_all("maps", maps::check);
}

#[test]
fn every_mapping_of_the_reader_from_outside_has_pages_and_none_overlaps() {
    try_all("outside_regions", outside_regions::check);
}

#[test]
fn a_heap_read_from_outside_has_sums_that_agree_whatever_the_process_holds() {
    try_one_in(FILES, "outside_heap", outside_heap::check);
}

#[test]
fn jemalloc_read_from_outside_has_sums_that_agree_whatever_the_process_holds() {
    try_one_in(FILES, "outside_jemalloc", outside_jemalloc::check);
}

#[test]
fn malloc_read_from_outside_has_sums_that_agree_whatever_the_process_holds() {
    try_one_in(FILES, "outside_malloc", outside_malloc::check);
}

#[test]
fn a_heap_dump_of_any_bytes_is_refused_or_read_with_sums_that_agree() {
    try_one_in(4, "heap_dump", heap_dump::check);
}

#[test]
fn files_of_proc_are_parsed_or_refused_without_a_panic() {
    try_all("proc_text", proc_text::check);
}

#[test]
fn a_probe_page_of_any_bytes_is_read_or_refused() {
    try_all("probe_page", probe_page::check);
}

#[test]
fn a_results_file_of_any_bytes_is_refused_or_read_and_never_changed() {
    try_one_in(FILES, "results_file", results_file::check);
}

#[test]
fn a_recording_of_any_bytes_is_refused_or_read_and_rendered() {
    try_one_in(FILES, "recording", recording::check);
}
