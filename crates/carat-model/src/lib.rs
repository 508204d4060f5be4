//! Plain data for every crate of Carat: units, metrics, samples, ledgers, loads, trials, results.
//!
//! It does no I/O and imports no other crate of Carat but the types of a reading from outside (`carat-outside`) and of
//! statistics (`carat-stats`). Public is all of it: a type here is what two crates agree on.

pub mod allocations;
mod c_library;
mod census;
mod command_table;
mod count;
pub mod fleet;
mod group_use;
pub mod growth;
pub mod host;
pub mod ledger;
pub mod load;
pub mod memory;
pub mod metric;
mod moment;
mod nearest;
mod observations;
pub mod outcome;
mod outside;
mod percent;
mod placeholder;
mod printable;
pub mod recording;
pub mod results;
mod secrets;
pub mod span;
mod thinned;
pub mod units;
pub mod watch;

pub use allocations::{AllocationCost, AllocationProfile, AllocationSite};
pub use c_library::CLibrary;
pub use census::{
    ClassAmount, ClassComparison, ClassDifference, ClassMedians, ReadTrials, TrialCensus,
};
pub use command_table::CommandTable;
pub use count::{count, counted, first_names, grouped};
pub use fleet::Fleet;
pub use group_use::{GroupLimit, GroupUse, LimitKind};
pub use growth::{
    DailyGrowth, GrowthEvidence, GrowthKind, PartGrowth, ProgressUnit, ReadingEvidence,
    TrackedPart, VariantGrowth,
};
pub use ledger::Ledger;
pub use load::{
    CableOptions, HttpOptions, LoadFlag, LoadReport, LoadSpec, LoadTable, LoadTemplate, Severity,
    SidekiqOptions, SqlQueueOptions,
};
pub use memory::{CgroupSample, InsideSample, KeptReading, MemberSample, Sample, SamplerCost};
pub use metric::{Better, METRICS, Metric, MetricMoment};
pub use moment::Moment;
pub use nearest::{did_you_mean, nearest};
pub use observations::{LoadTotals, Observations, load_window};
pub use outcome::Outcome;
pub use outside::{OUTSIDE_SCHEMA, OutsideReading};
pub use percent::Percent;
pub use placeholder::{TextPart, is_placeholder_name, text_parts, unknown_placeholder};
pub use printable::{is_printable, one_line, plain, shorten};
pub use recording::{ClassGrowth, GrowthOutlook, Recording};
pub use results::{
    BlockForecast, Conclusion, ControlComparison, Curve, Estimate, ExperimentInfo, LeastDistance,
    MachineComparison, MachineFacts, MachineTypeEstimate, MemoryFigure, MomentComparison,
    PartAtWork, Results, Role, StepConclusion, Trial, Variant, Verdict,
};
pub use secrets::{
    HIDDEN, command_line, is_name_character, is_secret_name, mask_secrets, mask_values,
};
pub use span::Span;
pub use thinned::ThinnedSeries;
pub use units::{Bytes, Unit, with_minus};
