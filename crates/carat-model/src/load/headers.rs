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
    // Names have no case (RFC 9110, 5.1), so the last of two spellings counts.
    let last: BTreeMap<String, (String, String)> =
        headers.iter().map(|header| (header.0.to_ascii_lowercase(), header.clone())).collect();
    last.into_values().collect::<BTreeMap<_, _>>().into_iter().collect()
}

/// Parses a header flag.
pub(super) fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        // At the first colon only: a value may contain more.
        text.split_once(':').ok_or("a header is written `Name: value`".to_owned())?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_two_spellings_of_a_header_counts() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let given = [pair("x-b", "1"), pair("Accept", "a"), pair("X-B", "2")];
        assert_eq!(sorted_headers(&given), [pair("Accept", "a"), pair("X-B", "2")]);
    }
}
