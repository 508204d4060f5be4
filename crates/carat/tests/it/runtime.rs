//! The runtime inside real Rubies: each setting takes effect, and nothing it does harms the server.

use crate::needs::TestRuby;
use crate::support::{Folder, Ran};
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a script under settings and returns what it printed.
pub(crate) fn run(settings: &[&str], script: &str) -> Ran {
    let folder = Folder::new("runtime");
    let file = folder.write("script.rb", script).display().to_string();
    let mut arguments = vec!["exec", "--no-scrub"];
    arguments.extend(settings);
    arguments.extend(["--", "ruby", &file]);
    folder.run(&arguments)
}

/// Runs a script that must succeed and returns its output.
pub(crate) fn printed(settings: &[&str], script: &str) -> String {
    let ran = run(settings, script);
    ran.assert_code(0);
    ran.out
}

/// An application of so many files, `part0.rb` and so on.
pub(crate) fn write_parts(folder: &Folder, files: u32) {
    for number in 0..files {
        folder.write(&format!("part{number}.rb"), "");
    }
}

/// Waits in Ruby for a condition, with a deadline.
pub(crate) const EVENTUALLY: &str = "
def eventually
  from = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  until yield
    abort 'timed out: ' + CaratRuntime.report.inspect if Process.clock_gettime(Process::CLOCK_MONOTONIC) - from > 90
    sleep 0.02
  end
end
def report(word)
  CaratRuntime.report.fetch(word)
end
";

#[test]
fn a_server_is_compacted_once_after_it_has_booted_and_never_before() {
    require!(Ruby);
    let script = format!(
        "require 'socket'\n{EVENTUALLY}\nat_start = report(:compactions)\n\
         server = TCPServer.new('127.0.0.1', 0)\neventually {{ report(:compactions) > 0 }}\n\
         sleep 0.5\nputs [at_start, report(:compactions)].inspect"
    );
    assert_eq!(printed(&["compact=boot"], &script), "[0, 1]\n");
}

#[test]
fn a_busy_script_that_never_listens_is_compacted_too() {
    require!(Ruby);
    let script = format!(
        "{EVENTUALLY}\neventually {{ 100_000.times {{ }}; report(:compactions) > 0 }}\nputs 'done'"
    );
    assert_eq!(printed(&["compact=boot"], &script), "done\n");
}

#[test]
fn workers_that_load_the_application_themselves_are_compacted_in_the_worker() {
    require!(Ruby);
    let folder = Folder::new("many");
    write_parts(&folder, 120);
    let script = format!(
        "require 'socket'\n{EVENTUALLY}\nserver = TCPServer.new('127.0.0.1', 0)\n\
         pid = fork do\n  before = report(:compactions)\n\
           120.times {{ |number| require '{}/part' + number.to_s }}\n\
           eventually {{ report(:compactions) > before }}\n  puts 'compacted in the worker'\nend\n\
         Process.wait(pid)\nexit $?.exitstatus",
        folder.path("").display()
    );
    assert_eq!(printed(&["compact=boot"], &script), "compacted in the worker\n");
}

#[test]
fn a_server_whose_workers_load_the_application_is_not_compacted_itself() {
    require!(Ruby);
    let folder = Folder::new("unloaded");
    write_parts(&folder, 120);
    let script = |waits: &str| {
        format!(
            "require 'socket'\n{EVENTUALLY}\nmodule Puma; Launcher = Class.new; end\n\
         server = TCPServer.new('127.0.0.1', 0)\nsleep {waits}\n\
         pid = fork do\n  eval('1', binding, 'config.ru')\n\
           120.times {{ |number| require '{}/part' + number.to_s }}\n\
           eventually {{ report(:compactions) > 0 }}\n  p report(:applied)\nend\n\
         Process.wait(pid)\np [report(:compactions), report(:applied)]",
            folder.path("").display()
        )
    };
    // It forks before and after the time at which it seems to have booted.
    for waits in ["0", "2"] {
        assert_eq!(printed(&["compact=boot"], &script(waits)), "1\n[0, 0]\n", "{waits}");
    }
}

#[test]
fn a_full_collection_is_followed_by_a_trim_that_returns_memory() {
    require!(Ruby);
    // Strings of 2,000 bytes lie in malloc; every tenth one lives, so that the top cannot simply shrink.
    // The pause leaves the process idle between the collections; without it `trim=idle` may wait for the whole deadline.
    let script = format!(
        "{EVENTUALLY}\nall = Array.new(60_000) {{ 'x' * 2_000 }}\n\
         all = all.each_slice(10).map(&:last)\n\
         eventually {{ GC.start; sleep 0.3; report(:trimmed_bytes) > 20_000_000 }}\nputs all.size"
    );
    for settings in [["trim=full-gc"], ["trim=idle"]] {
        assert_eq!(printed(&settings, &script), "6000\n");
    }
}

#[test]
fn a_trim_within_the_gc_happens_in_every_full_one() {
    require!(Ruby);
    let script = format!(
        "{EVENTUALLY}\nGC.start\nbefore = report(:trims)\n10.times {{ GC.start }}\n\
         GC.start(full_mark: false)\nputs report(:trims) - before"
    );
    assert_eq!(printed(&["trim=in-gc"], &script), "10\n");
}

#[test]
fn many_collections_are_trimmed_at_most_at_the_limited_rate() {
    require!(Ruby);
    // Two threads allocate meanwhile, because a trim holds malloc's locks.
    let script = format!(
        "{EVENTUALLY}\nstop = false\n\
         workers = Array.new(2) {{ Thread.new {{ Array.new(200) {{ 'y' * rand(3_000) }} until stop }} }}\n\
         from = Process.clock_gettime(Process::CLOCK_MONOTONIC)\n\
         collections = Integer(ENV.fetch('CARAT_TEST_COLLECTIONS', '400'))\n\
         collections.times {{ GC.start(immediate_sweep: true) }}\n\
         took = Process.clock_gettime(Process::CLOCK_MONOTONIC) - from\nstop = true\nworkers.each(&:join)\n\
         abort 'too many: ' + CaratRuntime.report.inspect if report(:trims) > took / 0.5 + 2\n\
         eventually {{ report(:trims) > 0 }}\nputs 'trims are limited'"
    );
    assert_eq!(printed(&["trim=full-gc"], &script), "trims are limited\n");
}

/// A parent that listens, with threads that allocate, forks `count` children one after the other; each
/// child allocates on a thread of its own, collects, and ends well.
fn fork_storm(count: u32) -> String {
    format!(
        "require 'socket'\n{EVENTUALLY}\nserver = TCPServer.new('127.0.0.1', 0)\nstop = false\n\
         workers = Array.new(2) {{ Thread.new {{ Array.new(50) {{ 'y' * rand(9_000) }} until stop }} }}\n\
         {count}.times do\n  GC.start if rand < 0.1\n  pid = fork do\n\
             Thread.new {{ Array.new(100) {{ 'z' * rand(9_000) }} }}.join\n    GC.start if rand < 0.2\n    exit!(42)\n  end\n\
           _, status = Process.wait2(pid)\n  abort status.inspect unless status.exitstatus == 42\nend\n\
         stop = true\nworkers.each(&:join)\nputs 'prepared: ' + report(:prepared_forks).to_s"
    )
}

#[test]
fn a_storm_of_forks_while_threads_allocate_prepares_once_and_loses_no_child() {
    require!(Ruby);
    let count = std::env::var("CARAT_TEST_FORKS").ok().and_then(|text| text.parse().ok());
    let script = fork_storm(count.unwrap_or(40));
    let remedies = ["prepare_fork=full", "seal=on", "trim=full-gc", "gc_pacing=idle"];
    for allocator in ["system", "jemalloc"] {
        let allocator = format!("allocator={allocator}");
        let mut settings = vec![allocator.as_str()];
        settings.extend(remedies);
        assert_eq!(printed(&settings, &script), "prepared: 1\n");
    }
}

#[test]
fn a_daemon_is_not_a_preloaded_fork_and_its_child_goes_on() {
    require!(Ruby);
    let script = format!(
        "require 'socket'\n{EVENTUALLY}\nreader, writer = IO.pipe\nif fork\n  writer.close\n  print reader.read\nelse\n\
           reader.close\n  Process.daemon(true, true)\n\
           eventually {{ GC.start; report(:trims) > 0 }}\n  writer.puts [report(:prepared_forks), 'trims'].inspect\nend"
    );
    assert_eq!(printed(&["trim=full-gc", "prepare_fork=warmup"], &script), "[0, \"trims\"]\n");
}

#[test]
fn objects_survive_preparation_sealing_and_compaction_unharmed() {
    require!(Ruby);
    let script = format!(
        "require 'socket'\n{EVENTUALLY}\nserver = TCPServer.new('127.0.0.1', 0)\n\
         table = Array.new(50_000) {{ |i| [\"key #{{i}}\", {{ value: i, text: 'v' * (i % 700) }}] }}.to_h\n\
         sum = table.sum {{ |key, value| key.size + value[:value] + value[:text].size }}\n\
         pid = fork {{ exit!(table.sum {{ |key, value| key.size + value[:value] + value[:text].size }} == sum ? 0 : 1) }}\n\
         _, status = Process.wait2(pid)\nGC.verify_compaction_references(toward: :empty) if RUBY_VERSION >= '3.2'\n\
         puts [status.exitstatus, report(:sealed_slots) > 0, report(:sealed_bytes) > 0].inspect"
    );
    assert_eq!(printed(&["prepare_fork=warmup", "seal=on"], &script), "[0, true, true]\n");
}

/// A server that has bound its socket, with an application in place of Rails'.
const APPLICATION: &str = "
module Rails
  class << self
    attr_accessor :application
  end
end
class Application
  attr_reader :asked
  def initialize(&answer)
    @asked = []
    @answer = answer
  end
  def initialized? = true
  def call(env)
    @asked << env['PATH_INFO'] + env['QUERY_STRING']
    @answer.call(env['PATH_INFO'])
  end
end
def answering(&answer)
  require 'socket'
  $server = TCPServer.new('127.0.0.1', 0)
  Rails.application = Application.new(&answer)
  pid = fork { exit!(0) }
  Process.wait(pid)
end
";

#[test]
fn pages_are_requested_once_before_the_first_fork_and_before_the_heap_is_prepared() {
    require!(Ruby);
    let script = format!(
        "{EVENTUALLY}\n{APPLICATION}\nanswering {{ [200, {{}}, [\"page\"]] }}\n\
         Process.wait(fork {{ exit!(0) }})\n\
         puts [Rails.application.asked.tally, report(:warmed_pages), report(:prepared_forks)].inspect"
    );
    let settings = ["warm=5", "warm_paths=/,/posts/1?page=2", "prepare_fork=warmup"];
    assert_eq!(printed(&settings, &script), "[{\"/\"=>3, \"/posts/1page=2\"=>2}, 5, 1]\n");
}

#[test]
fn the_profile_prefork_requests_the_pages_that_are_named_and_says_that_none_are() {
    require!(Ruby, Jemalloc);
    let script = format!(
        "{EVENTUALLY}\n{APPLICATION}\nanswering {{ [200, {{}}, [\"page\"]] }}\n\
         Process.wait(fork {{ exit!(0) }})\n\
         puts Rails.application.asked.uniq.inspect"
    );
    let profile = ["--profile", "prefork"];
    for (more, asked, is_said) in [(&["warm_paths=/"][..], "[\"/\"]\n", false), (&[], "[]\n", true)]
    {
        let ran = run(&[&profile[..], more].concat(), &script);
        ran.assert_code(0);
        assert_eq!(ran.out, asked, "{more:?}");
        assert_eq!(ran.talk.contains("not warmed: name pages"), is_said, "{}", ran.talk);
    }
}

#[test]
fn pages_are_requested_until_another_round_changes_nothing_that_a_worker_would_copy() {
    require!(Ruby);
    // The first 25 requests of the parent keep more and more of what they fill, which later ones find filled.
    let fills = "$n = $n.to_i + 1; ($kept ||= []) << 'x' * 1_000_000 if $n <= 25";
    // Another round of a child writes the same again.
    let writes = "($page ||= 'x' * 4_000_000).setbyte(rand(4_000_000), 1); 'y' * 2_000_000";
    let warmed = |answer: &str| -> u64 {
        let script = format!(
            "{EVENTUALLY}\n{APPLICATION}\nanswering {{ {answer}; [200, {{}}, ['page']] }}\n\
             Process.wait(fork {{ exit!(0) }})\n\
             puts [report(:warmed_pages), report(:refused)].inspect"
        );
        let printed = printed(&["warm=auto", "warm_paths=/,/posts"], &script);
        let pages = printed.strip_prefix('[').and_then(|rest| rest.strip_suffix(", 0]\n"));
        pages.unwrap_or_else(|| panic!("{printed}")).parse().unwrap()
    };
    // Two looks at least, ten rounds of two pages apart.
    let level = warmed(writes);
    assert!(level.is_multiple_of(20) && (40..=120).contains(&level), "{level}");
    let filled = warmed(fills);
    assert!(filled.is_multiple_of(20) && (60..=160).contains(&filled), "{filled}");
}

#[test]
fn rounds_end_where_a_page_opens_a_socket_and_the_reason_is_one_line() {
    require!(Ruby);
    let script = format!(
        "{EVENTUALLY}\n{APPLICATION}\nanswering {{\n\
         $kept = TCPSocket.new('127.0.0.1', $server.local_address.ip_port) if ($n = $n.to_i + 1) == 3\n\
         [200, {{}}, ['page']] }}\nputs [report(:warmed_pages), report(:refused)].inspect"
    );
    let ran = run(&["warm=auto"], &script);
    ran.assert_code(0).assert_says("warm was not applied: after 10 pages a page opens a socket");
    assert_eq!(ran.out, "[10, 1]\n");
}

#[test]
fn a_page_that_no_worker_should_share_is_not_requested_and_the_reason_is_one_line() {
    require!(Ruby);
    for (answer, reason) in [
        ("[500, {}, []]", "GET / answers 500"),
        ("[302, {'Location' => '/login'}, []]", "GET / redirects to /login"),
        ("[200, {}, ->(stream) { }]", "GET / answers with a stream"),
        (
            "[200, {}, Enumerator.new { |body| loop { body << 'x' * 1_000_000 } }]",
            "GET / sends more than 16 MiB",
        ),
        (
            "[200, {}, Enumerator.new { |_| raise 'cut off' }]",
            "a page raises RuntimeError: cut off",
        ),
        ("raise 'no table'", "a page raises RuntimeError: no table"),
        ("Thread.new { sleep }; [200, {}, []]", "a page starts a thread"),
        (
            "$kept = TCPSocket.new('127.0.0.1', $server.local_address.ip_port); [200, {}, []]",
            "a page opens a socket",
        ),
        ("exit!(1)", "the process that requested the pages ended"),
    ] {
        let script = format!(
            "{EVENTUALLY}\n{APPLICATION}\nanswering {{ {answer} }}\n\
             puts [Rails.application.asked.size, report(:warmed_pages)].inspect"
        );
        let ran = run(&["warm=5"], &script);
        ran.assert_code(0);
        assert_eq!(ran.out, "[0, 0]\n", "{answer}");
        let lines: Vec<&str> = ran.talk.lines().collect();
        assert!(matches!(lines[..], [line] if line.contains(reason)), "{answer}: {lines:?}");
    }
}

#[test]
fn paths_are_refused_together_with_the_request_for_them() {
    require!(Ruby);
    let script = format!(
        "{EVENTUALLY}\n{APPLICATION}\nanswering {{ [404, {{}}, []] }}\n\
         puts [report(:applied), report(:refused)].inspect"
    );
    let ran = run(&["warm=5", "warm_paths=/nope"], &script);
    ran.assert_code(0).assert_says("warm was not applied: GET /nope answers 404");
    assert_eq!(ran.out, "[0, 3]\n");
}

#[test]
fn a_thread_that_its_library_starts_again_after_a_fork_is_no_obstacle() {
    require!(Ruby);
    // Active Record starts one in every process that connects.
    let script = format!(
        "{EVENTUALLY}\n{APPLICATION}\n\
         answering {{ Thread.new {{ sleep }}.thread_variable_set(:fork_safe, true); [200, {{}}, ['page']] }}\n\
         puts [report(:warmed_pages), report(:refused)].inspect"
    );
    assert_eq!(printed(&["warm=5"], &script), "[5, 0]\n");
}

#[test]
fn a_page_that_hangs_is_given_up_and_the_server_goes_on() {
    require!(Ruby);
    let script = format!(
        "{EVENTUALLY}\n{APPLICATION}\nCaratRuntime::Rehearsal.send(:remove_const, :WITHIN)\n\
         CaratRuntime::Rehearsal::WITHIN = 1\nanswering {{ sleep }}\n\
         puts [Rails.application.asked.size, report(:warmed_pages), report(:refused)].inspect"
    );
    let ran = run(&["warm=5"], &script);
    ran.assert_code(0).assert_says("warm was not applied: a page does not answer within 1 s");
    assert_eq!(ran.out, "[0, 0, 1]\n");
}

#[test]
fn a_page_that_becomes_unfit_later_is_reported_in_one_line() {
    require!(Ruby);
    for (answer, expected, reason) in [
        (
            "($n = $n.to_i + 1) > 2 ? [500, {}, []] : [200, {}, ['page']]",
            "[3, 2, 1]\n",
            "GET / answers 500",
        ),
        (
            "$kept = Thread.new { sleep } if ($n = $n.to_i + 1) == 3; [200, {}, ['page']]",
            "[5, 5, 1]\n",
            "warm was not applied: after 5 pages a page starts a thread",
        ),
    ] {
        let script = format!(
            "{EVENTUALLY}\n{APPLICATION}\nanswering {{ {answer} }}\n\
             puts [Rails.application.asked.size, report(:warmed_pages), report(:refused)].inspect"
        );
        let ran = run(&["warm=5"], &script);
        ran.assert_code(0);
        assert_eq!(ran.out, expected, "{answer}: {}", ran.talk);
        let lines: Vec<&str> = ran.talk.lines().collect();
        assert!(matches!(lines[..], [line] if line.contains(reason)), "{answer}: {lines:?}");
    }
}

#[test]
fn equal_pages_may_be_merged_from_the_first_fork_on() {
    require!(Ruby);
    // PR_GET_MEMORY_MERGE of Linux 6.4, by its number.
    let script = "$VERBOSE = nil\nprctl = RbConfig::CONFIG['host_cpu'] == 'x86_64' ? 157 : 167\n\
         merging = -> { syscall(prctl, 68, 0, 0, 0, 0) rescue -1 }\nbefore = merging.call\n\
         child = IO.popen('-') { |pipe| pipe ? pipe.read : print(merging.call) }\n\
         puts [before, child.to_i, CaratRuntime.report[:applied], CaratRuntime.report[:refused]].inspect";
    let printed = printed(&["ksm=on"], script);
    // Where the kernel's thread does not run, merging is allowed and not in effect.
    let runs = std::fs::read_to_string("/sys/kernel/mm/ksm/run").is_ok_and(|run| run.trim() == "1");
    let allowed = if runs { "[0, 1, 1, 0]\n" } else { "[0, 1, 0, 1]\n" };
    assert!([allowed, "[-1, -1, 0, 1]\n"].contains(&printed.as_str()), "{printed}");
}

#[test]
fn the_growth_of_a_worker_is_in_pages_also_where_ruby_counts_bytes() {
    require!(Ruby);
    // Ruby 4.1 has `heap_allocatable_bytes` and neither pages nor slots.
    let script = format!(
        "require 'socket'\n{EVENTUALLY}\nclass << GC\n  alias stat_of_this_ruby stat\n\
           def stat(key = nil)\n    return stat_of_this_ruby(key) if key\n\
             bytes = 25 * GC::INTERNAL_CONSTANTS[:HEAP_PAGE_SIZE]\n\
             stat_of_this_ruby.reject {{ |key, _| key.to_s.start_with?('heap_allocatable') }}\
               .merge(heap_allocatable_bytes: bytes)\n  end\nend\n\
         server = TCPServer.new('127.0.0.1', 0)\nreader, writer = IO.pipe\n\
         Process.wait(fork {{ writer.puts report(:growth_pages) }})\nputs reader.gets"
    );
    assert_eq!(printed(&["worker_growth=20000"], &script), "25\n");
}

#[test]
fn sealing_stops_where_objects_add_no_page_to_a_heap() {
    require!(Ruby);
    // Ruby 4.1 has heaps of 32, 40, 64 … bytes; objects of 40 bytes go to one of them only.
    let script = format!(
        "require 'socket'\n{EVENTUALLY}\nserver = TCPServer.new('127.0.0.1', 0)\n\
         def GC.stat_heap(heap = nil, key = nil)\n\
           stat = {{ slot_size: 40, heap_eden_pages: 3, heap_eden_slots: 1_000 }}\n\
           heap ? stat.fetch(key) : {{ 0 => stat, 1 => stat }}\nend\n\
         pid = fork {{ exit!(0) }}\nProcess.wait(pid)\n\
         puts report(:sealed_slots)"
    );
    let sealed: u64 = printed(&["prepare_fork=warmup", "seal=on"], &script).trim().parse().unwrap();
    assert!((2_000..=2_200).contains(&sealed), "{sealed} objects in two heaps of 1,000 slots");
}

#[test]
fn a_known_unfit_extension_turns_compaction_off_with_one_line() {
    require!(Ruby);
    let script = format!(
        "require 'socket'\n{EVENTUALLY}\nspec = Gem::Specification.new('semian', '0.10.4')\n\
         Gem.loaded_specs['semian'] = spec\nserver = TCPServer.new('127.0.0.1', 0)\n\
         eventually {{ report(:refused) > 0 }}\nputs report(:compactions)"
    );
    let ran = run(&["compact=boot"], &script);
    ran.assert_code(0).assert_says("semian 0.10.4 keeps objects");
    assert_eq!(ran.out, "0\n");
}

#[test]
fn a_trusted_extension_does_not_turn_compaction_off() {
    require!(Ruby);
    let script = format!(
        "require 'socket'\n{EVENTUALLY}\nspec = Gem::Specification.new('semian', '0.10.4')\n\
         Gem.loaded_specs['semian'] = spec\nserver = TCPServer.new('127.0.0.1', 0)\n\
         Process.wait(fork {{ exit!(0) }})\nputs [report(:compactions), report(:refused)].inspect"
    );
    let trusted = printed(&["compact=before-fork", "trust_extensions=on"], &script);
    assert_eq!(trusted, "[1, 0]\n");
    let listed = "no compaction before the fork: semian 0.10.4";
    run(&["prepare_fork=full"], &script).assert_code(0).assert_says(listed);
    let ran = run(&["prepare_fork=full", "trust_extensions=on"], &script);
    assert!(!ran.assert_code(0).talk.contains(listed), "{}", ran.talk);
}

#[test]
fn a_server_without_proc_runs_on_under_every_setting() {
    require!(Ruby, Mounts);
    let folder = Folder::new("noproc");
    let script = "require 'socket'\nserver = TCPServer.new('127.0.0.1', 0)\nGC.start\n\
         pid = fork { exit!(7) }\n_, status = Process.wait2(pid)\nputs status.exitstatus";
    let file = folder.write("script.rb", script).display().to_string();
    let carat = env!("CARGO_BIN_EXE_carat");
    let hidden = format!(
        "mount -t tmpfs none /proc && exec {carat} exec compact=boot trim=full-gc prepare_fork=full \
         seal=on gc_pacing=idle -- ruby {file}"
    );
    let output = Command::new("unshare").args(["--mount", "sh", "-c", &hidden]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "7\n", "{output:?}");
    assert!(output.status.success(), "{output:?}");
}

/// Runs Ruby in this folder with the runtime loaded; returns what it printed, and its stderr after it. The roots see the
/// /tmp of this system, so that is where the folder must be.
pub(crate) fn run_on(
    mut ruby: Command,
    folder: &Path,
    settings: &str,
    arguments: &[&str],
) -> String {
    let libraries = carat::target::library::unpack(&folder.join("carat")).unwrap();
    let output = ruby
        .args(arguments)
        .current_dir(folder)
        .env("CARAT_SETTINGS", settings)
        .env("CARAT_RUNTIME", &libraries.runtime)
        .env("RUBYOPT", format!("-r{}", libraries.shim.display()))
        .env("PORT", "0")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let printed = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&printed).into_owned()
}

pub(crate) fn folder_for_roots() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("carat-root-").tempdir_in("/tmp").unwrap()
}

#[test]
fn every_ruby_applies_the_settings_that_it_has(version: TestRuby) {
    let script = format!(
        "require 'socket'\n{EVENTUALLY}\nserver = TCPServer.new('127.0.0.1', 0)\n\
         eventually {{ report(:compactions) > 0 }}\neventually {{ GC.start; report(:trims) > 0 }}\n\
         reader, writer = IO.pipe\npid = fork {{ writer.print CaratRuntime.report[:applied].to_s(2) }}\n\
         Process.wait(pid)\nwriter.close\nGC.verify_compaction_references(toward: :empty) if RUBY_VERSION >= '3.2'\n\
         puts [RUBY_VERSION, reader.read, report(:refused)].inspect"
    );
    let folder = folder_for_roots();
    std::fs::write(folder.path().join("script.rb"), script).unwrap();
    let settings =
        "compact=boot;gc=boot;sham=on;trim=full-gc;prepare_fork=warmup;seal=on;gc_pacing=idle";
    let printed = run_on(version.command(None), folder.path(), settings, &["script.rb"]);
    assert!(printed.contains("\"1111111\", 0]"), "{version:?}: {printed}");
}

#[test]
fn a_pause_before_rails_is_initialized_is_not_the_end_of_the_boot() {
    require!(Ruby);
    let folder = Folder::new("rails");
    let rails = "module Rails\n  class Application\n    def initialize!; end\n  end\nend\n";
    let script = format!(
        "require 'socket'\n{EVENTUALLY}\nserver = TCPServer.new('127.0.0.1', 0)\n\
         %w[{0} {1}].each {{ |file| require file }}\nsleep 1.5\nbefore = report(:compactions)\n\
         Rails::Application.new.initialize!\np [before, report(:compactions)]",
        folder.write("rails.rb", rails).display(),
        folder.write("app.rb", "").display(),
    );
    assert_eq!(printed(&["compact=boot"], &script), "[0, 1]\n");
}

/// Records each compaction and each full collection that the runtime runs: the method, whether it is on the main thread,
/// whether a socket listens.
const OBSERVER: &str = "
require 'socket'
module Observer
  CALLS = []
  MOMENTS = []
  %i[compact start].each do |name|
    define_method(name) do |**options|
      CALLS << [name, Thread.current == Thread.main, CaratRuntime.listening]
      MOMENTS << PROGRESS.call if Observer.const_defined?(:PROGRESS)
      super(**options)
    end
  end
end
GC.singleton_class.prepend(Observer)
";

/// Registers an `after_initialize` block late, as an initializer of the application does, and records for each action how
/// many such blocks had run and how many routes were loaded.
const RAILS_OBSERVER: &str = "
BLOCKS = []
HelloApp.initializer(:observed) { config.after_initialize { BLOCKS << :ran } }
Observer::PROGRESS = -> { [BLOCKS.size, HelloApp.routes.routes.size] }
";

/// What the actions at the end of the boot must have been, and whether the setting then counts as applied.
const BOOT_ACTIONS: [(&str, &str); 3] = [
    ("compact=boot", "[[:compact, true, 0]]"),
    ("gc=boot", "[[:start, true, 0]]"),
    ("sham=on", "[]"),
];

#[test]
fn every_ruby_acts_once_on_the_main_thread_when_rails_is_initialized(version: TestRuby) {
    let folder = folder_for_roots();
    let files = [
        ("observer.rb", OBSERVER),
        (
            "rails.rb",
            "module Rails\n  class Application\n    def initialize!\n      p Observer::CALLS\n      :done\n    end\n  end\nend\n",
        ),
        ("app.rb", "HelloApp = Class.new(Rails::Application)\n"),
    ];
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let script = format!(
        "{EVENTUALLY}\n%w[observer rails app].each {{ |name| require_relative name }}\n\
         p HelloApp.new.initialize!, report(:applied), Observer::CALLS, Thread.list.size\n\
         server = TCPServer.new('127.0.0.1', 0)\nHelloApp.new.initialize!\nsleep 1.5\n\
         p Observer::CALLS.size == report(:compactions) + (ENV['CARAT_SETTINGS'] == 'gc=boot' ? 1 : 0)\n\
         p Thread.list.size"
    );
    std::fs::write(folder.path().join("script.rb"), script).unwrap();
    for (settings, calls) in BOOT_ACTIONS {
        let printed = run_on(version.command(None), folder.path(), settings, &["script.rb"]);
        let expected = format!("[]\n:done\n1\n{calls}\n1\n{calls}\ntrue\n1\n");
        assert_eq!(printed, expected, "{version:?}, {settings}");
    }
}

// The root with Ruby 3.4 has no Rails.
#[test]
fn boot_actions_run_once_before_puma_listens_in_rails_of_this_system() {
    require!(Ruby);
    acts_once_in_a_rails_application(TestRuby::OnPath);
}

#[test]
fn boot_actions_run_once_before_puma_listens_in_rails_6_0() {
    require!(Roots("bullseye"));
    acts_once_in_a_rails_application(TestRuby::InRoot("bullseye"));
}

#[test]
fn boot_actions_run_once_before_puma_listens_in_rails_6_1() {
    require!(Roots("bookworm"));
    acts_once_in_a_rails_application(TestRuby::InRoot("bookworm"));
}

#[test]
fn boot_actions_run_once_before_puma_listens_in_rails_7_2() {
    require!(Roots("trixie"));
    acts_once_in_a_rails_application(TestRuby::InRoot("trixie"));
}

fn acts_once_in_a_rails_application(version: TestRuby) {
    let folder = folder_for_roots();
    let workload = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads/rails-hello");
    for name in ["app.rb", "plant.rb", "puma.rb"] {
        std::fs::copy(workload.join(name), folder.path().join(name)).unwrap();
    }
    let rackup = std::fs::read_to_string(workload.join("config.ru")).unwrap();
    let initialize = "HelloApp.initialize!";
    assert!(rackup.contains(initialize), "{rackup}");
    let rackup = rackup.replace(initialize, &format!("{RAILS_OBSERVER}\n{initialize}"));
    let rackup = format!(
        "{rackup}\n{EVENTUALLY}\np [:moments, Observer::MOMENTS]\np [:loaded, Observer::CALLS, Thread.list.count {{ |one| one.name == 'carat' }}]\n\
         Thread.new do\n  eventually {{ CaratRuntime.listening == 1 }}\n  sleep 1.5\n\
           p [:served, Observer::CALLS, report(:applied)]\n  $stdout.flush\n  Process.exit!(0)\nend\n"
    );
    std::fs::write(folder.path().join("config.ru"), rackup).unwrap();
    std::fs::write(folder.path().join("observer.rb"), OBSERVER).unwrap();
    let arguments = ["-r./observer.rb", "-S", "puma", "-C", "puma.rb", "config.ru"];
    for (settings, calls) in BOOT_ACTIONS {
        let printed = run_on(version.command(None), folder.path(), settings, &arguments);
        // After the application's own block and before the routes are loaded.
        let moments = if calls == "[]" { "[]" } else { "[[1, 0]]" };
        for line in [
            format!("[:moments, {moments}]"),
            format!("[:loaded, {calls}, 0]"),
            format!("[:served, {calls}, 1]"),
        ] {
            assert!(printed.contains(&line), "{version:?}, {settings}: {printed}");
        }
    }
}
