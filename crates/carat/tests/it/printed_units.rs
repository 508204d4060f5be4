//! What `exec --print-env` prints is run, as the program does that reads files of its format.

use crate::exec_environment::{FORMATS, install, prefix};
use crate::needs::roots_folder;
use crate::support::{Folder, Ran};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Settings whose variables need no library, and one that needs one.
const SETTINGS: [&str; 3] = ["arena_max=2", "trim=full-gc", "env.MOTTO=it's \"5%\" of $HOME"];

/// Shows the settings of its process and its argument.
const SHOW: &str =
    "p ENV['MALLOC_ARENA_MAX'], ENV['MOTTO'], ARGV, CaratRuntime.report[:applied] > 0";
const ARGUMENT: &str = "a \"$B\" 'c' 5%";
const SHOWN: &str = "\"2\"\n\"it's \\\"5%\\\" of $HOME\"\n[\"a \\\"$B\\\" 'c' 5%\"]\ntrue\n";

fn print(folder: &Folder, format: &str, prefix: &Path) -> Ran {
    let prefix = prefix.display().to_string();
    let mut arguments = vec!["exec", "--print-env", format, "--prefix", &prefix];
    arguments.extend(SETTINGS);
    arguments.extend(["--", "ruby", "-e", SHOW, ARGUMENT]);
    folder.run(&arguments)
}

fn script() -> String {
    format!("{}/tests/it/data/run_as.rb", env!("CARGO_MANIFEST_DIR"))
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

/// Runs a Dockerfile's steps in a copy of the root that ends with them.
const IN_IMAGE: &str = r#"
root=$1 folder=$2; shift 2
mount -t tmpfs none "$folder/image"
cd "$folder/image"
mkdir upper work all
mount -t overlay overlay -o "lowerdir=$root,upperdir=upper,workdir=work" all
mount -t proc proc all/proc
mount --rbind /dev all/dev
mkdir all/app
cp "$folder/carat" all/usr/local/bin/carat
cp "$folder/Dockerfile" "$folder/run_as.rb" all/app
exec chroot all sh -c 'cd /app && exec ruby run_as.rb dockerfile Dockerfile "$@"' sh "$@"
"#;

#[test]
fn the_steps_of_a_dockerfile_apply_the_settings_in_an_image() {
    require!(Ruby, Root, Mounts, Roots("trixie"));
    let (folder, prefix) = (Folder::new("units"), prefix());
    install(&folder, prefix.path(), &[]).assert_code(0);
    let ran = print(&folder, "dockerfile", prefix.path());
    let note = ran.out.lines().next().unwrap();
    let (_, step) = note.split_once(": RUN ").unwrap_or_else(|| panic!("{}", ran.out));
    folder.write("Dockerfile", &format!("RUN {step}\n{}", ran.out));
    fs::copy(script(), folder.path("run_as.rb")).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_carat"), folder.path("carat")).unwrap();
    fs::create_dir(folder.path("image")).unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-ec", IN_IMAGE, "sh"])
        .args([roots_folder().join("trixie"), folder.path("")])
        .args(["ruby", "-e", SHOW, ARGUMENT])
        .env_remove("RUBYOPT")
        .env_remove("CARAT_OFF")
        .output()
        .unwrap();
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
