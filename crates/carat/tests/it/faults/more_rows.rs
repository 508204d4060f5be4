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
];
