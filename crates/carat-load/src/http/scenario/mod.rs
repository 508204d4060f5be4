//! Scenarios: users who go through the steps of a session, with cookies and with values from earlier responses.

pub mod cookies;
pub mod css;
mod data;
mod encoding;
mod html;
pub mod json_path;
pub mod location;
mod message;
mod secrets;
mod set;
mod take;
mod template;
mod user;

pub use data::{DataRows, read_rows};
pub use encoding::{Encoding, encode};
pub use secrets::{SecretValues, UsedVariables};
pub use set::{ScenarioSet, environment_filled};
pub use user::ScenarioUser;
