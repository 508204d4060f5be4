//! Dockerfiles. Their steps run in a copy of a root, because nothing here builds containers.

use crate::exec_verify::VerifiedPuma;
use crate::needs::roots_folder;
use crate::support::Folder;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Copies a root into memory, where it ends with the last process in it, and runs the steps there.
const IN_IMAGE: &str = r#"
root=$1 folder=$2; shift 2
mount -t tmpfs none "$folder/image"
cd "$folder/image"
mkdir upper work all
mount -t overlay overlay -o "lowerdir=$root,upperdir=upper,workdir=work" all
mount -t proc proc all/proc
mount --rbind /dev all/dev
cp -R "$folder/context" all
exec chroot all sh -c 'cd /context && exec ruby run_as.rb dockerfile Dockerfile "$@"' sh "$@"
"#;

/// Answers with what the settings of the example's comment change.
const RACKUP: &str = r#"
run lambda { |_env|
  arenas = CaratRuntime.setting("scrub").removed["MALLOC_ARENA_MAX"]
  said = [arenas, CaratRuntime.report[:applied] > 0, ENV["CARAT"], Process.ppid]
  [200, { "content-type" => "text/plain" }, [said.inspect]]
}
"#;

/// Reads files of every format that configures a server.
pub(crate) fn script() -> String {
    format!("{}/tests/it/data/run_as.rb", env!("CARGO_MANIFEST_DIR"))
}

/// The steps of a Dockerfile, with the root as the base image and the folder `context`; the command of the last `CMD`, or else the
/// arguments, replace it.
pub(crate) fn in_image(folder: &Folder, root: &str, dockerfile: &str) -> Command {
    folder.write("context/Dockerfile", dockerfile);
    fs::copy(script(), folder.path("context/run_as.rb")).unwrap();
    fs::create_dir_all(folder.path("image")).unwrap();
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-ec", IN_IMAGE, "sh"])
        .args([roots_folder().join(root), folder.path("")])
        .env("CARAT_TEST_MARK", folder.mark());
    for name in ["RUBYOPT", "CARAT_OFF", "XDG_CACHE_HOME"] {
        command.env_remove(name);
    }
    command
}

fn dockerfile(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// A context with the tarball of `bin/package`, as far as a Dockerfile uses it.
fn context() -> Folder {
    let folder = Folder::new("image");
    for name in ["context/config", "carat-test/bin"] {
        fs::create_dir_all(folder.path(name)).unwrap();
    }
    fs::copy(env!("CARGO_BIN_EXE_carat"), folder.path("carat-test/bin/carat")).unwrap();
    let packed = Command::new("tar")
        .args(["--create", "--use-compress-program=gzip -1", "--file=context/carat-test.tar.gz"])
        .arg("carat-test")
        .current_dir(folder.path(""))
        .status();
    assert!(packed.unwrap().success());
    folder
}

/// Debian's `bundle` has the version of its Ruby in its name.
const BUNDLE: &str = "RUN ln -s /usr/bin/bundle3.? /usr/local/bin/bundle\n";

#[test]
fn the_server_of_the_example_image_runs_under_the_settings_of_its_comment() {
    require!(Root, Mounts, Roots("trixie"));
    let example = dockerfile("docs/how-to/examples/Dockerfile");
    let comment = example.lines().filter_map(|line| line.strip_prefix("#   "));
    let settings: Vec<&str> = comment.take_while(|line| !line.starts_with("docker ")).collect();
    let folder = context();
    folder.write("context/carat.toml", &settings.join("\n"));
    folder.write("context/Gemfile", "gem 'puma'\n");
    folder.write("context/config.ru", RACKUP);
    let port = carat::target::free_port().unwrap();
    let bind = format!("bind 'tcp://127.0.0.1:{port}'\nworkers 2\npreload_app!\n");
    folder.write("context/config/puma.rb", &bind);
    let mut image = in_image(&folder, "trixie", &format!("{BUNDLE}{example}"));
    image.env("CARAT", "carat-test");
    let puma = VerifiedPuma::spawn(folder, image, port);
    let body = puma.wait_for_body("the server of the image answers", |_| true);
    assert_eq!(body, format!("[\"2\", true, nil, {}]", puma.server.0.id()));
    puma.stop();
}

#[test]
fn the_container_recipe_of_the_package_makes_an_image_whose_printed_environment_is_complete() {
    require!(Root, Mounts, Roots("trixie"));
    let recipe = dockerfile("packaging/Dockerfile");
    let folder = context();
    let run = |steps: &str| {
        let output = in_image(&folder, "trixie", steps).env("CARAT", "carat-test").output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(run(&recipe).contains("Usage: carat"), "{recipe}");
    let server = "eval \"$(carat exec --print-env shell trim=full-gc -- ruby)\"; \
                  exec ruby -e 'p CaratRuntime.report[:applied] > 0, ENV[%q(CARAT)]'";
    let words = serde_json::to_string(&["sh", "-c", server]).unwrap();
    assert_eq!(run(&format!("{recipe}CMD {words}\n")), "true\nnil\n");
}
