//! Who keeps the objects of the largest class, as a row of the diagnosis.

use carat_model::{Bytes, counted, grouped};
use carat_outside::who::{ClassHolders, SoleHolder, WhoCensus};

/// Who keeps the objects of a class, as the end of a sentence that begins with it. Of a single object that keeps less than `least`
/// bytes nothing is said.
pub fn keeper(who: &WhoCensus, class: &str, least: Bytes) -> String {
    let of_class = who.classes.iter().find(|one| one.name == class);
    let garbage = of_class.map(garbage).unwrap_or_default();
    if let Some(text) = of_class.and_then(by_one_way) {
        return text + &garbage;
    }
    let ways = of_class.map(|_| "in many ways, none of them common; ").unwrap_or_default();
    // What a class has no common way for is often a part of something larger.
    match who.holders.first().filter(|holder| holder.bytes >= least.0) {
        Some(holder) => {
            let without = holder.way.common();
            format!("{ways}{} would go without {without}{garbage}", amount(holder))
        }
        None => format!("{ways}no single object keeps {least} or more{garbage}"),
    }
}

/// The objects of a class that nothing keeps, if they are a tenth of them: then the number of all says little.
fn garbage(class: &ClassHolders) -> String {
    let garbage = class.garbage_objects.unwrap_or(0);
    match garbage == 0 || garbage.saturating_mul(10) < class.objects {
        true => String::new(),
        false => format!("; {} more are garbage", grouped(garbage)),
    }
}

/// What keeps most objects of a class, if that is one way.
fn by_one_way(class: &ClassHolders) -> Option<String> {
    let first = class.ways.first()?;
    let reached = class.objects.saturating_sub(class.unreached_objects);
    // A way of fewer than half is not what keeps the class.
    if first.objects.saturating_mul(2) < reached {
        return None;
    }
    let way = first.way.common();
    let mut text =
        format!("{} of {} by {}", grouped(first.objects), grouped(reached), way.keeper());
    if let Some(holder) = &class.holder {
        let alone = holder.way.common();
        let nearest = way.steps.first().map(|step| &step.of);
        // The way has said how the nearest object is kept itself.
        let name = match nearest == Some(&alone.object)
            && (&alone.steps[..], &alone.root) == (&way.steps[1..], &way.root)
        {
            true => format!("that {}", alone.object),
            false => alone.to_string(),
        };
        text += &format!("; without {name} {} would go", amount(holder));
    }
    Some(text)
}

fn amount(holder: &SoleHolder) -> String {
    let objects = counted(&holder.objects, "object");
    format!("{} {objects} and {}", grouped(holder.objects), Bytes(holder.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use carat_outside::who::{CountedWay, Holder, Way, WayLink, WayRoot, WayStep};

    fn holder(name: &str, length: Option<u64>) -> Holder {
        Holder { name: name.into(), length, ..Holder::default() }
    }

    /// A way to an object of this class, through an array in a global variable.
    fn way(class: &str) -> Way {
        let link = WayLink::Element(Some(7));
        let steps = vec![WayStep { link, of: holder("Array", Some(20_000)) }];
        let root = Some(WayRoot::Global { name: "$cache".into() });
        Way { object: holder(class, None), steps, root }
    }

    fn array() -> SoleHolder {
        let root = Some(WayRoot::Global { name: "$cache".into() });
        let way = Way { object: holder("Array", Some(20_000)), steps: Vec::new(), root };
        SoleHolder { way, of_class: Some(19_990), objects: 40_001, bytes: 1_764_808 }
    }

    fn who(objects: u64, holder: Option<SoleHolder>) -> WhoCensus {
        let class = ClassHolders {
            name: "Visit".into(),
            objects: 21_000,
            unreached_objects: 1000,
            garbage_objects: Some(1000),
            ways: vec![CountedWay { objects, way: way("Visit") }],
            holder,
            ..ClassHolders::default()
        };
        WhoCensus { classes: vec![class], holders: vec![array()], ..WhoCensus::default() }
    }

    #[test]
    fn most_objects_of_a_class_are_kept_in_one_way_and_what_goes_without_the_nearest_is_said() {
        assert_eq!(
            keeper(&who(19_990, Some(array())), "Visit", Bytes(0)),
            "19,990 of 20,000 by an element of Array ← global variable $cache; without that Array 40,001 objects \
             and 1.76 MB would go"
        );
        let mut other = array();
        other.way.object = holder("Store", None);
        let text = keeper(&who(19_990, Some(other)), "Visit", Bytes(0));
        assert!(text.contains("; without Store ← global variable $cache 40,001 objects"), "{text}");
        let text = keeper(&who(19_990, None), "Visit", Bytes(0));
        assert!(text.ends_with("global variable $cache"), "{text}");
    }

    #[test]
    fn garbage_is_told_where_it_is_a_tenth_of_the_class() {
        let mut who = who(19_990, None);
        who.classes[0].objects = 120_000;
        who.classes[0].unreached_objects = 100_000;
        who.classes[0].garbage_objects = Some(100_000);
        let text = keeper(&who, "Visit", Bytes(0));
        assert_eq!(
            text,
            "19,990 of 20,000 by an element of Array ← global variable $cache; 100,000 more are garbage"
        );
        who.classes[0].ways.clear();
        let text = keeper(&who, "Visit", Bytes(2_000_000));
        assert!(text.ends_with("keeps 2.00 MB or more; 100,000 more are garbage"), "{text}");
    }

    #[test]
    fn a_class_that_is_kept_in_many_ways_has_the_largest_holder_only_if_that_is_large() {
        let many = who(9_999, Some(array()));
        assert_eq!(
            keeper(&many, "Visit", Bytes(1_000_000)),
            "in many ways, none of them common; 40,001 objects and 1.76 MB would go without Array ← global variable $cache"
        );
        assert_eq!(
            keeper(&many, "Visit", Bytes(2_000_000)),
            "in many ways, none of them common; no single object keeps 2.00 MB or more"
        );
    }

    #[test]
    fn of_a_class_that_was_not_asked_for_nothing_is_said() {
        let text = keeper(&who(19_990, None), "String", Bytes(0));
        assert_eq!(
            text,
            "40,001 objects and 1.76 MB would go without Array ← global variable $cache"
        );
    }
}
