//! An experiment on many machines: a folder that all of them see, blocks that an engine runs, and a verdict.
//!
//! Nothing coordinates the machines. An engine, such as Slurm, runs `carat fleet block` for every index; each leaves a part, a
//! results file. Merging the parts is a set union, and whoever looks at it sees the same, so the one that looks keeps no state
//! and can be killed.

mod block;
mod create;
mod engine;
mod error;
mod folder;
mod forward;
mod jobs;
mod look;
mod machine_type;
mod place;
mod plan;

pub use block::{BlockEnd, BlockRun, run_block};
pub use create::{PlanRequest, create};
pub use engine::{stop, submit};
pub use error::FleetError;
pub use folder::FleetFolder;
pub use forward::BlocksBroughtForward;
pub use jobs::KubernetesOptions;
pub use look::{FleetLook, LookEnd, MachineTypeCount};
pub use machine_type::{EngineKind, MachineType};
pub use place::{AskedBlock, BlockPlace};
pub use plan::FleetPlan;
