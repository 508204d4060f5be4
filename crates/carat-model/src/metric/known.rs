//! The metric that a user names.

use crate::did_you_mean;
use crate::metric::{self, Metric};

/// The metric of that name.
///
/// # Errors
/// Where there is none; the message names the nearest known metric.
pub fn find_metric(name: &str) -> Result<&'static Metric, String> {
    metric::find(name).ok_or_else(|| {
        let known = metric::METRICS.iter().map(|metric| metric.id);
        format!("unknown metric `{name}`{}", did_you_mean(name, known))
    })
}
