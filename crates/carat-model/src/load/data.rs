//! The file of values for the placeholders of a load.

use serde::{Deserialize, Serialize};
use std::path::Path;

/// A file of rows, one per user or job.
// A name alone is the form that plans had before the content counted, so those keep their hash.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum DataFile {
    /// With any content.
    Named(String),
    /// With the content of the plan, which must not change between trials.
    Fixed {
        file: String,
        /// SHA-256 of its content in hex.
        sha256: String,
    },
}

impl DataFile {
    pub fn file(&self) -> &str {
        match self {
            Self::Named(file) | Self::Fixed { file, .. } => file,
        }
    }

    /// SHA-256 of the content that it must have, in hex.
    pub fn sha256(&self) -> Option<&str> {
        match self {
            Self::Named(_) => None,
            Self::Fixed { sha256, .. } => Some(sha256),
        }
    }

    /// The file with a content that it must have.
    pub(super) fn fixed(&self, sha256: &str) -> Self {
        Self::Fixed { file: self.file().to_owned(), sha256: sha256.to_owned() }
    }

    pub(super) fn move_to(&mut self, folder: &Path) {
        let (Self::Named(file) | Self::Fixed { file, .. }) = self;
        // An absolute path stays as it is: joining replaces the folder.
        *file = folder.join(&*file).display().to_string();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_file_is_its_name_until_its_content_is_fixed() {
        let named = DataFile::Named("a.csv".to_owned());
        let mut fixed = named.fixed("ab");
        fixed.move_to(Path::new("/e"));
        for (data, form, sha256) in [
            (named, json!("a.csv"), None),
            (fixed, json!({ "file": "/e/a.csv", "sha256": "ab" }), Some("ab")),
        ] {
            assert_eq!(serde_json::to_value(&data).unwrap(), form);
            assert_eq!(serde_json::from_value::<DataFile>(form).unwrap(), data);
            assert_eq!(data.sha256(), sha256);
        }
    }
}
