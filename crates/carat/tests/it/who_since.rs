//! What keeps more objects alive than before: growth by holder between two readings, on planted leaks.

use crate::needs::TestRuby;
use crate::outside_ruby::OutsideRuby;
use crate::support::Folder;
use carat_analysis::{GrownKind, HolderGrowths, holder_growth};
use carat_outside::census::{Census, LookOptions};
use carat_outside::who::WhoRequest;
use serde_json::Value;

/// A class that keeps more and more, beside one that replaces what it keeps.
const LEAK: &str = "class Visit; def initialize(number); @title = \"a title that is too long for a slot: #{number}\"; end; end; \
    class Page; end; class Recent; @seen = []; @pages = {}; class << self; attr_reader :seen, :pages; end; end; \
    def serve(count); count.times { |number| Recent.seen << Visit.new(number); Recent.pages[number % 50] = Page.new }; 5.times { GC.start }; count; end; serve(1000)";
const GROWN: u64 = 400;

fn look(ruby: &OutsideRuby) -> Vec<Census> {
    let who = Some(WhoRequest { kept: true, ..WhoRequest::default() });
    vec![ruby.look(&LookOptions { who, ..LookOptions::default() })]
}

fn growth(before: &[Census], after: &[Census]) -> HolderGrowths {
    holder_growth(before, after).unwrap_or_else(|reason| panic!("{reason}"))
}

fn assert_leak(growths: &HolderGrowths, class: &str, grown: u64) {
    let first = &growths.grown[0];
    let by: Vec<String> = first.by.iter().map(ToString::to_string).collect();
    assert_eq!(by, ["an element of Array", "@seen of Recent"], "{:#?}", growths.grown);
    assert_eq!(first.classes[0].name, class);
    // Those that were added last may not be old yet, and a few of the first may have been young.
    let off = first.classes[0].grown.abs_diff(grown.into());
    assert!(off * 20 <= u128::from(grown), "{first:?}");
    assert!(first.kind == GrownKind::Data && first.bytes > 40 * i128::from(grown), "{first:?}");
}

#[test]
fn a_planted_leak_is_the_first_of_what_keeps_more_than_before(version: TestRuby) {
    let mut ruby = OutsideRuby::start(version);
    ruby.eval(LEAK);
    let before = look(&ruby);
    ruby.eval(&format!("serve({GROWN})"));
    let after = look(&ruby);
    assert_leak(&growth(&before, &after), "Visit", GROWN);
    let tree = after[0].who.as_ref().unwrap().kept.as_ref().unwrap();
    assert!(tree.nodes.len() <= 1200, "{}", tree.nodes.len());
    assert!(tree.all.objects >= tree.all.old_objects && tree.all.old_objects > 2000);
}

#[test]
fn two_processes_of_one_program_are_compared_by_name() {
    require!(Ruby);
    let start = |posts: u64| {
        let mut ruby = OutsideRuby::start(TestRuby::OnPath);
        ruby.eval(LEAK);
        ruby.eval(&format!("serve({posts})"));
        ruby
    };
    let (small, large) = (start(100), start(900));
    assert_leak(&growth(&look(&small), &look(&large)), "Visit", 800);
    let shrunk = growth(&look(&large), &look(&small));
    let names_visits = |one: &carat_analysis::HolderGrowth| {
        one.classes.iter().any(|c| c.name == "Visit" && c.grown > 0)
    };
    assert!(!shrunk.grown.iter().any(names_visits), "{:#?}", shrunk.grown);
}

#[test]
fn explain_and_diff_print_what_grew_since_an_earlier_reading() {
    require!(Ruby);
    let mut ruby = OutsideRuby::start(TestRuby::OnPath);
    ruby.eval(LEAK);
    let (folder, pid) = (Folder::new("who-since"), ruby.pid.to_string());
    let first = folder.run(&["explain", &pid, "--who", "--json"]);
    std::fs::write(folder.path("a.json"), &first.assert_code(0).out).unwrap();
    ruby.eval(&format!("serve({GROWN})"));
    let ran = folder.run(&["explain", &pid, "--who", "--since", "a.json"]);
    let second = ran.assert_code(0).out.lines().nth(1).unwrap_or_default();
    assert!(
        second.contains(" Visit, now 1,400")
            && second.ends_with(" ← an element of Array ← @seen of Recent"),
        "{}",
        ran.out
    );
    assert!(ran.out.starts_with("What keeps more old objects than in a.json:\n"), "{}", ran.out);
    let later = folder.run(&["explain", &pid, "--who", "--since", "a.json", "--json"]);
    let json: Value = serde_json::from_str(&later.assert_code(0).out).unwrap();
    assert_eq!(json["grown"]["grown"][0]["classes"][0]["name"], "Visit");
    std::fs::write(folder.path("b.json"), &later.out).unwrap();
    folder
        .run(&["diff", "a.json", "b.json"])
        .assert_code(0)
        .assert_says("← an element of Array ← @seen of Recent");
    let plain = folder.run(&["explain", &pid, "--json"]);
    std::fs::write(folder.path("plain.json"), &plain.assert_code(0).out).unwrap();
    let ran = folder.run(&["explain", &pid, "--who", "--since", "plain.json"]);
    ran.assert_code(1).assert_says("What keeps more than before is unknown: ");
    let ran = folder.run(&["explain", &pid, "--since", "a.json"]);
    ran.assert_code(2).assert_says("--who");
    let ran = folder.run(&["explain", &pid, "--who", "-o", "page.html"]);
    ran.assert_code(0);
    let page = std::fs::read_to_string(folder.path("page.html")).unwrap();
    assert!(page.contains("Who keeps it, by name") && page.contains("@seen"));
    assert!(!page.contains("a title that is too long"), "contents of strings are never printed");
    let ran = folder.run(&["explain", &pid, "--who", "-o", "shared.html", "--share"]);
    ran.assert_code(0);
    let page = std::fs::read_to_string(folder.path("shared.html")).unwrap();
    assert!(page.contains("Who keeps it, by name"));
    assert!(
        !page.contains("@seen") && !page.contains("Recent"),
        "names of the program in a shared page"
    );
}

#[test]
fn a_leak_planted_into_a_rails_app_is_the_first_of_what_keeps_more_than_before() {
    require!(Ruby, Puma, SqliteGem);
    let blog = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads/blog");
    let mut ruby = OutsideRuby::start(TestRuby::OnPath);
    ruby.eval(&format!(
        "Object.send(:remove_const, :Post); ENV['RAILS_ENV'] = 'production'; require '{blog}/database'; Database.prepare; require '{blog}/app'; BlogApp.initialize!; \
         require 'rack/mock'; REQUESTS = Rack::MockRequest.new(BlogApp); class Recent; @seen = []; class << self; attr_reader :seen; end; end; \
         def serve(count); count.times {{ Recent.seen << ::Post.newest.first; REQUESTS.get('/').status == 200 or raise 'no page' }}; 5.times {{ GC.start }}; count; end; serve(100)"
    ));
    let before = look(&ruby);
    ruby.eval("serve(200)");
    let after = look(&ruby);
    let growths = growth(&before, &after);
    assert_leak(&growths, "Post", 200);
    let (first, others) = growths.grown.split_first().unwrap();
    let data = others.iter().filter(|one| one.kind == GrownKind::Data);
    assert!(data.map(|one| one.bytes).all(|bytes| bytes * 5 < first.bytes), "{:#?}", growths.grown);
}
