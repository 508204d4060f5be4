use super::*;
use std::path::Path;

const COMPACTION: &str = r#"
name = "compaction"
[server]
command = ["puma", "-C", "puma.rb", "config.ru"]
ready = { http = "/hello", within = "30s" }
[services.redis]
command = ["redis-server", "--port", "{port}", "--save", ""]
ready = { tcp = true }
[load.http]
path = "/hello"
connections = 8
requests = 6000
[[variant]]
name = "default"
[[variant]]
name = "compact"
settings = { compact = "boot" }
[measure]
primary = "memory.rss.final"
guards = { "latency.p95" = "+5%" }
[trials]
max = 60
margin = "0.25%"
"#;

/// The same experiment, every table and key in another order.
const COMPACTION_REORDERED: &str = r#"
name = "compaction"
[trials]
margin = "0.25%"
max = 60
[measure]
guards = { "latency.p95" = "+5%" }
primary = "memory.rss.final"
[[variant]]
name = "default"
[[variant]]
settings = { compact = "boot" }
name = "compact"
[load.http]
requests = 6000
connections = 8
path = "/hello"
[services.redis]
ready = { tcp = true }
command = ["redis-server", "--port", "{port}", "--save", ""]
[server]
ready = { within = "30s", http = "/hello" }
command = ["puma", "-C", "puma.rb", "config.ru"]
"#;

fn parse(text: &str) -> Result<Experiment, ExperimentFileError> {
    Experiment::parse(text, Path::new("carat.toml"), Path::new("."))
}

#[test]
fn every_part_of_the_documented_file_is_parsed() {
    let experiment = parse(COMPACTION).unwrap();
    assert_eq!(experiment.baseline().name, "default");
    let settings = experiment.variants[1].settings(None).unwrap();
    assert_eq!(settings.describe()["compact"], "boot");
    let ready =
        Readiness { check: ReadyCheck::Http("/hello".to_owned()), within: Span::seconds(30) };
    assert_eq!(experiment.server.ready, ready);
    assert_eq!(experiment.server.command.program(), "puma");
    assert!((experiment.trials.margin.0 - 0.0025).abs() < 1e-12);
    assert_eq!(experiment.services.keys().collect::<Vec<_>>(), ["redis"]);
    assert_eq!(experiment.services["redis"].ready.check, ReadyCheck::Tcp);
}

#[test]
fn an_error_names_what_is_wrong_and_what_would_be_right() {
    for (from, to, expected) in [
        ("connections = 8", "conections = 8", "did you mean `connections`?"),
        ("memory.rss.final", "memory.rss.finale", "did you mean `memory.rss.final`?"),
        ("latency.p95", "latency.p99.9", "latency.p99.9 needs 10000 requests per trial"),
        ("\"+5%\"", "\"5\"", "not a percentage"),
        ("\"+5%\"", "\"-5%\"", "must be a positive percentage"),
        ("name = \"compact\"", "name = \"default\"", "two variants are named `default`"),
        ("path = \"/hello\"", "path = \"hello\"", "must start with `/`"),
        (
            "{ tcp = true }",
            "{ tcp = true, log = \"x\" }",
            "services.redis.ready needs exactly one of",
        ),
        ("http = \"/hello\"", "http = \"hello\"", "server.ready.http `hello` must start with `/`"),
        ("http = \"/hello\", ", "", "server.ready needs exactly one of"),
        ("within = \"30s\"", "within = \"30\"", "not a span of time"),
        ("max = 60", "max = 0", "between 1 and 10000"),
        ("name = \"compaction\"", "name = \"../x\"", "cannot be a file name"),
        ("requests = 6000", "requests = 0", "load.http.requests must be more than 0"),
        ("[[variant]]\nname = \"default\"", "", "at least two [[variant]]"),
        ("compact = \"boot\"", "compakt = \"boot\"", "variant `compact`: no setting is named"),
        ("compact = \"boot\"", "compact = \"bot\"", "did you mean `boot`?"),
        (
            "command = [\"puma\", \"-C\", \"puma.rb\", \"config.ru\"]",
            "command = []",
            "server.command is empty",
        ),
        ("settings = { compact = \"boot\" }", "command = []", "`compact` has an empty command"),
    ] {
        let text = COMPACTION.replace(from, to);
        assert_ne!(text, COMPACTION, "{from}");
        let message = parse(&text).unwrap_err().to_string();
        assert!(message.contains(expected), "{to}: {message}");
        assert!(message.contains("carat.toml"), "{message}");
    }
}

#[test]
fn a_root_below_the_folder_of_roots_is_resolved_on_each_machine_and_hashed_as_written() {
    let with = |root: &str| {
        parse(&COMPACTION.replace("compact = \"boot\"", &format!("root = \"{root}\""))).unwrap()
    };
    let experiment = with("{roots}/trixie");
    let variant = &experiment.variants[1];
    let settings = variant.settings(Some("/cache/roots")).unwrap();
    assert_eq!(settings.root(), Some(Path::new("/cache/roots/trixie")));
    let message = variant.settings(None).unwrap_err().to_string();
    assert!(message.contains("{roots}/trixie"), "{message}");
    assert_ne!(experiment.hash(), with("/cache/roots/trixie").hash());
    assert!(experiment.canonical().to_string().contains("{roots}/trixie"));
}

#[test]
fn comments_and_layout_do_not_change_the_hash_and_values_do() {
    let plain = parse(COMPACTION).unwrap().hash();
    let commented = COMPACTION.replace("max = 60", "# at most\nmax   =   60");
    assert_eq!(parse(&commented).unwrap().hash(), plain);
    for (from, to) in [
        ("max = 60", "max = 61"),
        ("0.25%", "0.5%"),
        ("compact = \"boot\"", "compact = \"auto\""),
        ("requests = 6000", "requests = 6001"),
        ("\"30s\"", "\"31s\""),
        ("\"+5%\"", "\"+6%\""),
        ("--save", "--load"),
        ("[measure]", "[measure]\nsettle = \"1s\""),
        ("[measure]", "[measure]\nat_requests = [50]"),
        ("[trials]", "[trials]\nseed = 1"),
    ] {
        let changed = COMPACTION.replace(from, to);
        assert_ne!(changed, COMPACTION, "{from}");
        assert_ne!(parse(&changed).unwrap().hash(), plain, "{to}");
    }
}

#[test]
fn the_order_of_tables_and_keys_does_not_change_the_hash() {
    let hash = parse(COMPACTION).unwrap().hash();
    assert_eq!(parse(COMPACTION_REORDERED).unwrap().hash(), hash);
}

#[test]
fn the_canonical_form_is_versioned_and_its_keys_are_sorted() {
    let text = parse(COMPACTION).unwrap().canonical().to_string();
    assert!(text.contains("\"schema\":\"carat.plan/2\""), "{text}");
    assert!(text.starts_with("{\"about\":null,\"load\":{"), "{text}");
}
