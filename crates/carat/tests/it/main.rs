//! The one integration test binary: the real program, real processes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

// Plain `#[test]` in this binary is the one of this crate.
#[macro_use]
extern crate carat_test_macro;

#[macro_use]
mod harness;

mod action;
mod address_bomb;
mod allocations;
mod call_caches;
mod calloc_arena;
mod demo;
mod dockerfiles;
mod docs;
mod docs_figures;
mod docs_howto;
mod exec;
mod exec_environment;
mod exec_verify;
mod extensions;
mod fake_run;
mod faults;
mod few_blocks;
mod fleet_engines;
mod fleet_kubernetes;
mod fleet_run;
mod fleet_slurm;
mod fuzz;
mod gem;
mod growth_captured;
mod handing_on;
mod heap_dump;
mod heaps;
mod init;
mod jit;
mod kubernetes_cluster;
mod load_cable;
mod load_conformance;
mod load_http;
mod load_limits;
mod load_replay;
mod load_scenario;
mod load_server;
mod load_sidekiq;
mod load_sql_queue;
mod load_suspect;
mod load_tls;
mod load_tls_front;
mod log_file;
mod main_stack;
mod memory_group;
mod memory_limit;
mod namespace_cluster;
mod needs;
mod other_allocators;
mod outside_explain;
mod outside_files;
mod outside_heap;
mod outside_jemalloc;
mod outside_jemalloc_faults;
mod outside_jemalloc_options;
mod outside_malloc;
mod outside_ruby;
mod overwrite;
mod own_application;
mod prefork;
mod printed_units;
mod probe;
mod probe_figures;
mod probe_hardships;
mod probe_ruby;
mod ps_run;
mod ps_servers;
mod puma_plugin;
mod real_run;
mod record_run;
mod refused_load;
mod report;
mod report_builder;
mod report_examples;
mod report_foreign;
mod report_page;
mod report_parts;
mod restore;
mod run_task;
mod runtime;
mod sample_captured;
mod sample_ledger;
mod schema;
mod seal;
mod services;
mod serving;
mod serving_malloc;
mod short_verdict;
mod slurm_cluster;
mod supply;
mod support;
mod tidy;
mod times;
mod trial_commands;
mod tune_fake;
mod tune_run;
mod watch;
mod who;
mod who_garbage;
mod who_since;
mod workloads;

fn main() -> std::process::ExitCode {
    // A shell starts commands in the background with these ignored, and carat keeps that; the tests send them.
    for signal in [libc::SIGINT, libc::SIGHUP] {
        // SAFETY: no handler is set, and this process has one thread yet.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    harness::main()
}
