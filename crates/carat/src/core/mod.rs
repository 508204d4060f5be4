//! Plain data for every layer: units, metrics, samples, trials, results. No I/O.

mod census;
mod command_table;
mod count;
pub mod fleet;
pub mod growth;
pub mod ledger;
pub mod load;
pub mod memory;
pub mod metric;
mod moment;
mod nearest;
pub(crate) mod observations;
pub mod outcome;
mod percent;
mod placeholder;
mod printable;
pub mod recording;
pub mod results;
mod secrets;
pub mod span;
mod thinned;
pub mod units;

pub use census::{
    ClassAmount, ClassComparison, ClassDifference, ClassMedians, ReadTrials, TrialCensus,
};
pub use command_table::CommandTable;
pub use count::count;
pub(crate) use count::counted;
pub use fleet::Fleet;
pub use growth::{
    DailyGrowth, GrowthEvidence, GrowthKind, PartGrowth, ProgressUnit, TrackedPart, VariantGrowth,
};
pub use ledger::Ledger;
pub use load::{
    CableOptions, HttpOptions, LoadFlag, LoadReport, LoadSpec, LoadTable, LoadTemplate, Severity,
    SidekiqOptions, SqlQueueOptions,
};
pub use memory::{CgroupSample, InsideSample, MemberSample, Sample, SamplerCost};
pub use metric::{Better, METRICS, Metric, MetricMoment};
pub use moment::Moment;
pub(crate) use nearest::{did_you_mean, nearest};
pub(crate) use observations::Observations;
pub use outcome::Outcome;
pub use percent::Percent;
pub(crate) use placeholder::{TextPart, is_placeholder_name, text_parts};
pub(crate) use printable::{is_printable, one_line, plain, shorten};
pub use recording::{ClassGrowth, Recording};
pub use results::{
    BlockForecast, Conclusion, ControlComparison, Curve, Estimate, ExperimentInfo, LeastDistance,
    MachineComparison, MachineFacts, MachineTypeEstimate, MemoryFigure, MomentComparison,
    PartAtWork, Results, Role, StepConclusion, Trial, Variant, Verdict,
};
pub(crate) use secrets::{
    HIDDEN, command_line, is_name_character, is_secret_name, mask_secrets, mask_values,
};
pub use span::Span;
pub(crate) use thinned::ThinnedSeries;
pub use units::{Bytes, Unit};
