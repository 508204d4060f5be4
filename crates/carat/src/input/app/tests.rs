//! What `carat init` writes for folders of several kinds.

use super::*;
use crate::config::Experiment;
use std::fs;
use tempfile::TempDir;

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// The text, and what is unknown; the text is a valid experiment.
fn written(files: &[(&str, &str)]) -> (String, Vec<String>) {
    let folder = folder(files);
    let (text, unknown) = app_experiment(&AppFolder::look(folder.path()).unwrap(), None);
    let plan = Experiment::parse(&text, Path::new("carat.toml"), folder.path())
        .unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(plan.variants.len(), 3, "{text}");
    (text, unknown)
}

const LOCK: &str = "GEM\n  remote: https://rubygems.org/\n  specs:\n    puma (6.4.2)\n      nio4r (~> 2.0)\n    sinatra (3.0.5)\n    redis (5.0)\n    sidekiq (7.2)\n";

#[test]
fn an_app_on_puma_is_started_by_bundler_on_a_free_port_with_a_page_that_it_has() {
    let (text, unknown) = written(&[
        ("Gemfile.lock", LOCK),
        ("config.ru", "run App"),
        ("app.rb", "get '/users/:id' do\nend\nget '/hello' do\nend\n"),
    ]);
    for expected in [
        r#"command = ["bundle", "exec", "puma", "-b", "tcp://127.0.0.1:{port}"]"#,
        r#"path = "/hello""#,
        r#"profile = "low-memory""#,
        r#"RACK_ENV = "production""#,
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    let redis = unknown.iter().filter(|one| one.contains("its Redis is")).count();
    assert_eq!(redis, 1, "{unknown:?}");
}

#[test]
fn a_preloaded_cluster_is_compared_with_prefork() {
    let puma = "workers 4\nthreads 5, 5\npreload_app!\n";
    let (text, unknown) = written(&[
        ("config/puma.rb", puma),
        ("config/application.rb", "module Shop; end"),
        ("config/database.yml", "production:\n  adapter: postgresql\n"),
        ("config/routes.rb", "Rails.application.routes.draw do\n  root \"posts#index\"\nend\n"),
        ("config.ru", "run Rails.application"),
        ("Dockerfile", "FROM ruby\nENV LD_PRELOAD=libjemalloc.so.2\n"),
    ]);
    assert!(text.contains("profile = \"prefork\"") && text.contains("RAILS_ENV"), "{text}");
    assert!(text.contains("path = \"/\"") && text.contains("command = [\"puma\""), "{text}");
    for expected in ["no Gemfile.lock", "database for production", "LD_PRELOAD=libjemalloc"] {
        assert!(unknown.iter().any(|one| one.contains(expected)), "{expected}: {unknown:?}");
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn the_web_process_of_a_procfile_comes_first_and_gets_carats_port() {
    for (line, expected) in [
        ("bundle exec puma -p $PORT", r#"["bundle", "exec", "puma", "-p", "{port}"]"#),
        ("bin/rails s -p ${PORT:-3000}", r#"["bin/rails", "s", "-p", "{port}"]"#),
        ("A=1 puma -p $PORT -e $E", r#"["sh", "-c", "exec env A=1 puma -p {port} -e $E"]"#),
    ] {
        let (text, _) = written(&[("Procfile", &format!("worker: x\nweb: {line}\n"))]);
        assert!(text.contains(&format!("command = {expected}")), "{line}\n{text}");
    }
}

#[test]
fn other_processes_of_a_procfile_are_named_with_what_measures_them() {
    let lines = "# two\nrelease: bin/migrate\nweb: puma -p $PORT\nworker: bundle exec sidekiq -c 5\n\
                 clock-2: A=1 ruby clock.rb\nbroken\nempty:\n";
    let (text, unknown) = written(&[("Procfile", lines), ("config/sidekiq.yml", "")]);
    let of_others: Vec<_> = unknown.iter().filter(|one| one.contains("of the Procfile")).collect();
    assert_eq!(
        of_others,
        [
            "what `worker` of the Procfile takes (bundle exec sidekiq -c 5): only the web server is measured here. \
             Its memory over time: carat record -- bundle exec sidekiq -c 5; under a load of jobs: docs/how-to/sidekiq.md",
            "what `clock-2` of the Procfile takes (A=1 ruby clock.rb): only the web server is measured here. \
             Its memory over time: carat record -- sh -c 'A=1 ruby clock.rb'; under a load: docs/reference/load.md",
        ]
    );
    assert!(
        text.contains("that of `web` in the Procfile") && text.contains(of_others[0]),
        "{text}"
    );
    assert_eq!(unknown.iter().filter(|one| one.contains("idekiq")).count(), 1, "{unknown:?}");
    assert!(!text.contains("migrate"), "{text}");
    let (text, _) = written(&[("Procfile", "worker: bin/jobs\n"), ("config.ru", "run App")]);
    assert!(text.contains("`worker` of the Procfile takes (bin/jobs)"), "{text}");
}

#[test]
fn nothing_is_written_where_no_web_server_could_start() {
    let worker = ("Procfile", "worker: bundle exec sidekiq\nclock: ruby clock.rb\n");
    for (files, expected) in [
        (&[worker][..], "carat record -- bundle exec sidekiq;"),
        (&[worker, ("Gemfile.lock", LOCK)], "`clock` of the Procfile (ruby clock.rb)"),
        (&[("Procfile", "web:\n")], "no `web` in a Procfile"),
        (&[("Gemfile", ""), ("Gemfile.lock", LOCK)], "docs/reference/experiment.md"),
        (&[("Gemfile", ""), ("config/puma.rb", "workers 2\nport 3000\n")], "no config.ru"),
        (&[("Gemfile", ""), ("config/unicorn.rb", "preload_app true")], "no config.ru"),
    ] {
        let folder = folder(files);
        let error = AppFolder::look(folder.path()).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let (text, _) = written(&[("Gemfile", ""), ("config/puma.rb", "rackup 'web.ru'\n")]);
    assert!(text.contains("\"puma\""), "{text}");
}

#[test]
fn characters_that_toml_forbids_in_a_comment_do_not_break_the_file() {
    let (text, _) = written(&[
        ("Procfile", "web: puma -p $PORT\nworker: echo \u{1b}[31m \r x\n"),
        ("Dockerfile", "ENV LD_PRELOAD=\u{7}x\n"),
    ]);
    assert!(text.contains("`worker`") && text.contains("LD_PRELOAD"), "{text}");
}

#[test]
fn what_is_guessed_of_the_start_is_said_to_be_unknown() {
    let port = "whether its server listens on the free port";
    for (files, expected) in [
        (&[("Gemfile", ""), ("config.ru", "run App")][..], "`rackup` is a guess"),
        (&[("Procfile", "worker: x\n"), ("config.ru", "")], "the Procfile has no process `web`"),
        (&[("Procfile", "web: bundle exec puma\n")], port),
        (&[("Procfile", "web: puma\n"), ("config/puma.rb", "port 3000\n")], port),
    ] {
        let (text, unknown) = written(files);
        assert!(unknown.iter().any(|one| one.contains(expected)), "{expected}: {unknown:?}");
        assert!(text.contains(expected), "{text}");
    }
    for files in [
        &[("Procfile", "web: puma -p $PORT\n")][..],
        &[("Procfile", "web: puma\n"), ("config/puma.rb", "port ENV.fetch('PORT', 3000)\n")],
        &[("config.ru", ""), ("Gemfile.lock", LOCK)],
    ] {
        let (text, unknown) = written(files);
        let is_of_start = |one: &String| one.contains(port) || one.contains("`rackup`");
        assert!(!unknown.iter().any(is_of_start), "{text}");
    }
}

#[test]
fn a_folder_without_an_app_and_a_file_that_cannot_be_read_are_named() {
    let look = |files: &[(&str, &str)]| {
        let folder = folder(files);
        AppFolder::look(folder.path()).unwrap_err().to_string()
    };
    assert!(look(&[]).contains("has no Ruby app"), "an empty folder");
    assert!(look(&[("main.py", "x"), ("Dockerfile", "FROM x")]).contains("has no Ruby app"));
    let jobs = look(&[("config/sidekiq.yml", ":queues: []"), ("Gemfile", "")]);
    assert!(jobs.contains("config/sidekiq.yml (bundle exec sidekiq)"), "{jobs}");
    let of_folder = look(&[("Gemfile.lock/x", ""), ("config.ru", "")]);
    assert!(of_folder.contains("Gemfile.lock cannot be read: it is no file"), "{of_folder}");
    let broken = folder(&[("config.ru", "")]);
    fs::write(broken.path().join("Gemfile.lock"), [0xff, 0xfe, 0]).unwrap();
    let error = AppFolder::look(broken.path()).unwrap_err().to_string();
    assert!(error.contains("no text in UTF-8"), "{error}");
    assert!(AppFolder::look(&broken.path().join("absent")).is_err());
}

#[test]
fn the_name_of_a_folder_becomes_one_that_an_experiment_may_have() {
    for (name, expected) in [("my app", "my-app"), ("…", "app"), ("blog-2", "blog-2"), (".x", "x")]
    {
        assert_eq!(plain_name(name), expected);
    }
}

/// What `rails new` writes, of the files that are read.
const NEW_RAILS: &[(&str, &str)] = &[
    ("Gemfile", "gem 'rails'"),
    (
        "Gemfile.lock",
        "GEM\n  specs:\n    puma (5.6.5)\n    rails (6.1.7)\n    sprockets-rails (3.4.2)\n    sqlite3 (1.4.2)\n",
    ),
    ("config.ru", "run Rails.application"),
    ("config/application.rb", "module Shop; end"),
    ("config/routes.rb", "Rails.application.routes.draw do\n  # For details\nend\n"),
    (
        "config/puma.rb",
        "port ENV.fetch(\"PORT\") { 3000 }\npidfile ENV.fetch(\"PIDFILE\") { \"tmp/pids/server.pid\" }\n# workers 2\n",
    ),
    (
        "config/database.yml",
        "default: &default\n  adapter: sqlite3\n\nproduction:\n  <<: *default\n  database: db/production.sqlite3\n",
    ),
    (
        "config/environments/production.rb",
        "  # config.force_ssl = true\n  config.assets.compile = false\n  if ENV[\"RAILS_LOG_TO_STDOUT\"].present?\n",
    ),
    ("config/credentials.yml.enc", "x"),
    ("app/assets/config/manifest.js", ""),
];

/// The files of a new Rails app, with others in the place of some.
fn rails_with(files: &[(&'static str, &'static str)]) -> (String, Vec<String>) {
    let mut all = BTreeMap::from_iter(NEW_RAILS.iter().copied());
    all.extend(files.iter().copied());
    written(&all.into_iter().collect::<Vec<_>>())
}

#[test]
fn of_a_new_rails_app_is_said_what_production_lacks_and_its_pid_file_and_log_stay_as_they_are() {
    let (text, unknown) = rails_with(&[]);
    for expected in [
        r#"PIDFILE = "{dir}/server.pid""#,
        r#"RAILS_LOG_TO_STDOUT = "1""#,
        "ready   = { tcp = true",
        r#"profile = "low-memory""#,
        "# Smaller still, and slower. Its `prepare_fork` has no effect",
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    assert!(!text.contains("headers"), "{text}");
    for expected in [
        "`path` is a guess",
        "db/production.sqlite3 is not there",
        "config/master.key is not here, and it boots",
        "public/assets is empty",
    ] {
        assert!(unknown.iter().any(|one| one.contains(expected)), "{expected}: {unknown:?}");
    }
    let (_, pages) = rails_with(&[
        ("config/routes.rb", "Rails.application.routes.draw do\n  root 'posts#index'\nend\n"),
        ("db/production.sqlite3", "x"),
        ("config/master.key", "x"),
        ("public/assets/.sprockets-manifest-1.json", "{}"),
    ]);
    // What no file says: which of its pages people request.
    let only = "which pages users ask for most: only / is requested; `routes` in place of `path` takes several";
    assert_eq!(pages, [only]);
}

#[test]
fn where_the_database_of_an_app_is_that_has_a_server_is_asked_once() {
    let lock = "GEM\n  specs:\n    pg (1.4.5)\n    rails (6.1.7)\n";
    let database = "production:\n  adapter: postgresql\n";
    let (_, unknown) = rails_with(&[("Gemfile.lock", lock), ("config/database.yml", database)]);
    let asked = unknown.iter().filter(|one| one.contains("production")).collect::<Vec<_>>();
    assert!(asked.len() == 1 && asked[0].contains("its PostgreSQL is (gem pg)"), "{unknown:?}");
}

#[test]
fn an_app_that_insists_on_https_and_a_host_is_asked_as_its_proxy_would_and_is_ready_when_it_is_healthy()
 {
    let routes = "Rails.application.routes.draw do\n  get \"up\" => \"rails/health#show\", as: :x\n  resources :posts\nend\n";
    let production = "config.force_ssl = true\nconfig.require_master_key = true\n";
    let (text, unknown) = rails_with(&[
        ("config/routes.rb", routes),
        ("config/environments/production.rb", production),
        ("config/puma.rb", "workers 2\n"),
    ]);
    for expected in [
        r#"ready   = { http = "/up", within"#,
        "path = \"/posts\"\nheaders = { X-Forwarded-Proto = \"https\" }\n",
        // Puma 5 loads the app before it forks.
        r#"profile = "prefork""#,
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    assert!(unknown.iter().any(|one| one.contains("does not boot without it")), "{unknown:?}");
    let hosts = "config.force_ssl = true\nconfig.assume_ssl = true\nconfig.hosts = [\n";
    let (text, unknown) =
        rails_with(&[("config/routes.rb", routes), ("config/environments/production.rb", hosts)]);
    assert!(!text.contains("\nheaders = ") && text.contains("tcp = true"), "{text}");
    assert!(unknown.iter().any(|one| one.contains("which host it answers")), "{unknown:?}");
    let hosts = "config.hosts << \".example.com\"\n";
    let (text, _) = rails_with(&[("config/environments/production.rb", hosts)]);
    assert!(text.contains("headers = { Host = \"example.com\" }"), "{text}");
}

#[test]
fn a_cluster_is_ready_when_its_page_answers_because_its_master_listens_before_it_can() {
    let puma = ("config/puma.rb", "workers 2\n");
    let page = ("app.rb", "get '/hello' do\nend\n");
    for (files, expected) in [
        (vec![puma, page], r#"{ http = "/hello", within"#),
        (vec![puma], "{ tcp = true"),
        (vec![page], "{ tcp = true"),
        (vec![("config/unicorn.rb", "preload_app true"), page], r#"{ http = "/hello", within"#),
    ] {
        let (text, _) = written(&[vec![("config.ru", "run App")], files].concat());
        assert!(text.contains(&format!("ready   = {expected}")), "{text}");
    }
}

#[test]
fn pages_of_the_log_are_proposed_for_a_preloaded_cluster_and_not_chosen() {
    let started = "Started GET \"/posts\" for ::1 at 2026-11-22 10:00:00 +0000\n";
    let log = format!("{started}Completed 200 OK in 12ms\n").repeat(20);
    let puma = ("config/puma.rb", "workers 4\npreload_app!\n");
    let rails = ("config/application.rb", "module Shop; end");
    let (text, _) = written(&[puma, rails, ("log/production.log", &log)]);
    let proposed = "# settings = { warm_paths = [\"/posts\"] }";
    assert!(text.contains(proposed), "{text}");
    let chosen = text.replace(proposed, &proposed[2..]);
    let parsed = Experiment::parse(&chosen, Path::new("carat.toml"), Path::new("."));
    parsed.unwrap_or_else(|error| panic!("{error}\n{chosen}"));
    assert!(!written(&[puma, rails]).0.contains("warm_paths"));
}
