//! Every mapping parsed from any `maps` or `smaps` has addresses and a PSS share between 0 and 1.

use carat_proc::observe::parse_mappings;

/// Fails where that does not hold.
pub(crate) fn check(text: &[u8]) {
    let mappings = parse_mappings(text);
    assert!(mappings.len() <= text.split(|byte| *byte == b'\n').count());
    for mapping in mappings {
        assert!(mapping.size() > 0);
        assert!((0.0..=1.0).contains(&mapping.pss_per_shared_byte()));
    }
}
