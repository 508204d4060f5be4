//! A recording from its start to its end.

use crate::run::Interrupt;
use crate::run::recording::RecordError;
use crate::run::recording::allocations::AllocationWindow;
use crate::run::recording::conclude::conclude;
use crate::run::recording::load::{LoadDriver, RecordingLoad};
use crate::run::recording::looks::{KeptWatch, Progress, WatchEnd};
use crate::run::recording::recorder::{Recorder, RecorderStep};
use crate::run::recording::subject::RecordingSubject;
use crate::run::sampled_tree::{SampledTree, TreeOptions};
use crate::store::recording::Journal;
use carat_model::recording::{RECORDING_SCHEMA, Recording, RecordingEnd, RecordingInfo};
use carat_model::{GroupLimit, Span};
use carat_proc::observe::{SampleOptions, group_limits};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long a server may take to end after TERM before it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// How often the limits of the control groups are read, of which a server that has ended has none.
const LIMITS_EVERY: Duration = Duration::from_secs(1);

/// How long the last answers may take if the load ends with the recording.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// What to record, apart from the subject.
#[derive(Debug)]
pub(crate) struct RecordingRequest {
    /// The file to create.
    pub(crate) path: PathBuf,
    pub(crate) sampling: SampleOptions,
    /// When to stop, if not at the end of the tree.
    pub(crate) limit: Option<Span>,
    pub(crate) load: Option<RecordingLoad>,
    /// Readings of the memory from outside; `None` for none.
    pub(crate) look: Option<LookPace>,
    /// How long to sample allocations; `None` for not at all.
    pub(crate) allocations: Option<Span>,
}

/// How often the memory is read from outside.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LookPace {
    /// As often as the cost of a reading allows.
    ByCost,
    /// Once in this time.
    Every(Span),
}

/// What shows a recording while it runs.
pub(crate) trait RecordingDisplay {
    /// Handles the user's keys; returns whether the user ends the recording.
    fn handle_keys(&mut self, recorder: &mut Recorder<'_>) -> bool;

    /// Shows the newest sample.
    fn show(&mut self, recorder: &Recorder<'_>);
}

/// A recording that runs.
pub(crate) struct ActiveRecording<'a> {
    path: PathBuf,
    limit: Option<Span>,
    interrupt: Interrupt,
    load: Option<LoadDriver>,
    kept: Option<KeptWatch>,
    allocations: Option<AllocationWindow>,
    /// The limits of its control groups when they were seen last.
    limits: Option<Vec<GroupLimit>>,
    limits_due: Duration,
    recorder: Recorder<'a>,
}

/// A recording that has ended.
#[derive(Debug)]
pub(crate) struct FinishedRecording {
    pub(crate) recording: Recording,
    /// Lines that could not be written, and why.
    pub(crate) loss: Option<(u64, String)>,
    /// Processes of the server that could not be stopped.
    pub(crate) survivors: Vec<String>,
}

impl<'a> ActiveRecording<'a> {
    /// Creates the file and starts the subject, if it is a command.
    pub(crate) fn start(
        request: RecordingRequest,
        subject: &'a mut RecordingSubject,
        interrupt: Interrupt,
    ) -> Result<Self, RecordError> {
        let RecordingRequest { path, sampling, limit, load, look, allocations } = request;
        let kept = look.map(|pace| match pace {
            LookPace::ByCost => KeptWatch::new(None),
            LookPace::Every(span) => KeptWatch::new(Some(span.0)),
        });
        // Before the file is created: a wrong URL leaves nothing behind.
        let load = load.map(|load| LoadDriver::new(load, limit)).transpose()?;
        let journal = create_journal(&path, subject)?;
        let options = TreeOptions {
            sampling,
            rescan_after: Duration::from_secs(1),
            longest_pause: Duration::from_millis(50),
            full_at_requests: Vec::new(),
        };
        let log = subject.new_log();
        let tree = start_sampling(options, subject, interrupt.clone()).inspect_err(|_| {
            // They were created here, and no server has written anything.
            for made in [Some(&path), log.as_ref()].into_iter().flatten() {
                let _ = fs::remove_file(made);
            }
        })?;
        let recorder = Recorder::new(tree, journal);
        let allocations = allocations.map(AllocationWindow::new);
        let (limits, limits_due) = (None, Duration::ZERO);
        Ok(Self { path, limit, interrupt, load, kept, allocations, limits, limits_due, recorder })
    }

    /// Records until the tree, the load or the time ends or the user stops it. Returns which, in words.
    pub(crate) fn follow(&mut self, display: &mut dyn RecordingDisplay) -> String {
        loop {
            if self.interrupt.requested() || display.handle_keys(&mut self.recorder) {
                return "stopped by the user".into();
            }
            if self.is_over() {
                return "the time was over".into();
            }
            if let Some(end) = self.load.as_mut().and_then(|load| load.step(&mut self.recorder)) {
                return end;
            }
            self.look_if_due();
            self.follow_allocations();
            // Read before the scan: a status that comes with the end of the tree is reported.
            let status = self.recorder.tree.server_ended();
            match self.recorder.step() {
                RecorderStep::NotDue => {}
                RecorderStep::Sampled => {
                    self.read_limits_if_due();
                    display.show(&self.recorder);
                }
                RecorderStep::TreeEnded => {
                    // The end of the tree can be seen before the status of its leader.
                    let status = status.or_else(|| self.recorder.tree.server_ended());
                    let how = status.map(|status| format!(" with {status}")).unwrap_or_default();
                    return format!("the server ended by itself{how}");
                }
            }
            self.recorder.tree.pause();
        }
    }

    /// Stops the subject, if it is a command, and completes the file.
    pub(crate) fn finish(mut self, ended: String) -> Result<FinishedRecording, RecordError> {
        let doubt = self.load.as_ref().and_then(LoadDriver::doubt);
        let (load, unsent) = self.load.take().map(LoadDriver::end).unzip();
        // While the server runs: afterwards there is nothing to read.
        self.recorder.write_last(self.kept.is_some());
        let members = self.recorder.tree.members();
        self.read_limits();
        let limits = self.limits.take();
        let limit_unseen = limits.is_none();
        let limit = limits.into_iter().flatten().min_by_key(GroupLimit::left);
        let now = self.progress();
        let looked = self.kept.take().map(|watch| watch.end(&members, now)).unwrap_or_default();
        let WatchEnd { classes, note, unread } = looked;
        let window = self.allocations.take().map(|window| window.end(&mut self.recorder.tree));
        let (allocations, unsampled) = window.unwrap_or_default();
        let printed = self.recorder.tree.log_note();
        let survivors = self.recorder.tree.stop(GRACE).survivors;
        let refusal = self.recorder.tree.refusal().map(str::to_owned);
        let warnings = doubt.into_iter().chain(refusal).chain(note).chain(printed).chain(unsampled);
        let cost = self.recorder.tree.cost();
        let end = RecordingEnd {
            ended,
            load,
            cost,
            warnings: warnings.collect(),
            classes,
            limit,
            limit_unseen,
            unread,
            outlook: None,
            allocations,
        };
        let mut journal = self.recorder.into_journal();
        let recording = conclude(&mut journal, &self.path, (end, unsent.flatten()))?;
        let loss = journal.loss().map(|(lines, error)| (lines, error.to_string()));
        Ok(FinishedRecording { recording, loss, survivors })
    }

    fn read_limits_if_due(&mut self) {
        let now = self.recorder.tree.elapsed();
        if now >= self.limits_due {
            self.limits_due = now + LIMITS_EVERY;
            self.read_limits();
        }
    }

    /// A process that has ended is in no group.
    fn read_limits(&mut self) {
        let members = self.recorder.tree.members();
        let root = self.recorder.tree.root();
        let seen = members.first().and_then(|first| group_limits(root, first.pid));
        self.limits = seen.or(self.limits.take());
    }

    /// Begins a reading of the memory from outside if one is due.
    fn look_if_due(&mut self) {
        let (now, waits) = (self.progress(), self.waits_for_load());
        let Some(watch) = self.kept.as_mut().filter(|_| !waits) else { return };
        if watch.is_due(now) {
            watch.begin(self.recorder.tree.members(), now);
        }
        if let Some(kept) = watch.take_kept() {
            self.recorder.keep_reading(kept);
        }
    }

    fn follow_allocations(&mut self) {
        let waits = self.waits_for_load();
        if let Some(window) = self.allocations.as_mut().filter(|_| !waits) {
            window.follow(&mut self.recorder.tree);
        }
    }

    /// Whether a load will begin: before it the server only boots, which says nothing about its growth.
    fn waits_for_load(&self) -> bool {
        self.load.as_ref().is_some_and(|load| !load.is_sending())
    }

    fn progress(&self) -> Progress {
        let elapsed = self.recorder.tree.elapsed();
        Progress { elapsed, requests: self.recorder.requests }
    }

    /// Whether the time is over. A load that ends with the recording may receive its last answers.
    fn is_over(&self) -> bool {
        let sending = self.load.as_ref().is_some_and(LoadDriver::is_sending);
        let extra = if sending { LAST_ANSWERS } else { Duration::ZERO };
        self.limit.is_some_and(|limit| self.recorder.tree.elapsed() >= limit.0 + extra)
    }
}

fn start_sampling(
    options: TreeOptions,
    subject: &mut RecordingSubject,
    interrupt: Interrupt,
) -> Result<SampledTree<'_>, RecordError> {
    let no_exe = RecordError::machine("cannot find carat's own binary");
    match subject {
        RecordingSubject::Running { tree, .. } => {
            let mut sampled = SampledTree::new(options, interrupt, None).map_err(no_exe)?;
            sampled.attach(tree.as_ref().clone());
            Ok(sampled)
        }
        RecordingSubject::Command(command) => {
            let mut tree =
                SampledTree::new(options, interrupt, Some(&mut command.reaper)).map_err(no_exe)?;
            tree.launch(&command.spec, [])?;
            Ok(tree)
        }
    }
}

fn create_journal(path: &Path, subject: &RecordingSubject) -> Result<Journal, RecordError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let started_ms = now.as_millis() as u64;
    let head = RecordingInfo {
        schema: RECORDING_SCHEMA.into(),
        what: subject.title(),
        started_ms,
        command: subject.words().to_vec(),
    };
    Journal::create(path, &head)
        .map_err(|source| RecordError::Journal { path: path.to_owned(), source })
}
