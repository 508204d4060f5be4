//! The end of the table: foreign users, limits, values and names.

use crate::faults::rows::Answer::{Parts, Tests};
use crate::faults::rows::{Row, row};

pub(crate) const MORE_ROWS: &[Row] = &[
    row(
        "root's cache is below a folder that only root can enter, and the server becomes another user",
        "the libraries are put where that user can read them; without such a place the server runs without settings, and one line says so",
        Tests(&[
            "exec_environment::a_server_that_becomes_another_user_can_read_the_libraries_wherever_roots_cache_is",
            "exec::without_any_folder_for_the_libraries_the_server_runs_and_one_line_says_what_to_do",
        ]),
    ),
    row(
        "the command of `carat exec` gives the server another root (`chroot`, `bwrap`, `nsenter`)",
        "it starts without the settings that need carat's libraries, and one line says so and what to do",
        Tests(&[
            "exec::behind_a_program_that_changes_the_root_the_server_starts_without_the_settings_that_need_libraries",
        ]),
    ),
    row(
        "the libraries were removed, or cannot be read any more, when a server restarts itself",
        "it starts without the settings, and one line says so",
        Tests(&[
            "exec_environment::a_server_that_restarts_where_it_cannot_read_the_libraries_any_more_starts_without_them",
        ]),
    ),
    row(
        "a launcher writes a value in other words, or `GLIBC_TUNABLES` has another one, which glibc prefers",
        "what the reader of a variable reads is compared; the inherited tunable is removed, and one that stays is not applied",
        Parts(&[
            "carat_settings::spelling::tests::a_value_is_the_same_where_its_reader_reads_the_same",
            "carat_settings::apply::tests::a_tunable_that_glibc_would_prefer_to_a_setting_is_removed_and_others_stay",
            "carat_settings::observation::tests::a_variable_with_another_value_or_behind_a_tunable_of_another_value_is_not_applied",
        ]),
    ),
    row(
        "a setting with which Ruby aborts when it starts",
        "it is refused with the least value",
        Parts(&[
            "carat_settings::catalogue::gc::tests::a_heap_with_which_ruby_could_not_start_is_refused",
        ]),
    ),
    row(
        "a file grows beyond the limit of file sizes (`ulimit -f`)",
        "the message says so, and no part of it is left behind",
        Tests(&[
            "faults::disk::a_file_beyond_the_limit_of_file_sizes_is_an_error_and_leaves_nothing_behind",
        ]),
    ),
    row(
        "a results file or exported results with a number that no trial can have, such as negative bytes",
        "refused, with the number",
        Tests(&["faults::files::a_number_that_no_trial_can_have_is_refused_and_named"]),
    ),
    row(
        "`--log` names a device, a link, a folder or a file of the kernel such as `/proc/self/mem`",
        "it is an error, and nothing runs",
        Tests(&["log_file::a_log_that_cannot_be_written_is_an_error_and_nothing_runs"]),
    ),
    row(
        "a number that is a thread's or a zombie's is given as that of a process",
        "it is named as what it is, with its process or its parent",
        Parts(&[
            "carat_proc::process::root::tests::a_thread_and_a_zombie_are_no_processes_whose_memory_can_be_read_and_are_named",
        ]),
    ),
    row(
        "a server closes a kept-alive connection after it may have read a POST",
        "the request counts as failed and is not sent again",
        Parts(&[
            "carat_load::http::protocol::tests::a_request_that_acts_each_time_is_not_repeated_after_the_server_closed",
        ]),
    ),
    row(
        "a server redirects most requests, as to a login",
        "a finding says that the figures are not those of pages",
        Parts(&["carat_load::http::report::tests::most_responses_being_redirects_is_a_finding"]),
    ),
    row(
        "a URL with a password that is wrong or cannot be reached",
        "no message and no JSON has the password",
        Parts(&[
            "carat_load::target::tests::no_error_about_a_url_has_its_password_and_only_redis_is_told_one",
            "carat::work::load::tests::a_load_is_printed_without_passwords_and_secret_headers",
        ]),
    ),
    row(
        "`kill -9` of `carat watch`, and a second watch on the same store",
        "at most the round that was being written is lost, and a later watch goes on with the same processes; the second is refused with the pid of the first",
        Tests(&["watch::the_store_survives_a_kill_of_the_watch_and_a_second_watch_is_refused"]),
    ),
    row(
        "the store of `carat watch` is removed, moved away or replaced by another file while it is written",
        "another store is begun with everybody who is followed, the other file stays as it is, samples are kept until it is gone, and each is said once",
        Tests(&[
            "faults::watch::a_store_that_is_removed_moved_or_replaced_while_it_is_written_loses_nothing_of_another_program",
        ]),
    ),
    row(
        "the store of `carat watch` is damaged, also while it is written",
        "it is moved aside, which is said, and another one is begun; another program's file is refused",
        Parts(&[
            "carat_watch::store::tests::a_torn_store_is_moved_aside_and_another_one_is_begun",
            "carat_watch::store::tests::a_store_that_is_found_to_be_damaged_while_it_is_used_is_begun_anew",
            "carat_watch::store::tests::a_store_of_which_the_beginning_is_overwritten_while_it_is_used_is_damaged_and_not_another_programs",
            "carat_watch::store::tests::a_newer_format_and_another_programs_file_are_refused_and_unchanged",
        ]),
    ),
    row(
        "the disk is full while `carat watch` runs",
        "samples are kept in memory and written when there is room again",
        Tests(&["faults::watch::a_disk_that_is_full_for_a_time_costs_a_watch_no_sample"]),
    ),
    row(
        "the clock is set back, or forward and back, while `carat watch` runs",
        "it is an event; what was written stays before what follows, nothing becomes old, and no interval follows it",
        Parts(&[
            "carat_watch::recorder::tests::what_was_written_before_the_clock_was_set_back_stays_before_what_follows",
            "carat_watch::recorder::tests::a_clock_that_is_set_forward_by_mistake_and_back_again_forgets_and_moves_nothing",
            "carat_watch::follow::tests::a_clock_that_is_set_is_said_and_intervals_do_not_follow_it",
        ]),
    ),
    row(
        "a server that `carat watch` follows cannot be read any more",
        "the reason is said, its size is sampled all the same, and its last words are of the readings before; it never counts as ended",
        Tests(&[
            "faults::watch::a_server_that_cannot_be_read_any_more_is_followed_and_what_was_read_before_is_its_last_words",
        ]),
    ),
    row(
        "the list of processes cannot be read while `carat watch` runs, as without a descriptor left",
        "nobody counts as ended, and that is said once",
        Parts(&[
            "carat_watch::follow::tests::nothing_has_ended_while_the_list_of_processes_cannot_be_read",
        ]),
    ),
    row(
        "`/proc/uptime` and `/proc/stat` are those of a container (lxcfs)",
        "the age of a server is that since its own start, and new ones are found",
        Tests(&[
            "faults::watch::the_uptime_of_a_container_changes_neither_the_age_of_a_server_nor_which_are_found",
        ]),
    ),
    row(
        "a server waits in vfork(2), while its child runs in its memory",
        "`ps`, `record`, `explain` and `watch` count the memory once",
        Tests(&[
            "faults::watch::a_child_that_runs_in_the_memory_of_its_parent_is_counted_by_no_command",
        ]),
    ),
];
