//! The setting `main_stack`: the server gets the smaller stack, and the programs that it starts do not.

use crate::support::{Folder, Ran, finish};
use std::process::{Command, Stdio};

/// Prints the limit in KiB that a program has after each way of starting it, and that of the process itself.
const SERVER: &str = r#"
shell = "ulimit -s"
forked = IO.popen("-") { |pipe| pipe ? pipe.read : exec("sh", "-c", shell) }
own = Process.getrlimit(:STACK).map { |bytes| bytes == Process::RLIM_INFINITY ? "unlimited" : bytes / 1024 }
begin
  exec("/nowhere/at-all")
rescue SystemCallError
  failed = Process.getrlimit(:STACK).first / 1024
end
puts [own.first, IO.popen(['sh', '-c', shell], &:read), forked, failed].map { |limit| limit.to_s.strip }.inspect
$stdout.flush
exec("ruby", __FILE__, "again") if ARGV.empty?
"#;

/// Runs the real program from a shell that sets limits first.
fn run_under(folder: &Folder, limits: &str, arguments: &[&str]) -> Ran {
    let carat = folder.carat(arguments);
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{limits}; exec \"$0\" \"$@\"")]).arg(carat.get_program());
    shell.args(carat.get_args()).current_dir(folder.path(""));
    shell.envs(carat.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.env_remove("RUBYOPT").stdin(Stdio::null());
    finish(shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

#[test]
fn the_server_starts_with_the_smaller_limit_and_the_hard_one_stays() {
    let folder = Folder::new("stack");
    let limits = "ulimit -Ss 4096; ulimit -Hs 6144";
    let command = ["exec", "main_stack=1m", "--", "sh", "-c", "ulimit -Ss; ulimit -Hs"];
    let ran = run_under(&folder, limits, &command);
    ran.assert_code(0);
    assert_eq!(ran.out, "1024\n6144\n");
}

#[test]
fn programs_of_the_server_have_the_old_limit_also_after_its_restart() {
    require!(Ruby);
    let folder = Folder::new("stack");
    let script = folder.write("server.rb", SERVER).display().to_string();
    for scrub in [&[][..], &["--no-scrub"]] {
        let settings = [&["exec", "main_stack=1m"], scrub, &["--", "ruby", &script]].concat();
        let ran = run_under(&folder, "ulimit -Ss 4096", &settings);
        ran.assert_code(0);
        let line = "[\"4096\", \"4096\", \"4096\", \"4096\"]\n";
        assert_eq!(ran.out, line.repeat(2), "{scrub:?}: {}", ran.talk);
        assert_eq!(ran.talk, "", "{scrub:?}");
    }
}

#[test]
fn a_restarted_server_has_the_smaller_stack_again() {
    require!(Ruby);
    let folder = Folder::new("stack");
    let script = "puts CaratRuntime.report[:applied], Process.getrlimit(:STACK).first\n$stdout.flush\n\
                  exec('ruby', __FILE__, 'again') if ARGV.empty?";
    let script = folder.write("server.rb", script).display().to_string();
    let ran = folder.run(&["exec", "main_stack=1m", "--no-scrub", "--", "ruby", &script]);
    ran.assert_code(0);
    let lines: Vec<&str> = ran.out.lines().collect();
    let [first, limit, second, again] = lines[..] else { panic!("{lines:?}") };
    assert_eq!((first, second), ("1", "1"), "applied before and after: {}", ran.talk);
    assert_eq!(limit, again);
}

#[test]
fn where_the_limit_cannot_be_set_the_server_starts_as_without_and_one_line_says_why() {
    require!(Ruby);
    let folder = Folder::new("stack");
    let script =
        folder.write("server.rb", "require 'socket'\ns = TCPServer.new('127.0.0.1', 0)\nsleep 4\nputs `sh -c 'ulimit -s'`").display().to_string();
    let command = ["exec", "main_stack=1m", "--verify", "--", "ruby", &script];
    let ran = run_under(&folder, "ulimit -s 768", &command);
    ran.assert_code(0).assert_says("main_stack=1048576 NOT APPLIED");
    let reasons: Vec<&str> = ran.talk.lines().filter(|line| !line.contains("verify:")).collect();
    let reason = "carat: main_stack was not applied: the hard limit of the stack is 786432 bytes";
    assert_eq!((reasons, ran.out.as_str()), (vec![reason], "768\n"));
}

#[test]
fn where_the_limit_cannot_be_set_the_server_still_starts_other_rubies() {
    require!(Ruby);
    let folder = Folder::new("stack");
    let script = "exit if ARGV.any?\nputs system('ruby', __FILE__, 'again', exception: true)\n\
                  $stdout.flush\nexec('ruby', __FILE__, 'again')";
    let script = folder.write("server.rb", script).display().to_string();
    let ran =
        run_under(&folder, "ulimit -s 768", &["exec", "main_stack=1m", "--", "ruby", &script]);
    ran.assert_code(0);
    assert_eq!(ran.out, "true\n", "{}", ran.talk);
}

#[test]
fn a_deep_recursion_ends_earlier_and_as_an_exception() {
    require!(Ruby);
    let folder = Folder::new("stack");
    // Blocks of a C function use the machine's stack, which the stack of Ruby's methods must not limit first.
    let script = "def depth(n) = [0].each { $depth = n; depth(n + 1) }\n\
                  begin\n  depth(0)\nrescue SystemStackError\n  puts $depth\nend";
    let script = folder.write("deep.rb", script).display().to_string();
    let depth = |settings: &[&str]| -> u64 {
        let command = ["exec", "env.RUBY_THREAD_VM_STACK_SIZE=67108864"];
        let ran = folder.run(&[&command[..], settings, &["--", "ruby", &script]].concat());
        ran.assert_code(0);
        ran.out.trim().parse().unwrap()
    };
    let (usual, small) = (depth(&[]), depth(&["main_stack=1m"]));
    assert!(small > 500 && small < usual / 3, "{small} of {usual}");
}

#[test]
fn a_printed_environment_starts_the_server_through_carat() {
    let folder = Folder::new("stack");
    let ran = folder.run(&["exec", "main_stack=1m", "--print-env", "dockerfile", "--", "puma"]);
    ran.assert_code(0).assert_says("variables cannot change the limit of the main stack");
    ran.assert_says("main_stack=1048576");
}
