//! Every mapping that the reader from outside parses from any `maps` has pages, and none overlaps another.

use carat_outside::memory::{PAGE, parse_regions};

/// Fails where that does not hold.
pub(crate) fn check(text: &[u8]) {
    let regions = parse_regions(text);
    assert!(regions.len() <= text.split(|byte| *byte == b'\n').count());
    for region in &regions {
        assert!(region.size() >= PAGE && region.size() % PAGE == 0);
        assert!(!region.file_name().contains('/'));
    }
    for pair in regions.windows(2) {
        assert!(pair[0].end <= pair[1].start);
    }
}
