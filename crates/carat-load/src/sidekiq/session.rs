//! The connection to Redis, what was asked over it, and what the load needs beside it.

use crate::connections::{Connections, OpenPhase, ProtocolSession};
use crate::error::GeneratorError;
use crate::jobs::from_environment;
use crate::sidekiq::job::JobMaker;
use crate::sidekiq::resp::ReplyReader;
use crate::target::{redis_parts, resolve};
use carat_model::load::SidekiqLoad;
use std::collections::VecDeque;

/// What the open connection is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RedisPhase {
    #[default]
    Idle,
    /// Waiting for replies.
    Waiting,
}

impl OpenPhase for RedisPhase {
    fn is_opening(self) -> bool {
        false
    }

    fn has_deadline(self) -> bool {
        self == Self::Waiting
    }
}

/// A command whose reply has not arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RedisQuestion {
    /// Only an error matters; the name of the command.
    Order(&'static str),
    /// Identities of the Sidekiq processes.
    Processes,
    /// The description of one of them.
    Process,
    /// The counters, after so many jobs were pushed.
    Counters { pushed: u64 },
    /// A page of the failed jobs of a set.
    Failures,
}

impl RedisQuestion {
    pub(super) fn command(self) -> &'static str {
        match self {
            Self::Order(command) => command,
            Self::Processes => "SMEMBERS processes",
            Self::Process => "HGET",
            Self::Counters { .. } => "the transaction that reads the counters",
            Self::Failures => "ZRANGEBYSCORE",
        }
    }
}

/// The Redis side of the connection.
#[derive(Debug, Default)]
pub struct RedisSession {
    pub(super) replies: ReplyReader,
    pub(super) asked: VecDeque<RedisQuestion>,
    pub(super) unsent: Vec<u8>,
}

impl ProtocolSession for RedisSession {
    type Phase = RedisPhase;
}

pub(super) type RedisConnections<'a> = Connections<'a, RedisSession>;

/// What a load needs beside its Redis.
#[derive(Debug)]
pub struct SidekiqShared {
    pub(super) load: SidekiqLoad,
    pub(super) jobs: JobMaker,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: u32,
    /// Host and port, or the socket, without user and password.
    pub(super) server: String,
}

impl SidekiqShared {
    pub(super) fn new(load: &SidekiqLoad) -> Result<Self, GeneratorError> {
        let jobs = JobMaker::new(load).map_err(GeneratorError::Request)?;
        let parts = redis_parts(&load.redis).map_err(GeneratorError::Request)?;
        let filled = |text: Option<String>| text.map(|text| from_environment(&text)).transpose();
        Ok(Self {
            load: load.clone(),
            jobs,
            user: filled(parts.user).map_err(GeneratorError::Request)?,
            password: filled(parts.password).map_err(GeneratorError::Request)?,
            database: parts.database,
            server: parts.server,
        })
    }
}

/// Checks that everything is there that a load needs before it begins: its variables of the environment and its data.
///
/// # Errors
/// If something is missing; the message names it.
pub fn check_sidekiq(load: &SidekiqLoad) -> Result<(), GeneratorError> {
    SidekiqShared::new(load)?;
    // The port of a service is known only in a trial.
    if !load.redis.contains('{') {
        resolve(&load.redis)?;
    }
    Ok(())
}
