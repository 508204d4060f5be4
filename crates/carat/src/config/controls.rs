//! Checks the controls that variants name.

use crate::config::file::VariantTable;
use carat_model::did_you_mean;
use std::collections::BTreeSet;

/// Whether every control is another variant, named once, and no chain of controls leads back to its start.
pub(super) fn check(variants: &[VariantTable]) -> Result<(), String> {
    // The baseline is compared with nothing.
    let first = variants.first().filter(|first| !first.control.0.is_empty());
    if let Some(VariantTable { name, .. }) = first {
        return Err(format!(
            "variant `{name}` is the baseline, which has no control: remove `control`, or list another variant first"
        ));
    }
    for variant in variants {
        check_names(variant, variants)?;
    }
    for variant in variants {
        let mut chain = vec![variant.name.as_str()];
        // A new set for each start: what was followed from another start is no circle of this one.
        if leads_back(&mut chain, &mut BTreeSet::new(), variants) {
            return Err(format!("the controls form a circle: `{}`", chain.join("` → `")));
        }
    }
    Ok(())
}

fn check_names(variant: &VariantTable, variants: &[VariantTable]) -> Result<(), String> {
    let known = || variants.iter().map(|other| other.name.as_str());
    let name = &variant.name;
    for (place, control) in variant.control.0.iter().enumerate() {
        if !known().any(|other| other == control) {
            let nearest = did_you_mean(control, known().filter(|other| other != name));
            return Err(format!(
                "variant `{name}`: no variant is named `{control}`, its control{nearest}; the variants are `{}`",
                known().collect::<Vec<_>>().join("`, `")
            ));
        }
        if variant.control.0[..place].contains(control) {
            return Err(format!("variant `{name}` names its control `{control}` twice"));
        }
    }
    Ok(())
}

/// Whether controls lead from the end of `chain` back to its start; then the chain ends there.
///
/// `seen` has every name that was followed. A circle elsewhere does not count: it is found from its own start.
fn leads_back<'a>(
    chain: &mut Vec<&'a str>,
    seen: &mut BTreeSet<&'a str>,
    variants: &'a [VariantTable],
) -> bool {
    let last = chain.last().copied();
    let Some(variant) = variants.iter().find(|variant| Some(variant.name.as_str()) == last) else {
        return false;
    };
    for control in &variant.control.0 {
        chain.push(control);
        // Each name is followed once, because many paths can lead to one.
        if chain[0] == control || (seen.insert(control) && leads_back(chain, seen, variants)) {
            return true;
        }
        chain.pop();
    }
    false
}
