//! What a test may need of the machine, and whether it is there.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// A Ruby to test with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TestRuby {
    /// The one in `PATH`.
    OnPath,
    /// The one of a root that `bin/roots` makes.
    InRoot(&'static str),
}

impl TestRuby {
    /// Every Ruby that Carat is tested with.
    pub(crate) const ALL: [Self; 5] = [
        Self::OnPath,
        Self::InRoot("bullseye"),
        Self::InRoot("bookworm"),
        Self::InRoot("trixie"),
        Self::InRoot("ruby34"),
    ];

    /// The end of the name of a test on it.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::OnPath => "on_ruby_in_path",
            Self::InRoot("bullseye") => "on_ruby_2_7",
            Self::InRoot("bookworm") => "on_ruby_3_1",
            Self::InRoot("trixie") => "on_ruby_3_3",
            Self::InRoot(_) => "on_ruby_3_4",
        }
    }

    /// The command that runs it; a library to preload is one of the root's own.
    pub(crate) fn command(self, preload: Option<&Path>) -> Command {
        let mut command = match self {
            Self::OnPath => Command::new("env"),
            Self::InRoot(name) => {
                let mut command = Command::new(roots_script());
                command.args(["--run", name, "--", "env"]);
                command
            }
        };
        command.args(preload.map(|file| format!("LD_PRELOAD={}", file.display()))).arg("ruby");
        command
    }

    /// The folder that is `/` for it.
    pub(crate) fn root(self) -> PathBuf {
        match self {
            Self::OnPath => PathBuf::from("/"),
            Self::InRoot(name) => roots_folder().join(name),
        }
    }
}

/// What `require!` can name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Need {
    /// A Ruby in `PATH`.
    Ruby,
    RubyOf(TestRuby),
    /// A system that `bin/roots` makes.
    Roots(&'static str),
    /// The rights of root.
    Root,
    /// The jemalloc library of this system.
    Jemalloc,
    /// The library of this allocator.
    Allocator(&'static str),
    /// Chromium, Node and axe-core.
    Browser,
    /// Action Cable, Puma and Redis.
    ActionCable,
    /// Sidekiq and Redis.
    Sidekiq,
    /// The gem sqlite3.
    SqliteGem,
    PgGem,
    /// A PostgreSQL server.
    Postgres,
    Puma,
    /// This program, a Ruby server or what starts one.
    Program(&'static str),
    /// The gem redcarpet, whose extension a compaction can crash.
    Redcarpet,
    /// A Go toolchain, which has pprof.
    Go,
    /// A Go toolchain, or an AnyCable that was built before.
    AnyCable,
    /// The right to mount a file system in memory.
    Mounts,
    /// A checkout with its history, and git.
    Git,
    /// `systemd-analyze`, which checks units also where systemd does not run.
    Systemd,
    /// The right to start a manager of systemd in a group of processes of its own.
    SystemdManager,
    /// The root in which clusters of Slurm start, and that carat runs in it.
    Slurm,
    /// The root and the programs with which clusters of Kubernetes start, and that carat runs in it.
    Kubernetes,
    /// `kubernetes-validate`, which knows the schemas of Kubernetes.
    KubernetesSchemas,
}

impl Need {
    /// Whether CI must have it. The packages of sid change from day to day, so a failure there need not be of this checkout; the
    /// Ruby that is linked with jemalloc takes long to build, and that with YJIT is built only where Debian's sources can be had.
    pub(crate) fn is_in_ci(self) -> bool {
        !matches!(self, Self::Roots("sid" | "jemalloc" | "yjit"))
    }

    /// Whether it makes a test start a program other than carat, which takes seconds.
    fn is_of_a_server(self) -> bool {
        !matches!(self, Self::Root | Self::Git | Self::Jemalloc | Self::Allocator(_))
    }

    /// `Err` has the reason for which it is missing, and the remedy.
    pub(crate) fn check(self) -> Result<(), String> {
        if self.is_of_a_server() && std::env::var_os("CARAT_TEST_QUICK").is_some() {
            return Err("bin/test --quick runs what needs no server".into());
        }
        match self {
            Self::Ruby | Self::RubyOf(TestRuby::OnPath) => RUBY.clone(),
            Self::RubyOf(TestRuby::InRoot(name)) | Self::Roots(name) => check_root(name),
            Self::Root => holds(rustix::process::geteuid().is_root(), "it needs root"),
            Self::Jemalloc => Self::Allocator("jemalloc").check(),
            Self::Allocator(name) => holds(
                carat_settings::find_allocator(Path::new("/"), name).is_some(),
                &format!("no {name}: run bin/setup"),
            ),
            Self::Browser => BROWSER.clone().map(drop),
            Self::ActionCable => ACTION_CABLE.clone(),
            Self::Sidekiq => SIDEKIQ.clone(),
            Self::SqliteGem => gem("sqlite3"),
            Self::PgGem => gem("pg"),
            Self::Postgres => POSTGRES.clone(),
            Self::Puma => holds(runs("puma", &["--version"]), "no Puma: run bin/setup"),
            Self::Program(name) => {
                holds(runs(name, &["--version"]), &format!("no {name}: run bin/setup"))
            }
            Self::Go => holds(runs("go", &["version"]), "no Go toolchain"),
            Self::Redcarpet => {
                holds(runs("ruby", &["-e", "require 'redcarpet'"]), "no redcarpet: run bin/setup")
            }
            Self::AnyCable => ANY_CABLE.clone(),
            Self::Mounts => MOUNTS.clone(),
            Self::Git => holds(runs("git", &["ls-files"]), "no git or no repository"),
            Self::Systemd => {
                holds(runs("systemd-analyze", &["--version"]), "no systemd: run bin/setup")
            }
            Self::SystemdManager => SYSTEMD_MANAGER.clone(),
            Self::Slurm => SLURM.clone(),
            Self::Kubernetes => KUBERNETES.clone().map(drop),
            Self::KubernetesSchemas => KUBERNETES_SCHEMAS.clone().map(drop),
        }
    }
}

fn holds(condition: bool, reason: &str) -> Result<(), String> {
    if condition { Ok(()) } else { Err(reason.to_owned()) }
}

fn runs(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

static RUBY: LazyLock<Result<(), String>> =
    LazyLock::new(|| holds(runs("ruby", &["--version"]), "no `ruby` in PATH: run bin/setup"));

static ACTION_CABLE: LazyLock<Result<(), String>> = LazyLock::new(|| {
    let script = "require 'action_cable'; require 'redis'; require 'puma'";
    let is_here = runs("ruby", &["-e", script]) && runs("redis-server", &["--version"]);
    holds(is_here, "no Action Cable, Puma or Redis: run bin/setup")
});

fn gem(name: &str) -> Result<(), String> {
    let is_here = runs("ruby", &["-e", &format!("require '{name}'")]);
    holds(is_here, &format!("no gem {name}: run bin/setup"))
}

static SIDEKIQ: LazyLock<Result<(), String>> = LazyLock::new(|| {
    let is_here = runs("ruby", &["-e", "require 'sidekiq'"]) && runs("redis-cli", &["--version"]);
    holds(is_here && runs("redis-server", &["--version"]), "no Sidekiq or Redis: run bin/setup")
});

/// Debian keeps the server outside `PATH`, in a folder for each version.
static POSTGRES: LazyLock<Result<(), String>> = LazyLock::new(|| {
    let script = "ls /usr/lib/postgresql/*/bin/initdb || command -v initdb";
    holds(runs("sh", &["-c", script]), "no PostgreSQL: run bin/setup")
});

/// The script exits with 127 if there is no Go to build with.
static ANY_CABLE: LazyLock<Result<(), String>> = LazyLock::new(|| {
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads/cable/anycable/build");
    let built = Command::new(build).output().map_err(|error| error.to_string())?;
    let message = String::from_utf8_lossy(&built.stderr).trim().to_owned();
    if built.status.code() == Some(127) {
        return Err(message);
    }
    assert!(built.status.success(), "AnyCable cannot be built: {message}");
    Ok(())
});

static MOUNTS: LazyLock<Result<(), String>> = LazyLock::new(|| {
    let script = "mount -t tmpfs none /mnt";
    holds(runs("unshare", &["--mount", "sh", "-c", script]), "it may not mount: it needs root")
});

static SYSTEMD_MANAGER: LazyLock<Result<(), String>> = LazyLock::new(|| {
    holds(Path::new("/lib/systemd/systemd").is_file(), "no systemd: run bin/setup")?;
    // A group that is made here is visible to every user of the hierarchy, so it has a name of its own.
    let script = "mount -t cgroup2 none /mnt && mkdir /mnt/$0 && rmdir /mnt/$0";
    let name = format!("carat-need-{}", std::process::id());
    let may = runs("unshare", &["--mount", "--cgroup", "sh", "-c", script, &name]);
    holds(may, "it may not make a control group (version 2): it needs root")
});

static SLURM: LazyLock<Result<(), String>> = LazyLock::new(|| check_cluster_root("slurm"));

/// The folder with the programs of Kubernetes.
pub(crate) static KUBERNETES: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
    check_cluster_root("kubernetes")?;
    let is_v1 = Path::new("/sys/fs/cgroup/memory/cgroup.procs").exists();
    holds(is_v1, "no controllers of cgroup v1, in which the nodes of a test cluster run")?;
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubernetes/build");
    let checked = Command::new(build).arg("--check").output().map_err(|error| error.to_string())?;
    holds(checked.status.success(), "no Kubernetes: run crates/carat/tests/kubernetes/build")?;
    Ok(String::from_utf8_lossy(&checked.stdout).trim().into())
});

/// A root in which clusters start, with this carat.
fn check_cluster_root(name: &'static str) -> Result<(), String> {
    Need::Roots(name).check()?;
    let carat = Path::new(env!("CARGO_BIN_EXE_carat"));
    let mut inside = Command::new(roots_script());
    inside.args(["--run", name, "--", "./carat", "--version"]);
    let tried = inside.current_dir(carat.parent().unwrap()).output();
    let is_run = tried.is_ok_and(|output| output.status.success());
    let reason =
        format!("this carat does not run in the root `{name}`, whose C library may be older");
    holds(is_run, &reason)
}

/// What `bin/roots --check` prints: a line per root.
static ROOTS: LazyLock<String> = LazyLock::new(|| {
    let check = Command::new(roots_script()).arg("--check").output();
    check.map(|check| String::from_utf8_lossy(&check.stdout).into_owned()).unwrap_or_default()
});

fn check_root(name: &str) -> Result<(), String> {
    Need::Root.check()?;
    let line = ROOTS.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    holds(line.contains("ruby "), &format!("no root `{name}`: run bin/roots {name}"))
}

pub(crate) fn roots_script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bin/roots")
}

/// Where `bin/roots` puts its systems.
pub(crate) fn roots_folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("CARAT_ROOTS") {
        return folder.into();
    }
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .unwrap_or_else(|| Path::new(&std::env::var_os("HOME").unwrap_or_default()).join(".cache"));
    cache.join("carat/roots")
}

/// The programs with which the report is tested.
#[derive(Debug, Clone)]
pub(crate) struct BrowserTools {
    pub(crate) browser: PathBuf,
    pub(crate) node: PathBuf,
    /// The script of axe-core, which checks accessibility.
    pub(crate) axe: PathBuf,
}

/// Fetches axe-core once, with npm.
pub(crate) static BROWSER: LazyLock<Result<BrowserTools, String>> = LazyLock::new(|| {
    let browser =
        find_program(&["chromium", "google-chrome"]).ok_or("no chromium: run bin/setup")?;
    let node = find_program(&["node"]).ok_or("no node")?;
    let axe = fetch_axe().ok_or("npm cannot fetch axe-core")?;
    Ok(BrowserTools { browser, node, axe })
});

/// The folder with the Python package, which is fetched once, with pip.
pub(crate) static KUBERNETES_SCHEMAS: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubernetes-validate");
    if !folder.is_dir() {
        // Renamed when it is whole.
        let partial = folder.with_extension(format!("{}.part", std::process::id()));
        let target = partial.display().to_string();
        let package = "kubernetes-validate==1.37.0";
        let install = ["-m", "pip", "install", "--quiet", "--target", &target, package];
        holds(runs("python3", &install), "pip cannot fetch kubernetes-validate")?;
        std::fs::rename(&partial, &folder).map_err(|error| error.to_string())?;
    }
    Ok(folder)
});

fn find_program(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    names.iter().flat_map(|n| folders.iter().map(move |f| f.join(n))).find(|file| file.is_file())
}

fn fetch_axe() -> Option<PathBuf> {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page-check");
    let script = cache.join("node_modules/axe-core/axe.min.js");
    if !script.is_file() {
        std::fs::create_dir_all(&cache).ok()?;
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page/package.json");
        std::fs::copy(from, cache.join("package.json")).ok()?;
        let mut install = Command::new(find_program(&["npm"])?);
        install.args(["install", "--no-audit", "--no-fund"]).current_dir(&cache).output().ok()?;
    }
    script.is_file().then_some(script)
}
