//! A heap dump of any bytes is refused with a reason, or read; what is read has sums that agree, and no way in it has a character that
//! cannot be shown.

use carat_outside::need::MemoryGate;
use carat_outside::printable::is_printable;
use carat_outside::who::WhoRequest;
use carat_outside::who::dumped::read_dump;
use carat_report::speedscope;
use std::io::{self, BufRead, Cursor};

/// Fails where that does not hold.
pub(crate) fn check(input: &[u8]) {
    let open = || -> io::Result<Box<dyn BufRead>> { Ok(Box::new(Cursor::new(input.to_vec()))) };
    let dump = match read_dump(&open, Some(input.len() as u64), &MemoryGate::default()) {
        Ok(dump) => dump,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let classes = dump.classes();
    assert_eq!(classes.iter().map(|class| class.objects).sum::<u64>(), dump.objects());
    let unreached: u64 = classes.iter().map(|class| class.unreached_objects).sum();
    let one = classes.first().map(|class| class.name.clone());
    for classes in [Vec::new(), one.into_iter().collect()] {
        match dump.who(&WhoRequest { classes, holders: true, kept: true }) {
            Ok(who) => {
                assert_eq!(who.garbage_objects, Some(unreached));
                assert_eq!(who.reached_objects + who.unreached_objects, dump.objects());
                let ways = who.classes.iter().flat_map(|class| &class.ways);
                for text in ways.map(|counted| counted.way.to_string()) {
                    assert!(text.chars().all(is_printable), "{text:?}");
                }
                for holder in &who.holders {
                    assert!(holder.objects <= who.reached_objects, "{holder:?}");
                }
                let kept = who.kept.expect("it was asked for");
                assert!(kept.all.objects <= who.reached_objects, "{:?}", kept.all);
                assert!(speedscope(&[("x".to_owned(), &kept)]).contains("sampled"));
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
