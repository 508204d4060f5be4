//! Every fault in plain words, and what is done about it: the table of docs/reliability.md.

/// How a fault is answered.
pub(crate) enum Answer {
    /// By these tests of the whole program, of this binary.
    Tests(&'static [&'static str]),
    /// By these tests of single parts, of the library.
    Parts(&'static [&'static str]),
    /// By nothing that is run, for this reason.
    Reason(&'static str),
}

/// One fault.
pub(crate) struct Row {
    /// What goes wrong.
    pub(crate) fault: &'static str,
    /// What is expected then.
    pub(crate) expected: &'static str,
    /// What is done to see it.
    pub(crate) answer: Answer,
}

const fn row(fault: &'static str, expected: &'static str, answer: Answer) -> Row {
    Row { fault, expected, answer }
}

use Answer::{Parts, Reason, Tests};

/// Every fault.
pub(crate) const ROWS: &[Row] = &[
    row(
        "`kill -9` of carat at a random moment, then `--resume`",
        "no finished trial is lost or run twice, the end is that of an undisturbed run, nothing is left",
        Tests(&[
            "faults::killed::kill_9_at_random_points_loses_no_finished_trial_and_leaves_nothing",
        ]),
    ),
    row(
        "the same with a real Ruby server and a daemon beside it",
        "no process, mount, port or temporary file is left",
        Tests(&[
            "faults::killed::kill_9_with_a_real_server_leaves_no_process_port_or_file",
            "real_run::after_kill_9_in_any_phase_nothing_is_left_and_the_plan_goes_on",
        ]),
    ),
    row(
        "Ctrl-C in any phase of a trial",
        "everything is stopped, finished trials are kept, the way to go on is said",
        Tests(&["real_run::ctrl_c_in_every_phase_cleans_up_and_says_how_to_go_on"]),
    ),
    row(
        "a second carat on the same results file",
        "it keeps away and names the first",
        Tests(&["real_run::a_second_run_of_the_same_experiment_keeps_away"]),
    ),
    row(
        "the server crashes under load",
        "the trial counts as crashed, with signal and last words; two in a row end the run",
        Tests(&[
            "real_run::a_server_that_dies_under_load_has_crashed_and_its_signal_is_named",
            "fake_run::crashes_are_counted_and_a_variant_that_always_fails_ends_the_run",
        ]),
    ),
    row(
        "the kernel kills the server for want of memory (a control group with a limit)",
        "the trial counts as oom-killed",
        Tests(&[
            "faults::servers::a_server_that_the_kernel_kills_for_want_of_memory_is_counted_as_that",
        ]),
    ),
    row(
        "the server never listens",
        "never-ready, with the reason",
        Tests(&["real_run::a_server_that_never_listens_is_never_ready_with_the_reason"]),
    ),
    row(
        "wrong answers",
        "the trial is load-invalid",
        Tests(&[
            "real_run::wrong_answers_make_the_trial_invalid",
            "load_http::every_fault_of_a_server_is_counted_under_its_name",
        ]),
    ),
    row(
        "the server ignores TERM",
        "it is measured first, then killed, and the trial says so",
        Tests(&[
            "faults::servers::a_server_that_ignores_term_is_killed_measured_all_the_same_and_noted",
        ]),
    ),
    row(
        "processes that fork on while they are killed",
        "all are ended",
        Tests(&["faults::servers::processes_that_fork_on_while_they_are_killed_are_all_ended"]),
    ),
    row(
        "orphans: double fork and a session of their own",
        "they are weighed and stopped",
        Tests(&["real_run::a_daemon_that_left_family_and_session_is_weighed_and_stopped"]),
    ),
    row(
        "a service beside the server fails",
        "it is named with its last words",
        Tests(&["real_run::a_service_that_fails_is_named_with_its_words"]),
    ),
    row(
        "a pid is used again by a stranger",
        "a process is its pid and its start time; the stranger is left alone",
        Parts(&[
            "process::tree::tests::a_pid_used_again_by_a_stranger_is_not_a_member",
            "process::tree::tests::a_session_whose_number_is_a_strangers_pid_now_is_not_ours",
        ]),
    ),
    row(
        "processes end while they are read",
        "a partial sample is marked, never summed as if it were whole",
        Parts(&["observe::directory::tests::a_process_that_ends_while_held_has_ended_not_broken"]),
    ),
    row(
        "the disk is full, at any write of a run",
        "the file stays whole, the message says what to do, the run goes on later",
        Tests(&[
            "faults::disk::a_disk_that_fills_up_at_any_write_breaks_no_file_and_the_run_goes_on_later",
        ]),
    ),
    row(
        "the temporary directory is full",
        "the server lives; the probe does without its page",
        Tests(&["faults::disk::a_full_temporary_directory_never_kills_the_server"]),
    ),
    row(
        "a folder that cannot be written",
        "it is named before anything runs",
        Tests(&[
            "faults::disk::a_folder_that_cannot_be_written_is_named_before_anything_runs",
            "exec::a_home_that_cannot_be_written_does_not_stop_the_server",
        ]),
    ),
    row(
        "the machine sleeps in the middle of a trial (every process stopped for two seconds)",
        "no trial is lost, and the trial says so",
        Tests(&[
            "faults::machine::a_machine_that_sleeps_in_the_middle_of_a_trial_costs_no_trial_and_is_noticed",
        ]),
    ),
    row(
        "the clock is set",
        "durations come from the monotonic clock; stamps around the step are not used, and it is said",
        Parts(&[
            "load::clock::tests::a_slewed_clock_is_followed_and_a_stepped_one_is_noticed",
            "load::clock::tests::stamps_right_after_a_step_are_void",
        ]),
    ),
    row(
        "too few descriptors",
        "refused with the limit to set, or enough all the same",
        Tests(&["faults::machine::too_few_descriptors_are_said_with_the_remedy_or_do_not_matter"]),
    ),
    row(
        "the port is taken between choice and use",
        "the server's own words are shown",
        Tests(&["real_run::a_taken_port_shows_what_the_server_said"]),
    ),
    row(
        "a results file with flipped bits, overwritten or cut",
        "refused by name or read; never written to, never a panic",
        Tests(&["faults::files::a_damaged_file_is_refused_or_read_and_never_written_to"]),
    ),
    row(
        "a cut results file, `carat salvage`, then `--resume`",
        "what is whole is kept, the rest runs again, the old file is as it was",
        Tests(&[
            "faults::files::what_is_whole_of_a_damaged_file_is_salvaged_and_the_rest_is_run_again",
        ]),
    ),
    row(
        "a foreign or newer results file",
        "refused by name and untouched",
        Tests(&[
            "fake_run::foreign_and_newer_results_files_are_refused_by_name",
            "fake_run::an_existing_results_file_is_not_overwritten_and_another_experiments_not_resumed",
        ]),
    ),
    row(
        "an older results file with other columns",
        "refused with the way out, and can be salvaged",
        Parts(&[
            "store::salvage::tests::a_file_from_before_notes_is_refused_with_the_way_out_and_can_be_salvaged",
        ]),
    ),
    row(
        "a results file that names somebody else's folder for cleaning up",
        "nothing is removed, nobody is killed",
        Tests(&[
            "faults::files::a_results_file_that_names_another_folder_makes_carat_remove_nothing",
        ]),
    ),
    row(
        "links laid in the cache, beside the page, in the place of the results file",
        "none is followed",
        Tests(&["faults::files::links_laid_where_carat_writes_are_not_followed"]),
    ),
    row(
        "hostile HTTP server: heads and bodies without end, dribble, nonsense, early close",
        "counted as errors of the server, memory stays bounded",
        Tests(&[
            "load_http::every_fault_of_a_server_is_counted_under_its_name",
            "load_http::answers_without_end_time_out_and_take_no_memory",
            "load_http::responses_are_right_however_the_server_sends_them",
            "load_http::a_server_that_goes_away_ends_the_load",
        ]),
    ),
    row(
        "heads without end",
        "given up at 64 KiB",
        Parts(&["load::http::response::tests::a_head_without_end_is_given_up"]),
    ),
    row(
        "hostile Action Cable server: oversized frames, fragments, invalid UTF-8, dribble, silence",
        "each raises exactly its flag",
        Tests(&[
            "load_cable::every_fault_of_a_server_raises_exactly_its_flag",
            "load_cable::silence_is_noticed",
        ]),
    ),
    row(
        "fragments that never end",
        "never more than the limit is kept",
        Parts(&["load::cable::frame::tests::fragments_never_add_up_to_more_than_the_limit"]),
    ),
    row(
        "hostile names: escape sequences, HTML, formulas",
        "text stays text in every face",
        Tests(&["report::hostile_text_leaves_no_face_by_its_syntax"]),
    ),
    row(
        "secrets in environment, arguments, URLs, logs",
        "no face shows them; a shared one names neither host nor user nor paths",
        Tests(&[
            "report::no_face_shows_a_secret",
            "report::a_shared_face_names_neither_host_nor_user_nor_paths_nor_private_variables",
        ]),
    ),
    row(
        "a setuid target, whose loader ignores a preload",
        "refused",
        Tests(&["exec::a_setuid_ruby_is_refused_because_the_loader_would_ignore_the_preload"]),
    ),
    row(
        "a library for another machine, or for glibc where the Ruby is musl's",
        "refused before the loader sees it",
        Tests(&[
            "exec::a_library_for_another_machine_is_refused_before_the_loader_sees_it",
            "exec::a_library_for_another_c_library_is_refused_before_the_loader_sees_it",
        ]),
    ),
    row(
        "a preload that leaks into the programs that a server starts",
        "they get back what was before",
        Tests(&["exec::a_preload_stays_with_the_server_and_its_own_restart"]),
    ),
    row(
        "another user's process",
        "refused with the way out",
        Tests(&["faults::rights::another_users_process_is_refused_with_the_way_out"]),
    ),
    row(
        "no right to the physical side of `pagemap`",
        "one's own process is explained from what may be read",
        Tests(&[
            "faults::rights::without_any_right_ones_own_process_is_explained_from_what_may_be_read",
        ]),
    ),
    row(
        "an unknown Ruby, or one without a function that the probe needs",
        "the server runs on; the feature is off",
        Tests(&[
            "probe_hardships::an_unknown_ruby_runs_on_with_the_allocators_figures_alone",
            "probe_hardships::a_missing_function_costs_its_feature_and_nothing_else",
        ]),
    ),
    row(
        "forks while threads allocate",
        "no child is lost, every child has a page of its own",
        Tests(&[
            "runtime::a_storm_of_forks_while_threads_allocate_prepares_once_and_loses_no_child",
            "probe_hardships::a_thousand_forks_leave_the_parent_as_it_was",
        ]),
    ),
    row(
        "no place for the probe's pages",
        "the server runs on",
        Tests(&[
            "probe_hardships::without_a_place_for_pages_the_server_runs_on",
            "probe_hardships::a_child_that_can_make_no_page_leaves_its_parents_alone",
        ]),
    ),
    row(
        "carat's libraries break a server",
        "`CARAT_OFF=1` takes them out",
        Tests(&["exec::the_kill_switch_runs_the_command_as_it_is"]),
    ),
    row(
        "carat is killed while it records",
        "what was seen until then is kept, and shown as cut off",
        Tests(&[
            "record_run::a_recording_whose_carat_was_killed_keeps_what_was_seen_and_says_that_it_was_cut_off",
        ]),
    ),
    row(
        "disk full while recording",
        "the server runs on; the samples of that while are lost, which is said, and no line is torn",
        Tests(&[
            "faults::disk::a_disk_that_is_full_for_a_while_costs_a_recording_the_samples_of_that_while",
        ]),
    ),
    row(
        "nonsense in a recording",
        "refused by name",
        Tests(&["record_run::what_cannot_be_explained_says_what_to_do"]),
    ),
    row(
        "nonsense in the experiment file",
        "refused before anything is written, with the nearest known word",
        Tests(&["fake_run::wrong_experiment_files_are_refused_before_anything_is_written"]),
    ),
    row(
        "carat runs as root",
        "the server runs as root too",
        Reason(
            "carat changes no user: the server runs as whoever starts carat, because its memory may be read by that user only. \
             Nothing but the setting `root` needs root; start carat as the server's user",
        ),
    ),
    row(
        "a Ruby of musl (Alpine)",
        "the server runs on without probe and runtime, which is said",
        Tests(&["exec::a_ruby_of_musl_runs_on_and_says_why_nothing_was_loaded"]),
    ),
    row(
        "a noisy neighbour, heat, swap",
        "recorded per trial, never a reason to drop one",
        Reason(
            "cannot be made here without disturbing everybody else on the machine; randomised blocks are the answer (docs/method.md)",
        ),
    ),
    row(
        "a control or metrics port that strangers reach",
        "none",
        Reason("carat opens no port; only servers under test listen, on the loopback"),
    ),
    row(
        "compressed answers that unpack to gigabytes",
        "nothing is unpacked",
        Reason(
            "the load generator asks for no compression, in HTTP or in WebSockets, and unpacks none",
        ),
    ),
];
