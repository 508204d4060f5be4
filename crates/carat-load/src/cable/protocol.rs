//! Action Cable as a protocol of the reactor.

use crate::cable::counts::CableCounts;
use crate::cable::handshake::UpgradeRequest;
use crate::cable::merge::merge;
use crate::cable::report::report;
use crate::cable::session::{CableConnections, CableSession};
use crate::cable::shared::SharedBroadcasts;
use crate::cable::steps::Steps;
use crate::cable::subscribers::{CableShared, Subscribers};
use crate::cable::text::{write_rows_file, write_text};
use crate::clock::MonotonicTime;
use crate::error::GeneratorError;
use crate::health::RunFacts;
use crate::reactor::{Arrival, LoadProfile, Loss, Protocol, Turn};
use crate::shard::Shard;
use crate::target::Target;
use carat_model::load::{CableLoad, CableOptions, LoadReport};
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Default microseconds between two wake-ups.
const QUANTUM_US: u32 = 1_000;

/// One thread's part of a cable load.
#[derive(Debug)]
pub struct CableProtocol {
    subscribers: Subscribers,
    steps: Steps,
}

impl Drop for CableProtocol {
    fn drop(&mut self) {
        // However this thread ends, the others must not wait for it.
        let subscribers = &self.subscribers;
        subscribers.shared.broadcasts.abandon(subscribers.shard.index);
    }
}

impl Protocol for CableProtocol {
    type Options = CableOptions;
    type Load = CableLoad;
    type Shared = CableShared;
    type Session = CableSession;
    type Counts = CableCounts;

    const CHECK_INTERVAL: u64 = 100_000_000;

    fn profile(load: &CableLoad) -> LoadProfile<'_> {
        LoadProfile {
            url: &load.url,
            options: &load.options,
            // All connections stay open until the last step.
            connections: u64::from(load.steps) * u64::from(load.step_size),
            // Every thread has a connection in every step.
            threads: load.options.threads.clamp(1, load.step_size.max(1)),
            quantum_us: load.options.quantum_us.unwrap_or(QUANTUM_US),
            planned: Some(u64::from(load.steps) * u64::from(load.broadcasts)),
            planned_s: None,
        }
    }

    fn share(
        load: &CableLoad,
        target: &Target,
        threads: u32,
    ) -> Result<CableShared, GeneratorError> {
        Ok(CableShared {
            load: load.clone(),
            upgrade: UpgradeRequest::new(load, target),
            broadcasts: SharedBroadcasts::new(threads).map_err(GeneratorError::Kernel)?,
        })
    }

    fn new(shared: Arc<CableShared>, shard: Shard) -> Self {
        Self { subscribers: Subscribers::new(shared, shard), steps: Steps::default() }
    }

    fn wake(&self) -> Option<BorrowedFd<'_>> {
        let subscribers = &self.subscribers;
        Some(subscribers.shared.broadcasts.wake(subscribers.shard.index))
    }

    fn advance(&mut self, io: &mut CableConnections<'_>, now: MonotonicTime) -> Turn {
        self.steps.advance(&mut self.subscribers, io, now)
    }

    fn connected(&mut self, io: &mut CableConnections<'_>, place: u32) {
        self.subscribers.connected(io, place);
    }

    fn writable(&mut self, io: &mut CableConnections<'_>, place: u32) {
        self.subscribers.writable(io, place);
    }

    fn received(
        &mut self,
        io: &mut CableConnections<'_>,
        place: u32,
        bytes: &[u8],
        arrival: Arrival,
    ) {
        self.subscribers.received(io, place, bytes, arrival);
    }

    fn lost(&mut self, io: &mut CableConnections<'_>, place: u32, loss: Loss) {
        self.subscribers.lost(io, place, loss);
    }

    fn check_slot(&mut self, io: &mut CableConnections<'_>, place: u32, now: MonotonicTime) {
        self.subscribers.check_slot(io, place, now);
    }

    fn checked(&mut self, io: &mut CableConnections<'_>, now: MonotonicTime) {
        self.subscribers.checked(now);
        self.steps.show(&self.subscribers, io);
    }

    fn finish(mut self, io: CableConnections<'_>) -> CableCounts {
        let mut counts = self.subscribers.take_counts();
        counts.cost = self.steps.take_cost(&io);
        counts
    }

    fn report(
        load: &CableLoad,
        shared: &CableShared,
        counts: Vec<CableCounts>,
        run: &RunFacts,
    ) -> LoadReport {
        let mut whole = merge(counts);
        whole.given_up = shared.broadcasts.given_up();
        report(load, whole, run)
    }

    fn write_text(
        options: &CableOptions,
        report: &LoadReport,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        write_text(options, report, out)
    }

    fn write_files(options: &CableOptions, report: &LoadReport) -> io::Result<()> {
        options.rows.as_deref().map_or(Ok(()), |path| write_rows_file(path, report))
    }
}
