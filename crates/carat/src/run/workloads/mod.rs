//! The bundled workloads: folders with an experiment file and a README, packed into the binary.

mod files;
mod needs;
mod source;
mod text;
mod unpack;

pub(crate) use needs::check_needs;
pub(crate) use source::{WorkloadSource, text_of};
pub(crate) use text::{workload_list, workload_text};
pub(crate) use unpack::unpack;
