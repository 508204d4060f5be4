//! Headers as users write them.

use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// Headers from a TOML table.
pub(super) fn headers_from_table<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<(String, String)>, D::Error> {
    Ok(BTreeMap::deserialize(deserializer)?.into_iter().collect())
}

/// Headers in order of their names; a later header replaces an earlier one of the same name.
pub(super) fn sorted_headers(headers: &[(String, String)]) -> Vec<(String, String)> {
    // Sorted, so that two ways to write the same headers have one plan and one hash.
    headers.iter().cloned().collect::<BTreeMap<_, _>>().into_iter().collect()
}

/// Parses a header flag.
pub(super) fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        // At the first colon only: a value may contain more.
        text.split_once(':').ok_or("a header is written `Name: value`".to_owned())?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}
