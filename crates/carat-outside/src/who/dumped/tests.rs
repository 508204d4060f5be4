//! Dumps of all sorts.

use super::{DumpFileError, HeapDump, is_dump_line, read_dump};
use crate::need::{MemoryGate, NeedPart};
use crate::who::{WhoCensus, WhoRequest, WhoUnknown};
use std::io::{self, BufRead, Cursor};

/// A class `Cache` that keeps a hash of posts, and a post that nothing keeps; as `carat heap-dump` writes it.
const NAMED: &str = r#"{"type":"ROOT", "root":"vm", "references":["0x1000", "0x1100"]}
{"type":"ROOT", "root":"global variable $kept", "references":["0x5000"]}
{"address":"0x1000", "type":"CLASS", "name":"Object", "memsize":500, "flags":{"old":true}}
{"address":"0x1100", "type":"CLASS", "name":"Cache", "superclass":"0x1000", "references":["0x1000", "0x2000"], "reference_names":[null, "@store"], "memsize":500}
{"address":"0x1200", "type":"CLASS", "name":"Post", "superclass":"0x1000", "references":["0x1000"], "memsize":500}
{"address":"0x1300", "type":"CLASS", "name":"Hash", "references":["0x1000"], "memsize":500}
{"address":"0x1400", "type":"CLASS", "superclass":"0x1200", "references":["0x1200"], "memsize":100}
{"address":"0x2000", "type":"HASH", "class":"0x1300", "size":3, "references":["0x3000", "0x3028", "0x3050"], "memsize":192, "flags":{"old":true}}
{"address":"0x3000", "type":"OBJECT", "class":"0x1200", "ivars":1, "references":["0x4000"], "reference_names":["@text"], "memsize":40, "flags":{"old":true}}
{"address":"0x3028", "type":"OBJECT", "class":"0x1200", "memsize":40, "flags":{"old":true}}
{"address":"0x3050", "type":"OBJECT", "class":"0x1200", "memsize":40, "flags":{"old":true}}
{"address":"0x3078", "type":"OBJECT", "class":"0x1200", "memsize":40}
{"address":"0x4000", "type":"STRING", "memsize":4000, "flags":{"old":true}}
{"address":"0x5000", "type":"OBJECT", "class":"0x1400", "references":["0x6000"], "memsize":40}
{"address":"0x6000", "type":"IMEMO", "imemo_type":"env", "code":{"label":"subscribe", "path":"/app/a.rb", "line":7}, "memsize":80}
"#;

fn read(text: &str) -> Result<HeapDump, DumpFileError> {
    let open = || -> io::Result<Box<dyn BufRead>> { Ok(Box::new(Cursor::new(text.to_owned()))) };
    read_dump(&open, Some(text.len() as u64), &MemoryGate::default())
}

fn who(dump: &HeapDump, class: Option<&str>) -> WhoCensus {
    dump.who(&WhoRequest {
        classes: class.map(str::to_owned).into_iter().collect(),
        kept: true,
        ..WhoRequest::default()
    })
    .unwrap()
}

#[test]
fn a_dump_says_by_name_who_keeps_a_class_and_what_would_go_without_it() {
    let dump = read(NAMED).unwrap();
    assert_eq!((dump.objects(), dump.bytes(), dump.left_out().len()), (13, 6572, 0));
    let found = who(&dump, Some("Post"));
    let class = &found.classes[0];
    assert_eq!((class.objects, class.old_objects, class.garbage_objects), (4, 3, Some(1)));
    assert_eq!(class.ways[0].way.to_string(), "Post ← Hash (3 entries) ← @store of Cache");
    let holder = class.holder.as_ref().unwrap();
    // The hash and its class, three posts, and the text of one.
    assert_eq!(
        (holder.objects, holder.bytes, holder.of_class),
        (6, 192 + 500 + 120 + 4000, Some(3))
    );
    let kept = found.kept.unwrap();
    assert!(kept.nodes.iter().any(|node| node.by.to_string() == "@store of Cache"));
    assert!(found.unnamed.is_empty());
}

/// A list of a thousand nodes, each with a text, that a global variable keeps by its head.
fn list() -> String {
    let mut text = "{\"type\":\"ROOT\", \"root\":\"global variable $list\", \"references\":[\"0x10000\"]}\n\
                    {\"address\":\"0x1000\", \"type\":\"CLASS\", \"name\":\"Node\", \"memsize\":500}\n"
        .to_owned();
    for number in 0..1000_u64 {
        let (node, next, of) =
            (0x10000 + number * 40, 0x10028 + number * 40, 0x90000 + number * 40);
        let next = if number < 999 { format!("\"0x{next:x}\", ") } else { String::new() };
        text += &format!(
            "{{\"address\":\"0x{node:x}\", \"type\":\"OBJECT\", \"class\":\"0x1000\", \"references\":[{next}\"0x{of:x}\"], \"memsize\":40}}\n\
             {{\"address\":\"0x{of:x}\", \"type\":\"STRING\", \"memsize\":40}}\n"
        );
    }
    text
}

#[test]
fn the_head_of_a_list_keeps_all_of_it() {
    let dump = read(&list()).unwrap();
    let largest = who(&dump, None);
    let head = &largest.holders[0];
    assert_eq!(
        (head.objects, head.way.to_string().as_str()),
        (2001, "Node ← global variable $list")
    );
    let of_class = who(&dump, Some("Node")).classes.remove(0).holder.unwrap();
    assert_eq!(
        (of_class.of_class, of_class.way.to_string().as_str()),
        (Some(1000), "Node ← global variable $list")
    );
}

/// A list of a thousand arrays, each with a text and the rest of the list.
fn nested_arrays() -> String {
    list().replace("\"type\":\"OBJECT\"", "\"type\":\"ARRAY\"")
}

#[test]
fn of_arrays_in_arrays_one_that_keeps_most_of_the_outermost_is_named() {
    let largest = who(&read(&nested_arrays()).unwrap(), None);
    let objects: Vec<u64> = largest.holders.iter().map(|holder| holder.objects).collect();
    assert!(objects.len() == 1 && objects[0] >= 1600, "{objects:?}");
}

#[test]
fn a_line_with_a_size_beyond_any_process_is_no_line_of_an_object() {
    let text = NAMED.to_owned()
        + "{\"address\":\"0x7000\", \"type\":\"STRING\", \"memsize\":9223372036854775807}\n";
    let dump = read(&text).unwrap();
    assert_eq!((dump.objects(), dump.bytes()), (13, 6572));
    assert!(dump.left_out().join("\n").contains("not those of an object or a root: 1"));
}

#[test]
fn the_place_of_code_and_the_name_of_a_global_variable_are_those_of_the_dump() {
    let dump = read(NAMED).unwrap();
    let found = who(&dump, Some("(internal) imemo env"));
    let way = &found.classes[0].ways[0].way;
    assert_eq!(way.to_string(), "subscribe at a.rb:7 ← (anonymous < Post) ← global variable $kept");
}

#[test]
fn classes_are_counted_with_what_no_root_leads_to() {
    let dump = read(NAMED).unwrap();
    let classes = dump.classes();
    let post = classes.iter().find(|class| class.name == "Post").unwrap();
    assert_eq!(
        (post.objects, post.bytes, post.old_objects, post.unreached_objects),
        (4, 160, 3, 1)
    );
    assert!(classes.is_sorted_by(|one, two| one.bytes >= two.bytes));
}

#[test]
fn a_dump_without_names_of_references_says_so_and_still_has_the_ways() {
    let text = NAMED.replace("\"reference_names\"", "\"other\"");
    let found = who(&read(&text).unwrap(), Some("Post"));
    assert_eq!(found.classes[0].ways[0].way.to_string(), "Post ← Hash (3 entries) ← Cache");
    assert!(found.unnamed[0].contains("no names of references"), "{:?}", found.unnamed);
}

#[test]
fn what_is_damaged_or_cut_is_counted_and_said() {
    let mut text = NAMED.to_owned();
    text.insert_str(0, "{\"type\":\"SHAPE\", \"address\":\"0x9\"}\nnot json\n{\"address\":7}\n\n");
    text += "{\"address\":\"0x3000\", \"type\":\"STRING\", \"memsize\":1}\n";
    text += "{\"address\":\"0x7000\", \"type\":\"ARRAY\", \"references\":[\"0x7777\", \"x\"], \"memsize\":1}\n";
    text += "{\"address\":\"0x8000\", \"type\":\"ARR";
    let dump = read(&text).unwrap();
    assert_eq!(dump.objects(), 14);
    let said = dump.left_out().join("\n");
    for expected in [
        "the last line is not complete",
        "not those of an object or a root: 2",
        "there twice, of which the first counts: 1",
        "not in the dump: 2 of ",
    ] {
        assert!(said.contains(expected), "{expected:?} is not in\n{said}");
    }
    assert_eq!(who(&dump, None).unnamed, dump.left_out());
}

#[test]
fn a_dump_that_was_cut_between_two_lines_is_known_by_the_objects_that_it_lacks() {
    let part = "only a part of the heap, and objects are missing";
    let all = read(NAMED).unwrap().left_out().join("\n");
    assert!(!all.contains(part), "{all}");
    let lines: Vec<_> = NAMED.split_inclusive('\n').collect();
    let half = lines[..lines.len() / 2].concat();
    let said = read(&half).unwrap().left_out().join("\n");
    assert!(said.contains(part) && !said.contains("last line"), "{said}");
}

#[test]
fn what_is_no_dump_or_has_no_roots_is_refused() {
    assert!(matches!(read(""), Err(DumpFileError::NoObject)));
    assert!(matches!(read("{}\n[]\nhello\n"), Err(DumpFileError::NoObject)));
    let without: String = NAMED
        .lines()
        .filter(|line| !line.contains("ROOT"))
        .map(|line| format!("{line}\n"))
        .collect();
    let dump = read(&without).unwrap();
    assert!(matches!(dump.who(&WhoRequest::default()), Err(WhoUnknown::NoRoots)));
    let none = read(NAMED)
        .unwrap()
        .who(&WhoRequest { classes: vec!["Psot".into()], ..WhoRequest::default() });
    assert!(matches!(none, Err(WhoUnknown::NoClass(_))));
    assert!(is_dump_line(NAMED.lines().next().unwrap().as_bytes()));
    for other in ["", "{}", "{\"type\":\"header\"}", "[1]", "{\"address\":\"0x1\"}"] {
        assert!(!is_dump_line(other.as_bytes()), "{other}");
    }
}

#[test]
fn a_dump_for_which_there_is_no_room_is_refused_before_it_is_read() {
    let open = || -> io::Result<Box<dyn BufRead>> { panic!("it was opened") };
    let room = MemoryGate::new(|need| {
        assert_eq!(need.part, NeedPart::Dump);
        Err(format!("{} bytes", need.bytes))
    });
    let refused = read_dump(&open, Some(20 << 30), &room);
    let Err(DumpFileError::NoRoom(reason)) = refused else { panic!("it was read") };
    let bytes: u64 = reason.trim_end_matches(" bytes").parse().unwrap();
    assert!((4 << 30..30 << 30).contains(&bytes), "{bytes}");
}

#[test]
fn a_dump_that_changes_between_both_readings_is_refused_or_read_without_a_panic() {
    let readings = std::cell::Cell::new(0);
    let open = || -> io::Result<Box<dyn BufRead>> {
        readings.set(readings.get() + 1);
        let more: String = (0..4000).map(|_| "\"0x3028\", ").collect();
        let grown = NAMED
            .replace("\"references\":[\"0x4000\"", &format!("\"references\":[{more}\"0x4000\""));
        let text = if readings.get() == 1 { NAMED.to_owned() } else { grown };
        Ok(Box::new(Cursor::new(text)))
    };
    let found = read_dump(&open, None, &MemoryGate::default());
    assert!(matches!(found, Err(DumpFileError::Changed)));
}
