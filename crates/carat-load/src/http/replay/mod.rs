//! Replays recorded traffic: lists of URLs, logs of servers, HAR and OpenAPI files.
//!
//! Everything is read before a load begins. Each reader turns a file into a [`RecordedTraffic`].

mod access_log;
mod collector;
mod file;
mod format;
mod har;
mod lines;
mod lograge;
mod nginx_row;
mod openapi;
mod pace;
mod rails_log;
mod route;
mod shown;
mod times;
mod traffic;
mod url_list;
mod yaml;

pub use collector::ReplayRules;
pub use file::{describe, file_name, read_file};
pub use format::read_traffic;
pub use har::secrets;
pub use pace::paced;
pub use route::group;
pub use traffic::{LeftOut, RecordedRequest, RecordedTraffic};
