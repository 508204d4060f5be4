use super::*;
use carat_model::Bytes;
use carat_model::host::{ProcessRole, ServerName};
use carat_model::ledger::PartKind;
use carat_model::watch::{
    CensusReason, EndCause, GroupSample, LastWords, ProcessEnd, WatchCensus, WatchEvent,
    WatchSample, WatchedClass, WatchedProcess,
};

const DAY_MS: u64 = 24 * 3_600_000;

fn process(number: i64) -> WatchedProcess {
    let server = ServerName { program: "puma".into(), version: Some("6.6".into()), app: None };
    WatchedProcess {
        number,
        pid: 4_000 + u32::try_from(number).unwrap(),
        start_ticks: 77,
        tree: 4_000,
        server,
        role: ProcessRole::Worker,
        worker: Some(1),
        title: "puma: cluster worker 1".into(),
        group: Some("/app".into()),
        first_ms: 5,
        ..WatchedProcess::default()
    }
}

fn sample(at_ms: u64, rss: u64) -> WatchSample {
    WatchSample { at_ms, rss: Some(Bytes(rss)), ..WatchSample::default() }
}

fn census(at_ms: u64) -> WatchCensus {
    let class = WatchedClass { name: "String".into(), objects: at_ms, ..WatchedClass::default() };
    WatchCensus {
        at_ms,
        reason: CensusReason::Hourly,
        pss: Some(Bytes(9)),
        parts: vec![(PartKind::MallocLive, Bytes(7))],
        objects: Some(3),
        classes: vec![class],
        cpu_seconds: 0.25,
        ..WatchCensus::default()
    }
}

fn opened() -> (tempfile::TempDir, PathBuf, WatchStore) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sub/watch.db");
    let store = WatchStore::open(&path, 1).unwrap();
    (folder, path, store)
}

/// The last words of processes 2 and 1, which have ended, from their readings.
fn words_of_two(store: &mut WatchStore, censuses: Vec<(i64, WatchCensus)>) -> [LastWords; 2] {
    let end = ProcessEnd { at_ms: 60, cause: EndCause::Unknown, evidence: Vec::new() };
    let ended = |number| WatchedProcess { end: Some(end.clone()), ..process(number) };
    let processes = vec![ended(1), ended(2)];
    store.write(&Batch { at_ms: 60, processes, censuses, ..Batch::default() }).unwrap();
    store.last_words(5).unwrap().try_into().unwrap()
}

#[test]
fn a_reading_of_which_everything_was_refused_is_compared_with_nothing() {
    let (_folder, _, mut store) = opened();
    let refused = |at_ms| WatchCensus {
        at_ms,
        unknown: vec!["it belongs to another user".into()],
        ..WatchCensus::default()
    };
    let [never, once] = words_of_two(
        &mut store,
        vec![
            (1, refused(10)),
            (1, census(20)),
            (1, census(30)),
            (1, refused(40)),
            (1, refused(50)),
            (2, refused(10)),
            (2, refused(20)),
        ],
    );
    let later = vec!["a later reading: it belongs to another user".to_owned()];
    let last = WatchCensus { unknown: later, ..census(30) };
    assert_eq!((once.earlier, once.last), (Some(census(20)), Some(last)));
    assert_eq!((never.earlier, never.last), (None, Some(refused(20))));
}

#[test]
fn what_is_written_is_read_back_also_while_it_is_being_written() {
    let (_folder, path, mut store) = opened();
    let group =
        GroupSample { group: "/app".into(), at_ms: 20, oom_kills: Some(1), ..Default::default() };
    let event = WatchEvent { at_ms: 20, process: Some(1), text: "grew".into() };
    let batch = Batch {
        at_ms: 20,
        boot: Some("b".into()),
        processes: vec![process(1)],
        samples: vec![(1, sample(10, 100)), (1, sample(20, 200))],
        groups: vec![group.clone()],
        censuses: vec![(1, census(11)), (1, census(19))],
        events: vec![event.clone()],
    };
    store.write(&batch).unwrap();
    let reader = WatchStore::open_to_read(&path).unwrap();
    assert_eq!(reader.processes(Period::ALWAYS).unwrap(), [process(1)]);
    let samples = reader.samples(1, Period { from_ms: 15, to_ms: 99 }).unwrap();
    assert_eq!(samples, [sample(20, 200)]);
    assert_eq!(reader.censuses(1).unwrap(), [census(11), census(19)]);
    assert_eq!(reader.events(Period::ALWAYS).unwrap(), [event]);
    assert_eq!((reader.alive_ms().unwrap(), reader.next_number().unwrap()), (Some(20), 2));
    assert_eq!(reader.unfinished(Some("b")).unwrap(), [(process(1), true)]);
    assert_eq!(reader.unfinished(Some("c")).unwrap(), [(process(1), false)]);
    assert!(reader.last_words(5).unwrap().is_empty());
    // Of the round that noticed the end.
    let after = GroupSample { at_ms: 25, oom_kills: Some(2), ..group.clone() };
    store.write(&Batch { groups: vec![after], ..Batch::default() }).unwrap();
    let end = ProcessEnd { at_ms: 25, cause: EndCause::Oom, evidence: vec!["so".into()] };
    let ended = WatchedProcess { end: Some(end), ..process(1) };
    store.write(&Batch { processes: vec![ended.clone()], ..Batch::default() }).unwrap();
    let words = reader.last_words(5).unwrap();
    assert_eq!((&words[0].process, words[0].samples.len()), (&ended, 2));
    assert_eq!((words[0].group.clone(), words[0].last.clone()), (Some(group), Some(census(19))));
    assert_eq!(words[0].earlier, Some(census(11)));
}

#[test]
fn what_a_group_had_used_at_another_time_is_not_what_it_had_at_the_last_sample_of_a_process() {
    let (_folder, path, mut store) = opened();
    let reader = WatchStore::open_to_read(&path).unwrap();
    let end = ProcessEnd { at_ms: 60, cause: EndCause::Unknown, evidence: Vec::new() };
    let group = |at_ms| GroupSample { group: "/app".into(), at_ms, ..GroupSample::default() };
    let mut write = |number, last_ms, groups| {
        let processes = vec![WatchedProcess { end: Some(end.clone()), ..process(number) }];
        let samples = vec![(number, sample(last_ms, 100))];
        store.write(&Batch { at_ms: 60, processes, samples, groups, ..Batch::default() }).unwrap();
        reader.last_words(1).unwrap().remove(0).group
    };
    // That of its round was thinned out.
    assert_eq!(write(1, 50, vec![group(40)]), None);
    assert_eq!(write(2, 55, vec![group(55)]), Some(group(55)));
}

#[test]
fn a_second_watch_is_refused_with_the_pid_of_the_first_and_a_reader_is_not() {
    let (_folder, path, store) = opened();
    let error = WatchStore::open(&path, 2).unwrap_err().to_string();
    assert!(error.contains(&format!("pid {};", std::process::id())), "{error}");
    WatchStore::open_to_read(&path).unwrap();
    drop(store);
    WatchStore::open(&path, 3).unwrap();
}

#[test]
fn a_newer_format_and_another_programs_file_are_refused_and_unchanged() {
    let (folder, path, store) = opened();
    store.connection.pragma_update(None, "user_version", format::FORMAT + 1).unwrap();
    drop(store);
    let error = WatchStore::open(&path, 2).unwrap_err().to_string();
    assert!(error.contains("newer carat (format 2, this one reads up to 1)"), "{error}");
    let photo = folder.path().join("photo.jpg");
    std::fs::write(&photo, "a photo".repeat(99)).unwrap();
    let database = folder.path().join("other.db");
    Connection::open(&database).unwrap().execute_batch("CREATE TABLE a (b)").unwrap();
    for other in [photo, database] {
        let before = std::fs::read(&other).unwrap();
        let error = WatchStore::open(&other, 2).unwrap_err();
        assert!(matches!(error, WatchStoreError::Foreign(_)), "{error}");
        assert!(!is_watch_store(&other));
        assert_eq!(std::fs::read(&other).unwrap(), before);
    }
    // Opening a named pipe would wait for its other end.
    let pipe = folder.path().join("pipe.db");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    assert!(!is_watch_store(&pipe));
    assert!(matches!(WatchStore::open(&pipe, 2), Err(WatchStoreError::Foreign(_))));
    let names = std::fs::read_dir(folder.path()).unwrap();
    let locks = names.filter(|name| {
        let name = name.as_ref().unwrap().file_name();
        name.to_string_lossy().ends_with("-lock")
    });
    let locks: Vec<_> = locks.map(|name| name.unwrap().file_name()).collect();
    assert!(
        !locks.contains(&"pipe.db-lock".into()) && !locks.contains(&"photo.jpg-lock".into()),
        "{locks:?}"
    );
    let missing = WatchStore::open_to_read(&folder.path().join("none")).unwrap_err();
    assert!(matches!(missing, WatchStoreError::Missing(_)));
}

#[test]
fn a_store_with_a_table_that_carat_did_not_make_is_another_programs() {
    let (_folder, path, store) = opened();
    store.connection.execute_batch("CREATE VIEW v AS SELECT 1").unwrap();
    drop(store);
    assert!(matches!(WatchStore::open_to_read(&path), Err(WatchStoreError::Foreign(_))));
}

#[test]
fn a_torn_store_is_moved_aside_and_another_one_is_begun() {
    for torn in [vec![0; 8192], {
        let (_folder, path, mut store) = opened();
        store.write(&Batch { processes: vec![process(1)], ..Batch::default() }).unwrap();
        store.thin(StoreBounds::default(), 9).unwrap();
        drop(store);
        let mut bytes = std::fs::read(&path).unwrap();
        let end = bytes.len();
        bytes[4096..end].fill(0x5a);
        bytes
    }] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("watch.db");
        std::fs::write(&path, &torn).unwrap();
        let store = WatchStore::open(&path, 123).unwrap();
        let moved = store.moved().unwrap();
        assert!(moved.to_string_lossy().ends_with("watch.db.damaged-123"), "{moved:?}");
        assert_eq!(std::fs::read(moved).unwrap(), torn);
        assert!(store.processes(Period::ALWAYS).unwrap().is_empty());
    }
}

#[test]
fn a_store_that_is_found_to_be_damaged_while_it_is_used_is_begun_anew() {
    let (_folder, path, mut store) = opened();
    store.write(&Batch { processes: vec![process(1)], ..Batch::default() }).unwrap();
    store.begin_anew(77).unwrap();
    store.write(&Batch { processes: vec![process(2)], ..Batch::default() }).unwrap();
    assert_eq!(store.processes(Period::ALWAYS).unwrap(), [process(2)]);
    let moved = store.moved().unwrap().to_owned();
    assert_eq!(
        WatchStore::open_to_read(&moved).unwrap().processes(Period::ALWAYS).unwrap().len(),
        1
    );
    assert!(path.exists());
}

#[test]
fn a_folder_that_cannot_be_written_to_is_read_all_the_same() {
    let (folder, path, mut store) = opened();
    store.write(&Batch { processes: vec![process(1)], ..Batch::default() }).unwrap();
    drop(store);
    // Without a log beside it, as after a clean end; SQLite is told that nothing changes.
    assert!(!beside(&path, "-wal").exists());
    let odd = folder.path().join("a b?#%.db");
    std::fs::rename(&path, &odd).unwrap();
    let connection = Connection::open_with_flags(
        immutable(&odd),
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI,
    );
    let count: i64 = connection
        .unwrap()
        .query_row("SELECT count(*) FROM process", [], |row| row.get(0))
        .unwrap();
    assert_eq!(count, 1);
}

#[test]
fn of_thousands_that_ended_while_the_disk_was_full_the_oldest_go_with_their_samples() {
    let (_folder, _path, mut store) = opened();
    let end = ProcessEnd { at_ms: 30, cause: EndCause::Unknown, evidence: Vec::new() };
    let mut batch = Batch::default();
    for number in 1..=50 {
        batch.processes.push(process(number));
        batch.samples.push((number, sample(1, 1)));
        if number < 50 {
            batch.processes.push(WatchedProcess { end: Some(end.clone()), ..process(number) });
        }
    }
    batch.shorten(200);
    store.write(&batch).unwrap();
    let left: Vec<i64> =
        store.processes(Period::ALWAYS).unwrap().iter().map(|one| one.number).collect();
    assert_eq!(left, (40..=50).collect::<Vec<i64>>());
    assert_eq!(store.samples(50, Period::ALWAYS).unwrap().len(), 1);
}

/// Weeks of one process with a peak an hour, in steps of ten seconds.
fn weeks(store: &mut WatchStore, days: u64, bounds: StoreBounds) -> u64 {
    // Thousands of commits need not reach the disk here.
    store.connection.pragma_update(None, "synchronous", "OFF").unwrap();
    store.write(&Batch { processes: vec![process(1)], ..Batch::default() }).unwrap();
    let mut largest = 0;
    for quarter in 0..days * 96 {
        let start = quarter * 900_000;
        let samples = (0..90_u64).map(|n| {
            let peak = quarter % 4 == 1 && n == 13;
            (1, sample(start + n * 10_000, if peak { 900 } else { 100 + n % 7 }))
        });
        let batch = Batch {
            samples: samples.collect(),
            censuses: vec![(1, census(start))],
            ..Batch::default()
        };
        store.write(&batch).unwrap();
        if quarter % 4 == 3 {
            largest = largest.max(store.thin(bounds, start + 900_000).unwrap());
        }
    }
    largest
}

#[test]
fn of_a_minute_the_sample_with_most_in_memory_and_in_swap_stays() {
    let (_folder, _path, mut store) = opened();
    let swapped = WatchSample { swap: Some(Bytes(700)), ..sample(20_000, 300) };
    let samples = vec![(1, sample(10_000, 900)), (1, swapped), (1, sample(DAY_MS, 5))];
    store.write(&Batch { processes: vec![process(1)], samples, ..Batch::default() }).unwrap();
    store.thin(StoreBounds::default(), DAY_MS).unwrap();
    let left = store.samples(1, Period::ALWAYS).unwrap();
    assert_eq!(left.iter().map(|one| one.at_ms).collect::<Vec<_>>(), [20_000, DAY_MS]);
}

#[test]
fn after_weeks_seconds_have_become_minutes_and_hours_and_every_peak_is_left() {
    let (_folder, _path, mut store) = opened();
    weeks(&mut store, 10, StoreBounds::default());
    let now = 10 * DAY_MS;
    let of = |from_ms, to_ms| store.samples(1, Period { from_ms, to_ms: to_ms - 1 }).unwrap();
    assert_eq!(of(now - 3_600_000, now).len(), 360);
    assert_eq!(of(now - DAY_MS, now - DAY_MS + 3_600_000).len(), 60);
    let hour = of(now - 6 * DAY_MS, now - 6 * DAY_MS + 3_600_000);
    assert_eq!(hour.iter().map(|one| one.rss).collect::<Vec<_>>(), [Some(Bytes(900))]);
    assert!(of(0, now - 8 * DAY_MS).is_empty());
    let censuses = store.censuses(1).unwrap();
    assert!((30..90).contains(&censuses.len()), "{}", censuses.len());
}

#[test]
fn the_log_beside_a_store_stays_small_also_in_one_that_is_opened_again() {
    let (_folder, path, store) = opened();
    drop(store);
    let mut store = WatchStore::open(&path, 2).unwrap();
    store.connection.pragma_update(None, "synchronous", "OFF").unwrap();
    store.write(&Batch { processes: (1..=30).map(process).collect(), ..Batch::default() }).unwrap();
    for round in 0..300 {
        // Each process has pages of its own.
        let samples = (1..=30).map(|number| (number, sample(round, 1)));
        store.write(&Batch { samples: samples.collect(), ..Batch::default() }).unwrap();
    }
    let log = std::fs::metadata(beside(&path, "-wal")).unwrap().len();
    assert!(log < 1_000_000, "{log}");
}

#[test]
fn however_small_the_limit_the_file_stays_below_it_and_the_newest_samples_are_left() {
    let (_folder, path, mut store) = opened();
    let bounds = StoreBounds { most: 300_000, ..StoreBounds::default() };
    let largest = weeks(&mut store, 8, bounds);
    assert!(largest <= bounds.most, "{largest}");
    assert!(std::fs::metadata(&path).unwrap().len() <= bounds.most);
    let samples = store.samples(1, Period::ALWAYS).unwrap();
    assert_eq!(samples.last().unwrap().at_ms, 8 * DAY_MS - 10_000);
    assert!(
        samples.first().unwrap().at_ms < 6 * DAY_MS,
        "the oldest are thinned before any is gone"
    );
}

#[test]
fn a_process_that_ended_before_the_time_that_is_kept_is_forgotten() {
    let (_folder, _path, mut store) = opened();
    let end = ProcessEnd { at_ms: 30, cause: EndCause::Unknown, evidence: Vec::new() };
    let ended = WatchedProcess { end: Some(end), ..process(1) };
    let batch = Batch {
        processes: vec![ended, process(2)],
        samples: vec![(1, sample(20, 1)), (2, sample(9 * DAY_MS, 1))],
        censuses: vec![(1, census(20)), (2, census(20))],
        ..Batch::default()
    };
    store.write(&batch).unwrap();
    store.thin(StoreBounds::default(), 9 * DAY_MS).unwrap();
    assert_eq!(store.processes(Period::ALWAYS).unwrap(), [process(2)]);
    assert_eq!(store.censuses(2).unwrap().len(), 1, "the last one of a process that runs");
}

#[test]
fn nothing_of_a_batch_is_written_without_room_and_all_of_it_afterwards() {
    let (_folder, _path, mut store) = opened();
    let pages = i64::try_from(store.size().unwrap() / 4096).unwrap();
    store.connection.pragma_update(None, "max_page_count", pages).unwrap();
    let samples: Vec<_> = (0..9_000).map(|n| (1, sample(n, n))).collect();
    let mut batch = Batch { processes: vec![process(1)], samples, ..Batch::default() };
    let error = store.write(&batch).unwrap_err();
    assert!(matches!(error, WatchStoreError::Unwritable { .. }), "{error}");
    assert!(error.to_string().contains("check the free space"), "{error}");
    assert!(store.processes(Period::ALWAYS).unwrap().is_empty());
    assert_eq!(batch.shorten(8_000), 1_000);
    store.connection.pragma_update(None, "max_page_count", 1_000_000).unwrap();
    store.write(&batch).unwrap();
    assert_eq!(store.samples(1, Period::ALWAYS).unwrap().len(), 8_000);
}

#[test]
fn a_store_that_was_moved_away_while_it_is_written_is_whole_and_another_one_is_begun() {
    let (_folder, path, mut store) = opened();
    store.write(&Batch { processes: vec![process(1)], ..Batch::default() }).unwrap();
    let moved = path.with_file_name("watch.db.1");
    std::fs::rename(&path, &moved).unwrap();
    let next = Batch { processes: vec![process(2)], ..Batch::default() };
    let error = store.write(&next).unwrap_err();
    assert!(error.is_lost(), "{error}");
    assert!(error.to_string().contains("was removed or moved while it was written"), "{error}");
    store.begin_anew(77).unwrap();
    assert_eq!(store.moved(), None);
    store.write(&next).unwrap();
    let of = |path: &Path| WatchStore::open_to_read(path).unwrap().processes(Period::ALWAYS);
    assert_eq!(of(&path).unwrap(), [process(2)]);
    assert_eq!(of(&moved).unwrap(), [process(1)], "what was in the log is in the file");
}

#[test]
fn a_store_of_which_the_folder_was_removed_is_begun_anew_with_a_lock_of_its_own() {
    let (_folder, path, mut store) = opened();
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
    assert!(store.write(&Batch::default()).unwrap_err().is_lost());
    store.begin_anew(77).unwrap();
    store.write(&Batch { processes: vec![process(2)], ..Batch::default() }).unwrap();
    assert!(matches!(WatchStore::open(&path, 78), Err(WatchStoreError::Busy { .. })));
}

#[test]
fn a_file_that_was_put_in_the_place_of_a_store_is_left_alone() {
    let (_folder, path, mut store) = opened();
    let other = path.with_file_name("other");
    drop(WatchStore::open(&other, 1).unwrap());
    std::fs::rename(&other, &path).unwrap();
    let before = std::fs::read(&path).unwrap();
    for _ in 0..2 {
        assert!(store.write(&Batch::default()).unwrap_err().is_lost());
        let error = store.begin_anew(77).unwrap_err().to_string();
        assert!(error.contains("another file is there now"), "{error}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
    std::fs::remove_file(&path).unwrap();
    store.begin_anew(78).unwrap();
    store.write(&Batch { processes: vec![process(2)], ..Batch::default() }).unwrap();
}

#[test]
fn a_store_of_which_the_beginning_is_overwritten_while_it_is_used_is_damaged_and_not_another_programs()
 {
    let (_folder, path, mut store) = opened();
    store.write(&Batch { processes: vec![process(1)], ..Batch::default() }).unwrap();
    store.make_room();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.fill(0x5a);
    // In place, as a failing disk does it.
    std::fs::write(&path, &bytes).unwrap();
    let error = store.thin(StoreBounds::default(), 9).unwrap_err();
    assert!(error.is_lost(), "{error}");
    store.begin_anew(77).unwrap();
    assert_eq!(std::fs::read(store.moved().unwrap()).unwrap(), bytes);
}

#[test]
fn damaged_stores_count_for_the_limit_and_the_oldest_goes_first() {
    let (_folder, path, mut store) = opened();
    store.write(&Batch { processes: vec![process(1)], ..Batch::default() }).unwrap();
    let damaged = |at: u64| beside(&path, &format!(".damaged-{at}"));
    for at in [9, 10, 77] {
        std::fs::write(damaged(at), vec![0; 400_000]).unwrap();
        std::fs::write(beside(&damaged(at), "-wal"), vec![0; 10_000]).unwrap();
    }
    let kept = beside(&path, ".damaged-10.keep");
    std::fs::write(&kept, vec![0; 400_000]).unwrap();
    let bounds = StoreBounds { most: 1_000_000, ..StoreBounds::default() };
    assert_eq!(store.forget_damaged(bounds), [damaged(9), damaged(10)]);
    assert!(!beside(&damaged(9), "-wal").exists() && damaged(77).exists() && kept.exists());
    assert!(store.forget_damaged(bounds).is_empty());
    store.thin(bounds, 9).unwrap();
    assert_eq!(store.processes(Period::ALWAYS).unwrap().len(), 1);
}

#[test]
fn a_reading_that_the_end_of_its_process_cut_off_hides_none_that_is_whole() {
    let (_folder, _, mut store) = opened();
    let cut = |at_ms| WatchCensus {
        pss: None,
        parts: Vec::new(),
        unknown: vec!["process 7 has ended".into()],
        ..census(at_ms)
    };
    let [alone, whole] = words_of_two(
        &mut store,
        vec![(1, census(10)), (1, census(20)), (1, cut(30)), (2, census(10)), (2, cut(20))],
    );
    let later = vec!["a later reading: process 7 has ended".to_owned()];
    let last = WatchCensus { unknown: later, ..census(20) };
    assert_eq!((whole.earlier, whole.last), (Some(census(10)), Some(last)));
    assert_eq!(alone.last, Some(cut(20)), "it is all that can be compared");
}
