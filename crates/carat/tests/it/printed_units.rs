//! What `exec --print-env` prints is run, as the program does that reads files of its format.

use crate::dockerfiles::{in_image, script};
use crate::exec_environment::{FORMATS, install, prefix};
use crate::support::{Folder, Ran};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Settings whose variables need no library, and one that needs one.
const SETTINGS: [&str; 3] = ["arena_max=2", "trim=full-gc", "env.MOTTO=it's \"5%\" of $HOME"];

/// Shows the settings of its process and its argument.
const SHOW: &str = "p CaratRuntime.setting('scrub').removed['MALLOC_ARENA_MAX'], ENV['MOTTO'], ARGV, \
    CaratRuntime.report[:applied] > 0";
const ARGUMENT: &str = "a \"$B\" 'c' 5%";
const SHOWN: &str = "\"2\"\n\"it's \\\"5%\\\" of $HOME\"\n[\"a \\\"$B\\\" 'c' 5%\"]\ntrue\n";

fn print(folder: &Folder, format: &str, prefix: &Path) -> Ran {
    let prefix = prefix.display().to_string();
    let mut arguments = vec!["exec", "--print-env", format, "--prefix", &prefix];
    arguments.extend(SETTINGS);
    arguments.extend(["--", "ruby", "-e", SHOW, ARGUMENT]);
    folder.run(&arguments)
}

/// What the command prints if it runs under the printed configuration.
fn shown(folder: &Folder, format: &str, printed: &str) -> String {
    let file = folder.write(&format!("printed.{format}"), printed).display().to_string();
    let carat = Path::new(env!("CARGO_BIN_EXE_carat")).parent().unwrap().display();
    let output = Command::new("ruby")
        .args([script().as_str(), format, &file, "ruby", "-e", SHOW, ARGUMENT])
        .env("PATH", format!("{carat}:{}", std::env::var("PATH").unwrap()))
        .env("XDG_CACHE_HOME", folder.path("cache"))
        .env_remove("RUBYOPT")
        .env_remove("CARAT_OFF")
        .output()
        .unwrap();
    assert!(output.status.success(), "{format}: {output:?}\n{printed}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_variables_of_every_format_apply_the_settings() {
    require!(Ruby, Root);
    let (folder, prefix) = (Folder::new("units"), prefix());
    install(&folder, prefix.path(), &[]).assert_code(0);
    for format in FORMATS {
        let ran = print(&folder, format, prefix.path());
        ran.assert_code(0).assert_says("CARAT_RUNTIME");
        assert_eq!(shown(&folder, format, &ran.out), SHOWN, "{format}: {}", ran.out);
    }
}

#[test]
fn the_line_in_which_carat_starts_the_server_applies_the_settings() {
    require!(Ruby, Root);
    let (folder, prefix) = (Folder::new("units"), prefix());
    for format in FORMATS.into_iter().filter(|format| *format != "shell") {
        let ran = print(&folder, format, prefix.path());
        ran.assert_code(0);
        assert!(!ran.out.contains("CARAT_RUNTIME"), "{format}: {}", ran.out);
        assert_eq!(shown(&folder, format, &ran.out), SHOWN, "{format}: {}", ran.out);
    }
}

#[test]
fn the_steps_of_a_dockerfile_apply_the_settings_in_an_image() {
    require!(Ruby, Root, Mounts, Roots("trixie"));
    let (folder, prefix) = (Folder::new("units"), prefix());
    install(&folder, prefix.path(), &[]).assert_code(0);
    let ran = print(&folder, "dockerfile", prefix.path());
    let note = ran.out.lines().next().unwrap();
    let (_, step) = note.split_once(": RUN ").unwrap_or_else(|| panic!("{}", ran.out));
    fs::create_dir(folder.path("context")).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_carat"), folder.path("context/carat")).unwrap();
    let steps = format!("COPY carat /usr/local/bin/carat\nRUN {step}\n{}", ran.out);
    let mut image = in_image(&folder, "trixie", &steps);
    let output = image.args(["ruby", "-e", SHOW, ARGUMENT]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), SHOWN, "{output:?}\n{}", ran.out);
}

#[test]
fn systemd_accepts_the_unit() {
    require!(Ruby, Root, Systemd);
    let (folder, prefix) = (Folder::new("units"), prefix());
    install(&folder, prefix.path(), &[]).assert_code(0);
    let printed = print(&folder, "systemd", prefix.path());
    let ruby = fs::canonicalize("/usr/bin/ruby").unwrap();
    for (line, accepted) in [(printed.out.as_str(), true), ("Environment=\"A=b", false)] {
        let unit = format!("[Service]\n{line}\nExecStart={} -v\n", ruby.display());
        let file = folder.write("carat-example.service", &unit);
        let output = Command::new("systemd-analyze").arg("verify").arg(&file).output().unwrap();
        let talk = String::from_utf8_lossy(&output.stderr);
        let own = talk.lines().filter(|line| line.contains("carat-example.service"));
        let complaints: Vec<&str> = own.collect();
        assert_eq!(complaints.is_empty(), accepted, "{talk}\n{unit}");
    }
}

/// What the server prints that a manager of systemd starts from this unit.
fn shown_by_systemd(folder: &Folder, unit: &str) -> String {
    let carat = Path::new(env!("CARGO_BIN_EXE_carat")).parent().unwrap().display();
    let [out, talk] = ["out", "talk"].map(|name| folder.path(name));
    let text = format!(
        "[Unit]\nDefaultDependencies=no\nSuccessAction=exit-force\nFailureAction=exit-force\n\
         [Service]\nStandardOutput=file:{}\nStandardError=file:{}\n\
         ExecSearchPath={carat}:/usr/local/bin:/usr/bin:/bin\n{unit}\n",
        out.display(),
        talk.display()
    );
    fs::create_dir_all(folder.path("units")).unwrap();
    folder.write("units/carat-example.service", &text);
    let script = format!("{}/tests/it/data/run_unit.sh", env!("CARGO_MANIFEST_DIR"));
    let mut manager = Command::new("unshare");
    manager.args(["--mount", "sh", &script]).arg(folder.path(""));
    let ran = manager.output().unwrap();
    let shown = fs::read_to_string(&out).unwrap_or_default();
    let talk = fs::read_to_string(&talk).unwrap_or_default();
    assert!(ran.status.success() && talk.is_empty(), "{ran:?}\n{talk}\n{text}");
    fs::remove_file(out).unwrap();
    shown
}

#[test]
fn systemd_starts_the_server_of_the_unit_under_the_settings() {
    require!(Ruby, Root, SystemdManager);
    let (folder, prefix) = (Folder::new("units"), prefix());
    let starts_carat = print(&folder, "systemd", prefix.path());
    assert!(starts_carat.assert_code(0).out.contains("ExecStart="), "{}", starts_carat.out);
    assert_eq!(shown_by_systemd(&folder, &starts_carat.out), SHOWN);
    install(&folder, prefix.path(), &[]).assert_code(0);
    let variables = print(&folder, "systemd", prefix.path());
    assert!(!variables.assert_code(0).out.contains("ExecStart="), "{}", variables.out);
    let server = folder.write("show.rb", SHOW);
    let unit = format!("{}ExecStart=ruby {}\n", variables.out, server.display());
    let without_argument = SHOWN.replace("\"a \\\"$B\\\" 'c' 5%\"", "");
    assert_eq!(shown_by_systemd(&folder, &unit), without_argument);
}
