//! The table of docs/evidence/reliability.md: every fault, what must hold, and its tests.

use crate::faults::more_rows::MORE_ROWS;

/// How a fault is tested.
pub(crate) enum Answer {
    /// By these tests of the whole program, in this binary.
    Tests(&'static [&'static str]),
    /// By these unit tests of the crates; the first part of a name is the crate.
    Parts(&'static [&'static str]),
    /// Not at all, for this reason.
    Reason(&'static str),
}

pub(crate) struct Row {
    pub(crate) fault: &'static str,
    pub(crate) expected: &'static str,
    pub(crate) answer: Answer,
}

pub(super) const fn row(fault: &'static str, expected: &'static str, answer: Answer) -> Row {
    Row { fault, expected, answer }
}

use Answer::{Parts, Reason, Tests};

/// Every row, in the order of the table.
pub(crate) fn rows() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().chain(MORE_ROWS)
}

const ROWS: &[Row] = &[
    row(
        "`kill -9` of carat at a random moment, then `--resume`",
        "no finished trial is lost or repeated, the result equals that of an uninterrupted run, nothing is left behind",
        Tests(&[
            "faults::killed::kill_9_at_random_times_loses_no_finished_trial_and_leaves_nothing_behind",
        ]),
    ),
    row(
        "`kill -9` of `carat tune` in every phase of a search, then `--resume`",
        "the same configurations are tried and the search ends the same",
        Tests(&[
            "faults::searches::a_search_that_is_killed_in_every_phase_tries_the_same_and_ends_the_same",
        ]),
    ),
    row(
        "the disk is full during a search",
        "the message says what to do, and the search continues with more space as if nothing had happened",
        Tests(&[
            "faults::searches::a_search_whose_disk_is_full_says_so_and_continues_with_more_space",
        ]),
    ),
    row(
        "the same with a real Ruby server and a daemon",
        "no process, mount, port or temporary file is left behind",
        Tests(&[
            "faults::killed::kill_9_with_a_real_server_leaves_no_process_port_or_file",
            "real_run::after_kill_9_in_any_phase_nothing_is_left_and_the_experiment_resumes",
        ]),
    ),
    row(
        "Ctrl-C in any phase of a trial",
        "everything stops, finished trials are kept, the message says how to resume",
        Tests(&["real_run::ctrl_c_in_every_phase_cleans_up_and_explains_how_to_resume"]),
    ),
    row(
        "a second carat on the same results file",
        "it refuses and names the first process",
        Tests(&["real_run::a_second_run_of_the_same_experiment_is_rejected_while_the_first_runs"]),
    ),
    row(
        "the server crashes under load",
        "the trial counts as crashed, with its signal and last output; two in a row end the run",
        Tests(&[
            "real_run::a_server_that_dies_under_load_is_reported_as_crashed_with_its_signal",
            "fake_run::crashes_are_counted_and_a_variant_that_always_fails_ends_the_run",
        ]),
    ),
    row(
        "the kernel's OOM killer kills the server (control group with a limit)",
        "the trial counts as oom-killed",
        Tests(&["faults::servers::a_server_that_the_oom_killer_kills_is_counted_as_oom_killed"]),
    ),
    row(
        "`carat explain --owners`, `--reach` or `--unshared` in the server's control group, near its limit",
        "the server survives; carat answers, or refuses with the figures",
        Tests(&[
            "memory_limit::in_the_group_of_a_server_at_three_quarters_of_its_limit_carat_answers_and_the_server_survives",
            "memory_limit::without_room_in_its_group_carat_refuses_with_the_figures_and_the_server_survives",
            "memory_limit::carat_offers_itself_to_the_kernel_if_memory_runs_out",
        ]),
    ),
    row(
        "a server that mapped hundreds of GiB and never wrote them",
        "only its real memory is read; a pass that reaches its limit says so and gives no figure",
        Tests(&[
            "address_bomb::memory_that_was_mapped_and_never_written_is_left_out_and_the_rest_is_exact",
            "address_bomb::a_reading_that_reaches_its_time_says_so_and_gives_no_figure",
        ]),
    ),
    row(
        "a named pipe at the path of a library that the observed process has mapped",
        "it is not opened",
        Tests(&["outside_files::a_named_pipe_at_the_path_of_a_mapped_library_is_not_opened"]),
    ),
    row(
        "the server never listens",
        "the trial counts as never-ready, with the reason",
        Tests(&[
            "real_run::a_server_that_never_listens_is_reported_as_never_ready_with_the_reason",
        ]),
    ),
    row(
        "the command that prepares a trial fails, or never ends",
        "the trial counts as never-ready, with its last line; the cleanup runs, and no process is left",
        Tests(&[
            "trial_commands::a_prepare_command_that_fails_is_the_outcome_of_the_trial_and_its_cleanup_still_runs",
            "trial_commands::a_prepare_command_has_a_deadline_and_leaves_no_process_behind",
        ]),
    ),
    row(
        "Ctrl-C in a trial that has a cleanup",
        "the cleanup runs; if it fails, the message says so",
        Tests(&[
            "trial_commands::ctrl_c_under_load_and_while_preparing_runs_the_cleanup",
            "trial_commands::after_ctrl_c_a_cleanup_that_failed_is_named",
        ]),
    ),
    row(
        "a command of `[run]` fails, never ends, or leaves processes behind",
        "the trial counts as crashed, with its last line, or notes the processes; all are stopped",
        Tests(&[
            "run_task::a_command_that_fails_is_reported_as_crashed_with_its_last_line",
            "run_task::a_command_is_stopped_at_its_deadline",
            "run_task::children_count_as_far_as_the_command_waited_for_them_and_the_rest_is_stopped_and_noted",
            "run_task::after_ctrl_c_or_kill_9_nothing_of_a_command_is_left",
        ]),
    ),
    row(
        "the command that drives the load fails, or never ends",
        "the trial counts as load-invalid, with its last line, and no process is left",
        Tests(&[
            "trial_commands::a_load_command_that_fails_or_is_late_makes_the_trial_invalid_and_is_stopped",
        ]),
    ),
    row(
        "wrong responses",
        "the trial counts as load-invalid",
        Tests(&[
            "real_run::wrong_answers_make_the_trial_invalid",
            "load_http::every_fault_of_a_server_is_counted_under_its_name",
        ]),
    ),
    row(
        "the server ignores TERM",
        "it is measured, then killed, and the trial notes it",
        Tests(&["faults::servers::a_server_that_ignores_term_is_measured_killed_and_noted"]),
    ),
    row(
        "processes that fork while they are killed",
        "all are killed",
        Tests(&["faults::servers::processes_that_fork_while_they_are_killed_are_all_killed"]),
    ),
    row(
        "daemons: double fork and a new session",
        "they are measured and stopped",
        Tests(&[
            "real_run::a_daemon_outside_the_servers_descendants_and_session_is_measured_and_stopped",
        ]),
    ),
    row(
        "a service, or the command that drives the load, leaves a daemon behind, also one whose environment is overwritten",
        "it is not counted as the server's, and it is stopped, also after `kill -9` of carat",
        Tests(&[
            "services::a_daemon_of_a_service_that_hides_its_environment_is_not_the_servers_and_is_stopped",
            "trial_commands::an_orphan_of_the_command_that_drives_the_load_is_not_the_servers_and_is_stopped",
        ]),
    ),
    row(
        "an orphan that shows neither a token nor a parent, beside other processes that could have left it",
        "it is counted, and the trial notes it by name",
        Parts(&[
            "carat_proc::process::tree::tests::an_orphan_that_shows_no_token_is_named_where_it_could_be_anothers",
        ]),
    ),
    row(
        "a server that prints without end",
        "of its log the beginning and the end are kept, memory stays bounded, and the trial notes it",
        Tests(&[
            "run_task::a_command_that_prints_without_end_fills_neither_disk_nor_memory_and_it_is_noted",
        ]),
    ),
    row(
        "a command has much memory for a moment between two samples",
        "its peak is the kernel's record, the same as without carat",
        Tests(&["run_task::the_peak_of_a_command_is_the_kernels_and_the_same_as_without_carat"]),
    ),
    row(
        "the terminal closes under `nohup`",
        "the experiment goes on",
        Tests(&["run_task::under_nohup_a_closed_terminal_does_not_end_an_experiment"]),
    ),
    row(
        "a service beside the server fails",
        "the error names it and shows its last output",
        Tests(&["real_run::a_failed_service_is_reported_with_its_output"]),
    ),
    row(
        "an unrelated process reuses a pid",
        "a process is identified by pid and start time; the unrelated one is left alone",
        Parts(&[
            "carat_proc::process::tree::tests::a_reused_pid_is_not_a_member",
            "carat_proc::process::tree::tests::a_session_whose_number_was_reused_as_a_pid_is_not_the_servers",
            "carat::target::signal::tests::a_signal_reaches_the_process_that_is_meant_and_no_other_one_with_its_pid",
        ]),
    ),
    row(
        "a process ends while it is read",
        "the sample is marked as partial and not summed as if it were complete",
        Parts(&[
            "carat_proc::observe::sampler::tests::a_process_that_ends_while_it_is_read_makes_the_sample_partial_and_leaves_no_sum",
            "carat_proc::observe::sampler::tests::a_process_whose_status_cannot_be_read_makes_the_sample_partial",
            "carat_proc::observe::directory::tests::a_process_that_ends_while_held_has_ended_and_is_no_failure",
        ]),
    ),
    row(
        "the disk is full, at any write of a run",
        "the file stays intact, the message says what to do, the run can be resumed",
        Tests(&[
            "faults::disk::a_disk_that_is_full_at_any_write_breaks_no_file_and_the_run_can_be_resumed",
        ]),
    ),
    row(
        "the temporary directory is full",
        "the server runs on; the probe works without a page",
        Tests(&["faults::disk::a_full_temporary_directory_never_kills_the_server"]),
    ),
    row(
        "a folder that is not writable",
        "the error names it before anything runs",
        Tests(&[
            "faults::disk::a_folder_that_is_not_writable_is_named_before_anything_runs",
            "exec::a_home_that_cannot_be_written_does_not_stop_the_server",
        ]),
    ),
    row(
        "the machine sleeps in the middle of a trial (every process stopped for two seconds)",
        "no trial is lost, and the trial notes it",
        Tests(&[
            "faults::machine::a_machine_that_sleeps_during_a_trial_loses_no_trial_and_is_noticed",
        ]),
    ),
    row(
        "the clock is set",
        "durations come from the monotonic clock; timestamps around the step are not used, and that is reported",
        Parts(&[
            "carat_load::clock::tests::a_slewed_clock_is_followed_and_a_stepped_one_is_noticed",
            "carat_load::clock::tests::stamps_right_after_a_step_are_void",
        ]),
    ),
    row(
        "too few file descriptors",
        "refused with the limit to set, unless they suffice",
        Tests(&[
            "faults::machine::too_few_descriptors_are_reported_with_the_remedy_or_do_not_matter",
        ]),
    ),
    row(
        "another process takes the port before the server does",
        "the server's output is shown",
        Tests(&["real_run::if_the_port_is_in_use_the_servers_own_message_is_shown"]),
    ),
    row(
        "a results file with flipped bits, overwritten or cut",
        "read, or refused with its name; never written to, no panic",
        Tests(&["faults::files::a_damaged_file_is_refused_or_read_and_never_written_to"]),
    ),
    row(
        "a cut results file, `carat salvage`, then `--resume`",
        "intact trials are kept, the rest runs again, the old file is unchanged",
        Tests(&[
            "faults::files::intact_trials_of_a_damaged_file_are_salvaged_and_the_rest_is_run_again",
        ]),
    ),
    row(
        "a results file of another program or of a newer carat",
        "refused with its name, and unchanged",
        Tests(&[
            "fake_run::foreign_and_newer_results_files_are_refused_by_name",
            "fake_run::an_existing_results_file_is_not_overwritten_and_another_experiments_not_resumed",
        ]),
    ),
    row(
        "an older results file with other columns",
        "refused with what to do; it can be salvaged",
        Parts(&[
            "carat::store::salvage::tests::a_file_from_before_notes_is_refused_with_the_way_out_and_can_be_salvaged",
        ]),
    ),
    row(
        "a results file that names another user's folder for cleanup",
        "nothing is removed, no process is killed",
        Tests(&[
            "faults::files::a_results_file_that_names_another_folder_makes_carat_remove_nothing",
        ]),
    ),
    row(
        "a results file whose tables would compute, or whose values or rows are larger than any",
        "it is refused with the reason before anything in it runs, and stays unchanged",
        Tests(&[
            "faults::files::a_results_file_that_would_compute_or_is_larger_than_any_is_refused_with_words",
        ]),
    ),
    row(
        "symbolic links in the cache, at the page, the log and at the results file",
        "none is followed",
        Tests(&["faults::files::symbolic_links_where_carat_writes_are_not_followed"]),
    ),
    row(
        "hostile HTTP server: endless headers and bodies, single bytes, invalid responses, early close",
        "counted as server errors; memory stays bounded",
        Tests(&[
            "load_http::every_fault_of_a_server_is_counted_under_its_name",
            "load_http::answers_without_end_time_out_and_take_no_memory",
            "load_http::responses_are_right_however_the_server_sends_them",
            "load_http::a_server_that_goes_away_ends_the_load",
        ]),
    ),
    row(
        "endless headers",
        "the response is abandoned at 64 KiB",
        Parts(&["carat_load::http::response::tests::a_head_without_end_is_given_up"]),
    ),
    row(
        "hostile Action Cable server: oversized frames, fragments, invalid UTF-8, single bytes, silence",
        "each raises exactly its flag",
        Tests(&[
            "load_cable::every_fault_of_a_server_raises_exactly_its_flag",
            "load_cable::silence_is_noticed",
        ]),
    ),
    row(
        "an Action Cable server that pings without end and reads nothing",
        "the connection is closed and named; memory stays bounded",
        Tests(&[
            "load_cable::a_server_that_pings_and_never_reads_is_closed_and_named_and_takes_no_memory",
        ]),
    ),
    row(
        "the server runs out of file descriptors under load",
        "its process is named with its limit, long before the load would give up",
        Tests(&[
            "load_limits::a_server_that_ran_out_of_files_is_named_long_before_the_load_gives_up",
        ]),
    ),
    row(
        "more connections than local ports",
        "further source addresses toward a local server; else refused before the load, with the range",
        Tests(&[
            "load_limits::a_local_server_gets_more_connections_than_one_address_has_ports",
            "load_limits::exhausted_local_ports_are_named_with_their_range_before_the_load_begins",
        ]),
    ),
    row(
        "a recording of a browser with WebSockets, `data:` URLs and entries without a method",
        "each is left out and counted with its reason; the rest is replayed",
        Parts(&[
            "carat_load::http::replay::har::tests::what_is_no_request_of_http_is_counted_by_its_reason_wherever_it_stands",
            "carat_load::http::replay::har::tests::an_unreadable_entry_is_counted_and_a_request_without_a_response_is_sent",
        ]),
    ),
    row(
        "endless fragments",
        "memory stays below the limit",
        Parts(&["carat_load::cable::frame::tests::fragments_never_add_up_to_more_than_the_limit"]),
    ),
    row(
        "hostile names: escape sequences, HTML, formulas, invisible characters, thousands of letters",
        "text stays text in every output format",
        Tests(&[
            "report::hostile_text_stays_text_in_every_format",
            "report_foreign::every_format_shows_only_printable_characters_and_short_texts_whatever_a_field_contains",
        ]),
    ),
    row(
        "secrets in environment, arguments, URLs, logs",
        "no output format shows them; with `--share` neither host nor user nor paths appear",
        Tests(&[
            "report::no_format_shows_a_secret",
            "report::a_shared_report_names_neither_host_nor_user_nor_paths_nor_private_variables",
            "report_foreign::no_field_of_a_shared_report_says_who_made_it_in_any_form_that_can_be_recognised",
            "report_foreign::a_shared_report_has_no_word_that_a_server_or_its_application_chose",
        ]),
    ),
    row(
        "a setuid target, whose loader ignores a preload",
        "refused",
        Tests(&["exec::a_setuid_ruby_is_rejected_because_the_loader_would_ignore_the_preload"]),
    ),
    row(
        "a library for another architecture, or for glibc while the Ruby uses musl",
        "refused before the loader reads it",
        Tests(&[
            "exec::a_library_for_another_machine_is_rejected_before_the_server_starts",
            "exec::a_library_for_another_c_library_is_rejected_before_the_server_starts",
        ]),
    ),
    row(
        "a preload that is inherited by the programs that a server starts",
        "they get the former environment",
        Tests(&[
            "exec::only_the_server_and_its_own_restart_get_the_preload",
            "handing_on::a_launcher_hands_its_settings_on_to_the_rubies_that_it_starts_and_to_nothing_else",
            "handing_on::a_server_that_listens_hands_its_settings_on_to_nothing_that_it_starts",
        ]),
    ),
    row(
        "a launcher, such as Passenger, thin or foreman, starts the server",
        "the server has the settings, all or none; `--verify` and a trial judge it and not its launcher, and agree",
        Tests(&[
            "serving::exec_and_compare_agree_on_passenger",
            "serving::exec_and_compare_agree_on_two_thins_in_the_background",
            "serving::exec_and_compare_agree_on_a_unicorn_in_the_background",
            "serving::exec_and_compare_agree_on_foreman",
            "serving::exec_and_compare_agree_on_a_cluster_of_puma",
            "serving::exec_and_compare_agree_on_a_puma_behind_a_shell",
        ]),
    ),
    row(
        "a server loses the settings on its way through a launcher",
        "`--verify` names the process that lost them; a launcher alone is never reported as applied",
        Tests(&[
            "serving::a_server_that_has_lost_the_settings_is_named_although_its_launcher_has_them",
            "serving::what_ends_at_once_is_not_verified",
        ]),
    ),
    row(
        "`--verify` has no folder for its pages, or no file may have content (`ulimit -f 0`)",
        "the server runs, and one line says that it is not verified",
        Tests(&[
            "exec::without_a_folder_for_the_pages_the_server_runs_and_one_line_says_that_it_is_not_verified",
            "exec::where_no_file_may_have_content_the_server_runs_all_the_same",
        ]),
    ),
    row(
        "the kernel allows the verifier no process",
        "the server runs, and one line says that it is not verified",
        Parts(&["carat::run::verifier::tests::a_failed_intermediate_process_is_an_error"]),
    ),
    row(
        "somebody else puts a pipe or a file of theirs into the folder as `carat.toml`",
        "it is left out with a message, and the server runs",
        Tests(&["exec::what_somebody_else_put_in_the_folder_as_carat_toml_stops_no_server"]),
    ),
    row(
        "garbage that waits for a collection, of every type, on every Ruby",
        "what a collection would free is named within 5 % of what it frees, or not at all",
        Tests(&[
            "outside_malloc::what_a_full_collection_would_free_is_what_it_frees::on_ruby_in_path",
            "outside_malloc::what_a_full_collection_would_free_is_what_it_frees::on_ruby_2_7",
            "outside_malloc::what_a_full_collection_would_free_is_what_it_frees::on_ruby_3_3",
            "outside_malloc::what_a_full_collection_would_free_is_what_it_frees::on_ruby_3_4",
        ]),
    ),
    row(
        "live memory, huge pages that a program asked for, stacks of one thread",
        "nothing is advised that cannot help",
        Parts(&[
            "carat_analysis::advice::tests::another_allocator_is_never_suggested_for_live_memory",
            "carat_analysis::advice::tests::huge_pages_are_a_finding_only_where_the_kernel_uses_them_by_default",
            "carat_analysis::advice::tests::fewer_threads_are_suggested_only_to_a_process_with_more_than_one",
        ]),
    ),
    row(
        "a watchdog in another language above the Ruby that loaded the app (Passenger)",
        "workers are those of that Ruby, with their number",
        Parts(&[
            "carat_analysis::advice::tests::workers_are_those_of_the_ruby_that_loaded_the_app_and_not_of_a_program_above_it",
        ]),
    ),
    row(
        "another user's process",
        "the kernel's figures are told, and what is missing is named: the user, the capability, or that the process is not dumpable",
        Tests(&[
            "faults::rights::another_users_process_has_the_kernels_figures_and_what_is_missing_is_named",
            "faults::rights::root_without_the_right_to_trace_is_told_so_and_what_was_asked_for_is_not_answered",
            "faults::rights::the_same_user_is_told_that_a_process_is_not_dumpable",
        ]),
    ),
    row(
        "carat runs as root with the `HOME` of another user, or its cache is below a folder that others can change",
        "no library is loaded from there and nothing is created there",
        Parts(&[
            "carat::target::library::tests::a_cache_whose_folder_others_could_rename_is_rejected_and_nothing_is_made_there",
            "carat::target::trust::tests::a_folder_below_one_of_another_user_can_be_changed_also_by_way_of_a_link",
        ]),
    ),
    row(
        "two allocators are mapped, or one that grows by brk as glibc does",
        "`explain` and `--verify` name the one that Ruby calls, and settings of the other are not applied",
        Tests(&[
            "serving_malloc::the_allocator_that_serves_is_named_also_where_it_uses_brk_or_another_one_is_mapped",
            "serving_malloc::a_setting_of_malloc_is_applied_only_where_its_malloc_serves",
        ]),
    ),
    row(
        "workers load the application themselves under settings for a preloaded one",
        "they are reported as not applied, and Ruby's own limits hold in these workers",
        Tests(&[
            "own_application::what_was_done_before_the_fork_is_not_applied_in_a_worker_that_loads_the_application_itself",
            "own_application::a_worker_collects_more_often_under_the_limit_and_as_ruby_does_when_it_loads_the_application",
            "prefork::workers_of_a_server_that_does_not_preload_are_restarted_in_a_phase",
        ]),
    ),
    row(
        "no permission for physical addresses in `pagemap`",
        "the user's own process is explained from what is readable",
        Tests(&[
            "faults::rights::without_rights_ones_own_process_is_explained_from_what_is_readable",
        ]),
    ),
    row(
        "a Ruby that is too old, or one without a function that the probe needs",
        "the server runs on; the feature is off",
        Tests(&[
            "probe_hardships::a_ruby_that_is_too_old_runs_on_with_only_the_allocators_figures",
            "probe_hardships::a_missing_function_costs_its_feature_and_nothing_else",
        ]),
    ),
    row(
        "forks while threads allocate",
        "no child is lost, every child has its own page",
        Tests(&[
            "runtime::a_storm_of_forks_while_threads_allocate_prepares_once_and_loses_no_child",
            "probe_hardships::a_thousand_forks_leave_the_parent_as_it_was",
        ]),
    ),
    row(
        "1,000 forks under load, with the settings of the profile `prefork`",
        "every request is answered, every worker ends as it should",
        Tests(&["prefork::a_thousand_forks_under_load_lose_no_request"]),
    ),
    row(
        "a worker of a prepared cluster is killed, by KILL or by the kernel's OOM killer",
        "it is replaced, the others answer meanwhile",
        Tests(&[
            "prefork::a_worker_that_was_killed_is_replaced_and_the_others_answer_meanwhile",
            "prefork::a_worker_that_the_oom_killer_kills_is_replaced_and_the_others_answer_meanwhile",
        ]),
    ),
    row(
        "a cluster with the profile `prefork` is restarted: SIGUSR2, workers in a phase, workers forked from a worker",
        "new workers answer, without a variable of carat's",
        Tests(&[
            "prefork::a_restart_and_workers_that_are_forked_again_lose_nothing",
            "prefork::workers_of_a_server_that_does_not_preload_are_restarted_in_a_phase",
        ]),
    ),
    row(
        "no folder for the probe's pages",
        "the server runs on",
        Tests(&[
            "probe_hardships::without_a_directory_for_pages_the_server_runs_on",
            "probe_hardships::a_child_that_cannot_create_a_page_does_not_change_its_parents_page",
        ]),
    ),
    row(
        "carat's libraries break a server",
        "`CARAT_OFF=1` disables them",
        Tests(&["exec::carat_off_runs_the_command_without_any_change"]),
    ),
    row(
        "carat is killed while it records",
        "the recording up to then is kept and shown as incomplete",
        Tests(&[
            "record_run::a_recording_whose_carat_was_killed_keeps_its_samples_and_is_reported_as_cut_off",
        ]),
    ),
    row(
        "the disk is full while recording",
        "the server runs on; the samples of that time are lost, which is reported; no line is partial",
        Tests(&[
            "faults::disk::a_disk_that_is_full_for_a_time_costs_a_recording_only_the_samples_of_that_time",
        ]),
    ),
    row(
        "an invalid recording",
        "refused with its name",
        Tests(&["record_run::the_error_for_an_unusable_target_of_explain_names_the_remedy"]),
    ),
    row(
        "an invalid experiment file",
        "refused before anything is written, with the nearest known key",
        Tests(&["fake_run::wrong_experiment_files_are_refused_before_anything_is_written"]),
    ),
    row(
        "a number in an experiment file that no clock reaches and no machine can drive",
        "refused in words, with the largest that is allowed",
        Parts(&["carat_model::span::tests::a_span_that_no_clock_reaches_is_rejected"]),
    ),
    row(
        "files of the user with the names of carat's partial or old files, when a plan has changed",
        "they stay as they are",
        Tests(&["fake_run::after_a_change_of_limits_trials_that_still_count_are_kept"]),
    ),
    row(
        "carat runs as root",
        "the server runs as root too",
        Reason(
            "carat does not change the user: the server runs as the user who starts carat, because only that user may read its memory. \
             Only the setting `root` needs root; start carat as the server's user",
        ),
    ),
    row(
        "a Ruby built for musl (Alpine)",
        "the server runs on without probe and runtime, which is reported",
        Tests(&["exec::a_ruby_built_for_musl_keeps_running_and_reports_why_nothing_was_loaded"]),
    ),
    row(
        "other load on the machine, thermal throttling, swap",
        "recorded per trial, never a reason to drop a trial",
        Reason(
            "a test would disturb everything else on the machine; randomised blocks handle it (docs/explanation/method.md)",
        ),
    ),
    row(
        "a control or metrics port that others can reach",
        "none",
        Reason(
            "carat opens no port; only the servers under test listen, on the loopback interface",
        ),
    ),
    row(
        "compressed responses that expand to gigabytes",
        "nothing is decompressed",
        Reason(
            "the load generator requests no compression, in HTTP or WebSockets, and decompresses nothing",
        ),
    ),
    row(
        "a budget of CI is asked after fewer blocks than can prove anything",
        "exit code 3, and from how many blocks on it can be told; neither broken nor kept",
        Tests(&[
            "few_blocks::a_budget_is_not_judged_below_the_confidence_that_the_design_requires",
        ]),
    ),
    row(
        "the variant that saves most breaks a guard",
        "it leads neither the headline nor a table, on the terminal, in Markdown and on the page",
        Tests(&["few_blocks::a_variant_that_breaks_a_guard_never_leads_however_much_it_saves"]),
    ),
    row(
        "later blocks contradict a verdict, or have values of zero",
        "a verdict that was reached stays",
        Parts(&[
            "carat_analysis::conclude::tests::a_decision_stays_made_whatever_the_later_blocks_are",
        ]),
    ),
    row(
        "a trial succeeds without a value of a metric that decides",
        "a warning counts these trials; their blocks do not count",
        Parts(&[
            "carat_analysis::diagnostics::tests::a_trial_that_succeeded_without_a_value_of_a_metric_that_decides_is_never_silent",
        ]),
    ),
];
