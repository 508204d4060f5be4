//! Samples of what real Rubies allocate where.

use crate::needs::TestRuby;
use crate::probe_ruby::{Bench, Ruby};
use crate::support::Folder;
use carat::store;
use carat_analysis::allocation_profile;
use carat_model::{AllocationProfile, AllocationSite};
use carat_ruby::RubyVersion;
use carat_ruby::version::SLOT_SIZES;
use carat_stats::share::share_interval;
use carat_wire::page::{AllocationReading, Allocations, Feature, FeatureState};
use std::fs;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(600);

/// Three small objects in line 5 and a string of 100 bytes in line 6, again and again.
const PLANT: &str = "class Small; end
LETTER = 'x'.freeze
def plant(n)
  while n > 0
    Small.new; Small.new; Small.new
    LETTER * 100
    n -= 1
  end
end
";

/// A Ruby that has the plant.
fn planted(bench: &Bench, version: TestRuby) -> Ruby<'_> {
    let mut ruby = bench.start(version.command(None));
    // As text, because a Ruby in another root sees no file of this one.
    ruby.eval(&format!("eval({PLANT:?}, TOPLEVEL_BINDING, '/app/plant.rb')"));
    ruby
}

fn sampled(bench: &Bench, pid: u32) -> AllocationReading {
    bench.ask(pid);
    bench.page(pid).read_allocations().unwrap()
}

fn state(bench: &Bench, pid: u32) -> FeatureState {
    let features = bench.ask(pid).features;
    features.into_iter().find(|(feature, _)| *feature == Feature::Allocations).unwrap().1
}

fn site<'a>(profile: &'a AllocationProfile, class: &str) -> &'a AllocationSite {
    let mut sites = profile.sites.iter().filter(|site| site.class == class);
    sites.next().unwrap_or_else(|| panic!("no {class} in {profile:?}"))
}

#[test]
fn classes_and_lines_are_sampled_by_their_bytes_and_only_while_that_is_requested(
    version: TestRuby,
) {
    let bench = Bench::new();
    let mut ruby = planted(&bench, version);
    ruby.eval("plant(10_000)");
    assert_eq!(sampled(&bench, ruby.pid).sites, []);
    assert!(bench.page(ruby.pid).request_allocations(LONG));
    assert_eq!(state(&bench, ruby.pid), FeatureState::On, "{version:?}");
    ruby.eval("plant(600_000)");
    let reading = sampled(&bench, ruby.pid);
    let profile = allocation_profile(std::slice::from_ref(&reading)).unwrap();
    let number = RubyVersion::find_in(&bench.ask(ruby.pid).ruby).unwrap();
    // From 3.2 on the string fills a slot of 160 bytes.
    let string = if SLOT_SIZES.contains(number) { 160.0 } else { 40.0 };
    let bytes = 600_000.0 * (string + 120.0);
    let expected = bytes / profile.every.0 as f64;
    let off = (profile.samples as f64 - expected) / expected.sqrt();
    assert!(off.abs() < 5.0, "{} samples for {expected} in {version:?}", profile.samples);
    for (class, line, share) in
        [("String", 6, string / (string + 120.0)), ("Small", 5, 120.0 / (string + 120.0))]
    {
        let found = site(&profile, class);
        assert_eq!(found.line, Some(line), "{found:?} in {version:?}");
        assert_eq!(found.path.as_deref(), Some("/app/plant.rb"), "{found:?}");
        // So wide that of a million runs of this test less than one fails by chance.
        let (low, high) = share_interval(found.samples, profile.samples, 0.999_999_9);
        assert!((low - 0.01..high + 0.01).contains(&share), "{found:?}, {share} in {version:?}");
        assert!(found.interval.0 < found.share && found.share < found.interval.1);
    }
    assert!(profile.objects >= 2_400_000 && profile.objects < 2_500_000, "{profile:?}");
    // A busy machine may not tell what a hook of some nanoseconds adds.
    assert!(profile.cost.object_ns.is_none_or(|added| added > 0.0), "{profile:?}");
    assert!(profile.cost.share.is_none_or(|share| share > 0.0 && share < 1.0), "{profile:?}");
    assert!(profile.cost.sample_ns > 0.0 && profile.seconds > 0.0, "{profile:?}");
    bench.page(ruby.pid).request_allocations(Duration::ZERO);
    bench.ask(ruby.pid);
    let ended = sampled(&bench, ruby.pid);
    assert!(ended.words.get(Allocations::EndedNs).is_some(), "{ended:?}");
    ruby.eval("plant(100_000)");
    assert_eq!(sampled(&bench, ruby.pid), ended, "{version:?}");
    // At the end of a recording it is requested also where the time was over before.
    bench.page(ruby.pid).request_allocations(Duration::ZERO);
    bench.ask(ruby.pid);
    assert_eq!(sampled(&bench, ruby.pid), ended, "{version:?}");
    assert_eq!(ruby.end(), "", "{version:?}");
}

#[test]
fn sampling_itself_allocates_no_object(version: TestRuby) {
    let bench = Bench::new();
    let mut ruby = planted(&bench, version);
    let count = "GC.disable; b = GC.stat(:total_allocated_objects); plant(100_000); \
                 GC.stat(:total_allocated_objects) - b";
    let without: i64 = ruby.eval(count).parse().unwrap();
    ruby.eval("GC.enable; GC.start");
    bench.page(ruby.pid).request_allocations(LONG);
    assert_eq!(state(&bench, ruby.pid), FeatureState::On);
    let with: i64 = ruby.eval(count).parse().unwrap();
    let samples = sampled(&bench, ruby.pid).words.get(Allocations::Samples).unwrap();
    assert!(samples > 10, "{samples} in {version:?}");
    // A reading of the probe may fall between the two counts; it makes some objects of its own.
    assert!((with - without).abs() < 100, "{with} objects for {without} in {version:?}");
    assert_eq!(ruby.end(), "", "{version:?}");
}

#[test]
fn a_forked_child_goes_on_sampling_into_its_own_page(version: TestRuby) {
    let bench = Bench::new();
    let mut ruby = planted(&bench, version);
    bench.page(ruby.pid).request_allocations(LONG);
    assert_eq!(state(&bench, ruby.pid), FeatureState::On);
    let before = sampled(&bench, ruby.pid);
    let child: u32 = ruby
        .eval(
            "$r, $w = IO.pipe; $c = fork { $stdin.close; plant(100_000); $w.puts 1; sleep }; \
             $r.gets; $c",
        )
        .parse()
        .unwrap();
    let own = sampled(&bench, child);
    let profile = allocation_profile(std::slice::from_ref(&own)).unwrap();
    assert!(profile.samples > 10, "{profile:?} in {version:?}");
    assert_eq!(site(&profile, "Small").line, Some(5));
    assert!((400_000..420_000).contains(&profile.objects), "{profile:?} in {version:?}");
    let after = sampled(&bench, ruby.pid);
    assert!(after.sites.iter().all(|site| site.class != "Small"), "{before:?} {after:?}");
    bench.page(child).request_allocations(Duration::ZERO);
    bench.ask(child);
    assert!(sampled(&bench, child).words.get(Allocations::EndedNs).is_some());
    assert_eq!(sampled(&bench, ruby.pid).words.get(Allocations::EndedNs), None);
    ruby.eval("Process.kill('KILL', $c); Process.wait($c)");
    assert_eq!(ruby.end(), "", "{version:?}");
}

/// Starts itself again, as `bundle exec` does, and then allocates in a worker.
const SERVER: &str = "
    (sleep 1.5; exec('ruby', __FILE__, 'again')) if ARGV.empty?
    class Report; end
    fork { loop { 10_000.times { Report.new }; sleep 0.01 } }
    sleep
";

#[test]
fn a_recording_names_the_lines_that_allocate_and_the_cost_of_knowing_them() {
    require!(Ruby);
    let folder = Folder::new("allocations");
    folder.write("server.rb", SERVER);
    let arguments = [
        "record",
        "--for",
        "8s",
        "--allocations",
        "4s",
        "-o",
        "r.jsonl",
        "--",
        "ruby",
        "server.rb",
    ];
    let started = Instant::now();
    let ran = folder.run(&arguments);
    ran.assert_code(0).assert_says("Allocated in ").assert_says("server.rb:4");
    ran.assert_says("sampling took ").assert_says("for each sample");
    let recording = store::recording::read(&folder.path("r.jsonl")).unwrap();
    let profile = recording.end.unwrap().allocations.unwrap();
    let report = site(&profile, "Report");
    assert!(report.samples > 10 && report.share > 0.5, "{profile:?}");
    // How much longer than requested it lasts depends on when a busy machine lets the probe end it.
    let most = started.elapsed().as_secs_f64();
    assert!(profile.seconds > 0.5 && profile.seconds < most, "{profile:?} within {most} s");
    let page = fs::read_to_string(folder.path("r.html")).unwrap();
    assert!(page.contains("Where it allocates") && page.contains("server.rb:4"), "{page}");
    folder.assert_nothing_left();
}

#[test]
fn where_no_probe_is_a_recording_says_that_nothing_was_sampled() {
    let folder = Folder::new("unsampled");
    let ran = folder.run(&[
        "record",
        "--for",
        "1s",
        "--allocations",
        "1s",
        "--no-look",
        "--",
        "sleep",
        "9",
    ]);
    ran.assert_code(0).assert_says("no allocations were sampled: no process had carat's probe");
}
