//! Finds the known word that a misspelt one probably means, for "did you mean" hints.

/// Jaro-Winkler similarity above which a word counts as a misspelling of another.
const SIMILAR: f64 = 0.75;

/// The known word nearest to `written`; `None` where none is similar.
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|word| (strsim::jaro_winkler(written, word), word))
        .filter(|(similarity, _)| *similarity > SIMILAR)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, word)| word)
}

/// ` (did you mean ...?)` with the nearest known word; empty where none is similar.
pub fn did_you_mean<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(written, known).map(|word| format!(" (did you mean `{word}`?)")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_known_word_is_suggested_and_a_dissimilar_one_is_not() {
        let known = ["requests", "connections", "path"];
        assert_eq!(nearest("request", known), Some("requests"));
        assert_eq!(nearest("conections", known), Some("connections"));
        assert_eq!(nearest("zebra", known), None);
        assert_eq!(did_you_mean("request", known), " (did you mean `requests`?)");
        assert_eq!(did_you_mean("zebra", known), "");
    }
}
