//! What is unknown of a process of which a part is in swap: reading that would bring it back, which changes the process.

use crate::memory::{Memory, PAGE};
use crate::reach::ReachUnknown;

/// Why it is unknown what nobody keeps; `None` where nothing that is searched is in swap.
pub(crate) fn in_swap(memory: &dyn Memory) -> Option<ReachUnknown> {
    let pages: u64 = memory.regions().iter().map(|region| region.pages.swapped()).sum();
    (pages > 0).then_some(ReachUnknown::Swapped(pages * PAGE))
}

/// This reason, unless something is in swap, which is the better one.
pub(crate) fn or_in_swap(memory: &dyn Memory, reason: String) -> String {
    in_swap(memory).map_or(reason, |reason| reason.to_string())
}

#[cfg(test)]
mod tests {
    use crate::census::{Census, LookOptions, without_swapped};
    use crate::fake::FakeMemory;

    #[test]
    fn with_a_page_in_swap_only_who_keeps_what_can_be_told_and_all_else_says_why_not() {
        let all = LookOptions {
            classes: true,
            class: Some("Post".to_owned()),
            owners: true,
            reach: true,
            who: Some(crate::who::WhoRequest::default()),
            ..LookOptions::default()
        };
        for is_swapped in [false, true] {
            let mut memory = FakeMemory::default();
            memory.map_anonymous(0x1000, 0x9000);
            memory.write_word(0x2000, 7);
            if is_swapped {
                memory.swap_out(0x3000);
            }
            let mut census = Census::default();
            let told = without_swapped(&memory, &all, &mut census);
            let others = [told.classes, told.class.is_some(), told.owners, told.reach];
            assert_eq!((others, told.who.is_some()), ([!is_swapped; 4], true));
            let reasons = census.unknown.iter().map(|unknown| unknown.reason.as_str());
            let in_swap =
                reasons.filter(|reason| reason.starts_with("0.00 MB of its memory is in swap"));
            assert_eq!(in_swap.count(), if is_swapped { 4 } else { 0 });
        }
    }
}
