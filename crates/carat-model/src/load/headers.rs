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
    headers.iter().cloned().collect::<BTreeMap<_, _>>().into_iter().collect()
}

/// Parses a header flag.
pub(super) fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once(':').ok_or("a header is written `Name: value`".to_owned())?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}
