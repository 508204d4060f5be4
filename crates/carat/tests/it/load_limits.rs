//! What a load says when a limit ends it: of the server, of the generator, of the machine.

use crate::support::{Folder, finish};
use carat_model::LoadReport;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A null server in a process of its own, which may have so many files open.
struct NullServer {
    process: Child,
    url: String,
}

impl NullServer {
    fn start(kind: &str, files: u32) -> Self {
        let script = format!("ulimit -n {files}; exec \"$0\" load null --{kind}");
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_carat")]).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { process, url: url.trim().to_owned() }
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn report(out: &str) -> LoadReport {
    let json: serde_json::Value = serde_json::from_str(out).unwrap_or_else(|_| panic!("{out}"));
    serde_json::from_value(json["report"].clone()).unwrap()
}

#[test]
fn a_server_that_ran_out_of_files_is_named_long_before_the_load_gives_up() {
    let server = NullServer::start("cable", 40);
    let folder = Folder::new("files");
    // Without the cause the load would wait for these ten minutes.
    let load = ["--steps", "2", "--step-size", "30", "--broadcasts", "2", "--ready-within", "10m"];
    let arguments = [&["load", "cable", &server.url, "--json"], &load[..]].concat();
    let mut carat = folder.carat(&arguments);
    let ran = finish(carat.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let report = report(&ran.assert_code(4).out);
    assert_eq!(report.steps.len(), 1, "the first step had all of its connections");
    let named = |code: &str| report.flags.iter().find(|flag| flag.code == code).unwrap();
    let pid = server.process.id();
    let files = &named("server-files").message;
    assert!(files.contains(&format!("its process {pid} has ")), "{files}");
    assert!(files.contains(" of 40 open"), "{files}");
    let ready = &named("not-all-ready").message;
    assert!(ready.contains("of 60 connections") && ready.contains("at the server"), "{ready}");
}

/// A shell in a network of its own with a hundred local ports, the path of carat as `$0`, and the URL of a null server as `$url`.
fn with_few_ports(then: &str) -> (i32, String, String) {
    let folder = Folder::new("ports");
    let script = format!(
        "ip link set lo up && echo '40000 40099' > /proc/sys/net/ipv4/ip_local_port_range || exit 99\n\
         \"$0\" load null --http > url & null=$!\n\
         until [ -s url ]; do sleep 0.05; done; url=$(cat url)\n\
         {then}\ncode=$?; kill $null; exit $code"
    );
    let ran = Command::new("unshare")
        .args(["--net", "sh", "-c", &script, env!("CARGO_BIN_EXE_carat")])
        .current_dir(folder.path("tmp"))
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (ran.status.code().unwrap(), text(ran.stdout), text(ran.stderr))
}

#[test]
fn a_local_server_gets_more_connections_than_one_address_has_ports() {
    require!(Mounts);
    let (code, out, talk) = with_few_ports("\"$0\" load http $url -c 300 -n 3000 --json");
    let report = report(&out);
    assert_eq!((code, report.completed, report.errors), (0, 3000, 0), "{out} {talk}");
}

#[test]
fn exhausted_local_ports_are_named_with_their_range_before_the_load_begins() {
    require!(Mounts);
    let (code, _, talk) = with_few_ports("\"$0\" load http http://[::1]:9/ -c 300 -n 3000");
    assert_eq!(code, 1, "{talk}");
    assert!(talk.contains("100 local ports") && talk.contains("40000 to 40099"), "{talk}");
}

#[test]
fn flags_that_describe_no_load_are_named_as_they_were_typed_and_are_wrong_usage() {
    let folder = Folder::new("no-load");
    let url = "http://127.0.0.1:9/";
    for (arguments, expected) in [
        (&["load", "http", url, "-n", "0"][..], "--requests 0 sends nothing: give a number"),
        (&["load", "http", url, "-d", "0s"], "--duration 0 sends nothing: give a time"),
        (&["load", "http", url, "-c", "0"], "--connections must be more than 0"),
        (&["record", "--load", url, "-n", "0", "--", "true"], "--requests 0 sends nothing"),
    ] {
        folder.run(arguments).assert_code(2).assert_says(expected);
    }
    folder.assert_nothing_left();
}
