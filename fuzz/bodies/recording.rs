//! A recording of any bytes is refused with a reason, or read; what is read can be analysed and rendered.

use carat::store::recording::read;
use carat_analysis::growth::of_recording;
use carat_report::{PageOptions, recording_html};
use std::fs;

/// Fails where that does not hold.
pub(crate) fn check(input: &[u8]) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("x.recording.jsonl");
    fs::write(&path, input).expect("a temporary file");
    match read(&path) {
        Ok(mut recording) => {
            recording.growth = of_recording(&recording);
            let page = recording_html(&recording, &PageOptions::default());
            assert!(page.ends_with("</html>") || page.trim_end().ends_with("</html>"));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
