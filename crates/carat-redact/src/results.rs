//! Removes what must not be shown from every text of a report: control characters and secrets always; in a shared report
//! also host and user names, paths, what servers printed and answered, names of the application's classes, and the values
//! of environment variables beyond an allow-list, unless a value is a short number or one of a few words and its name
//! suggests no secret.

use crate::class_aliases::ClassAliases;
use crate::forms::common_title;
use crate::plan::{private_values, shared_plan};
use crate::rules::{Audience, DistinctNames, RedactionRules, names_identity};
use crate::who::{NameEditor, edit_way};
use carat_model::load::report::{RouteFailure, RouteReport};
use carat_model::recording::Recording;
use carat_model::{
    ClassAmount, Ledger, LoadReport, Results, Sample, Trial, command_line, one_line, shorten,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// Characters of a variant's name.
const NAME: usize = 120;
/// Kinds of failures that a shared report names; others are classes of exceptions, or what a server said.
const FAILURE_KINDS: [&str; 17] = [
    "body",
    "closed-early",
    "connect",
    "cookies",
    "further reasons",
    "invalid_request",
    "malformed",
    "redirect",
    "rejected",
    "remote",
    "server_restart",
    "status",
    "take",
    "timeout",
    "tls",
    "too-long",
    "unauthorized",
];

/// Results for that audience.
pub fn redact_results(results: &Results, audience: Audience) -> Results {
    let mut known = private_values(&results.info.plan_text);
    let facts = results.trials.iter().flat_map(|trial| &trial.machine);
    // Values of one or two characters occur inside ordinary words.
    let named = facts.filter(|(key, value)| names_identity(key) && value.len() > 2);
    known.extend(named.map(|(_, value)| value.clone()));
    let mut redaction = Redaction::new(results, known, audience);
    let mut shown = results.clone();
    // First, so that the numbers of equal names are in the order of the variants.
    redaction.edit_info(&mut shown);
    redaction.edit_conclusions(&mut shown);
    redaction.edit_classes(&mut shown);
    shown.trials.iter_mut().for_each(|trial| redaction.edit_trial(trial));
    shown
}

/// A recording for that audience.
pub fn redact_recording(recording: &Recording, audience: Audience) -> Recording {
    let mut redaction = Redaction::new(recording, BTreeSet::new(), audience);
    let mut shown = recording.clone();
    redaction.rules.edit_line(&mut shown.info.schema);
    shown.info.what = redaction.title(&shown.info.what);
    shown.info.command.iter_mut().for_each(|word| *word = redaction.title(word));
    shown.samples.iter_mut().for_each(|sample| redaction.edit_sample(sample));
    if let Some(end) = &mut shown.end {
        redaction.rules.edit_line(&mut end.ended);
        end.warnings.iter_mut().for_each(|warning| redaction.rules.edit(warning));
        for one in &mut end.classes {
            one.class = redaction.class(&one.class);
            match audience {
                // Nearly every name on it is one of the program.
                Audience::Shared => one.kept_by = None,
                Audience::Own => {
                    one.kept_by.iter_mut().for_each(|way| edit_way(&mut redaction, way))
                }
            }
        }
        for site in end.allocations.iter_mut().flat_map(|profile| &mut profile.sites) {
            site.class = redaction.class(&site.class);
            match audience {
                // Files are named after what a program does.
                Audience::Shared => (site.path, site.line) = (None, None),
                Audience::Own => {
                    site.path.iter_mut().for_each(|path| redaction.rules.edit_line(path))
                }
            }
        }
        end.unread.iter_mut().for_each(|reason| redaction.rules.edit(reason));
        end.limit.iter_mut().for_each(|limit| redaction.edit_group(&mut limit.group));
        if let Some(load) = &mut end.load {
            redaction.rules.edit_line(&mut load.url);
            let files = [&mut load.plan.scenario, &mut load.plan.replay];
            files.into_iter().flatten().for_each(|file| redaction.rules.edit_line(file));
            load.report.iter_mut().for_each(|report| redaction.edit_load(report));
        }
    }
    shown.ledger.iter_mut().for_each(|ledger| redaction.edit_ledger(ledger));
    shown
}

/// A ledger and the description of its server for that audience.
pub fn redact_ledger(server: &str, ledger: &Ledger, audience: Audience) -> (String, Ledger) {
    let redaction = Redaction::new(&(server, ledger), BTreeSet::new(), audience);
    let mut shown = ledger.clone();
    redaction.edit_ledger(&mut shown);
    (redaction.title(server), shown)
}

/// The rules, and the names that were given so far: one thing has the same name everywhere, and no two have one name.
struct Redaction {
    rules: RedactionRules,
    variants: DistinctNames,
    routes: DistinctNames,
    classes: ClassAliases,
}

impl Redaction {
    fn new(content: &impl Debug, known: BTreeSet<String>, audience: Audience) -> Self {
        let (variants, routes) = Default::default();
        let rules = RedactionRules::new(content, known, audience);
        Self { rules, variants, routes, classes: ClassAliases::default() }
    }

    fn edit_variant(&mut self, name: &mut String) {
        let rules = &self.rules;
        *name = self.variants.name(name, || shorten(&one_line(&rules.text(name)), NAME));
    }

    fn class(&mut self, name: &str) -> String {
        if self.rules.is_shared() {
            return self.classes.alias(name);
        }
        let mut name = name.to_owned();
        self.rules.edit_name(&mut name);
        name
    }

    /// The title or a word of the command line of a process.
    fn title(&self, title: &str) -> String {
        let line = command_line(title);
        if self.rules.is_shared() { common_title(&self.rules.text(&line)) } else { line }
    }

    fn edit_info(&mut self, shown: &mut Results) {
        let info = &mut shown.info;
        self.rules.edit(&mut info.name);
        info.about.iter_mut().for_each(|about| self.rules.edit(about));
        info.plan_text = match self.rules.is_shared() {
            true => shared_plan(&info.plan_text, &self.rules),
            false => self.rules.text(&info.plan_text),
        };
        self.rules.edit(&mut info.plan_hash);
        self.rules.edit(&mut info.primary);
        info.guards = self.rules.names(std::mem::take(&mut info.guards));
        info.variants.iter_mut().for_each(|variant| self.edit_variant(&mut variant.name));
        for variant in &mut info.variants {
            variant.controls.iter_mut().for_each(|control| self.edit_variant(control));
            let rules = &self.rules;
            let settings = variant.settings.iter();
            let shown = settings.map(|(key, value)| (rules.text(key), rules.setting(key, value)));
            variant.settings = shown.collect();
        }
        if let Some(fleet) = &mut info.fleet {
            self.rules.edit(&mut fleet.binary);
            fleet.types.iter_mut().for_each(|name| self.rules.edit(name));
        }
        shown.warnings.iter_mut().for_each(|warning| self.rules.edit(warning));
    }

    fn edit_conclusions(&mut self, shown: &mut Results) {
        for compared in &mut shown.controls {
            self.edit_variant(&mut compared.control);
        }
        let of_controls = shown.controls.iter_mut().map(|compared| &mut compared.conclusion);
        for conclusion in shown.conclusions.iter_mut().chain(of_controls) {
            self.edit_variant(&mut conclusion.variant);
            self.rules.edit(&mut conclusion.metric);
        }
        for curve in &mut shown.curves {
            self.edit_variant(&mut curve.variant);
            self.rules.edit(&mut curve.metric);
        }
        let moments = shown.moments.iter_mut().map(|compared| &mut compared.variant);
        let least = shown.least.iter_mut().map(|distance| &mut distance.variant);
        let growth = shown.growth.iter_mut().map(|growth| &mut growth.variant);
        moments.chain(least).chain(growth).for_each(|variant| self.edit_variant(variant));
        for compared in &mut shown.machines {
            self.edit_variant(&mut compared.variant);
            self.rules.edit(&mut compared.metric);
            compared.types.iter_mut().for_each(|of| self.rules.edit(&mut of.machine_type));
        }
    }

    fn edit_classes(&mut self, shown: &mut Results) {
        for compared in &mut shown.classes {
            self.edit_variant(&mut compared.variant);
            for class in &mut compared.classes {
                class.class = self.class(&class.class);
            }
        }
    }

    fn edit_trial(&mut self, trial: &mut Trial) {
        self.edit_variant(&mut trial.variant);
        self.rules.edit(&mut trial.id);
        trial.machine = self.rules.machine(&trial.machine);
        trial.notes.iter_mut().for_each(|note| self.rules.edit(note));
        trial.metrics = self.rules.names(std::mem::take(&mut trial.metrics));
        trial.samples.iter_mut().for_each(|sample| self.edit_sample(sample));
        trial.load.iter_mut().for_each(|load| self.edit_load(load));
        if self.rules.is_shared() {
            // Both have what the server said; the most frequent failure says in Carat's own words what went wrong.
            let failures = trial.load.iter().flat_map(|load| &load.failures);
            let cause = failures.map(RouteFailure::summary).next();
            // Only where there was a reason: a trial that succeeded has none.
            trial.detail = trial.detail.take().and(cause);
            trial.log_tail.clear();
        }
        trial.detail.iter_mut().for_each(|detail| self.rules.edit(detail));
        self.rules.edit(&mut trial.log_tail);
    }

    fn edit_sample(&mut self, sample: &mut Sample) {
        sample.ledger.iter_mut().for_each(|ledger| self.edit_ledger(ledger));
        if let Some(census) = &mut sample.census {
            let mut classes = BTreeMap::new();
            for (given, amount) in std::mem::take(&mut census.classes) {
                // Two names may become one when a secret in them is masked.
                let sum = classes.entry(self.class(&given)).or_insert(ClassAmount::NONE);
                *sum = sum.plus(amount);
            }
            census.classes = classes;
        }
    }

    fn edit_load(&mut self, load: &mut LoadReport) {
        for RouteReport { route, scenario, latency, .. } in &mut load.routes {
            self.edit_route(route);
            scenario.iter_mut().for_each(|name| self.rules.edit(name));
            latency.iter_mut().for_each(|times| edit_histogram(&mut times.hdr));
        }
        for RouteFailure { route, kind, body, .. } in &mut load.failures {
            self.edit_route(route);
            *kind = self.failure_kind(kind);
            // A server may answer with anything, also with what it knows of its users.
            *body = body.take().filter(|_| !self.rules.is_shared());
            body.iter_mut().for_each(|text| self.rules.edit_line(text));
        }
        let kinds = std::mem::take(&mut load.errors_by).into_iter();
        load.errors_by = kinds.map(|(kind, count)| (self.failure_kind(&kind), count)).collect();
        load.metrics = self.rules.names(std::mem::take(&mut load.metrics));
        let queued = load.jobs.iter_mut().flat_map(|jobs| &mut jobs.queued);
        let whole = load.latency_hdr.iter_mut().chain(&mut load.service_hdr);
        whole.chain(queued.map(|times| &mut times.hdr)).for_each(edit_histogram);
        for step in &mut load.steps {
            step.times = self.rules.names(std::mem::take(&mut step.times));
            step.times.values_mut().for_each(|times| edit_histogram(&mut times.hdr));
        }
        for flag in &mut load.flags {
            self.rules.edit_line(&mut flag.code);
            self.rules.edit(&mut flag.message);
        }
    }

    /// The method and path of a request, or the class of a job.
    fn edit_route(&mut self, route: &mut String) {
        // The class of a job has no slash, unlike the path of a request.
        let is_job = !route.contains('/') && !route.is_empty();
        if self.rules.is_shared() && is_job {
            *route = self.classes.alias(route);
        }
        let rules = &self.rules;
        *route = self.routes.name(route, || rules.text(route));
    }

    fn failure_kind(&mut self, kind: &str) -> String {
        // Known kinds are Carat's own words; others are classes of exceptions.
        if FAILURE_KINDS.contains(&kind) { kind.to_owned() } else { self.class(kind) }
    }

    /// The path of a control group names users, services and pods.
    fn edit_group(&self, name: &mut String) {
        match self.rules.is_shared() {
            true => *name = "[hidden]".to_owned(),
            false => self.rules.edit_line(name),
        }
    }

    fn edit_ledger(&self, ledger: &mut Ledger) {
        ledger.unread.iter_mut().for_each(|unread| self.rules.edit_line(unread));
        for process in &mut ledger.from_status {
            process.title = self.title(&process.title);
        }
        for process in &mut ledger.processes {
            process.title = self.title(&process.title);
            for (name, value) in &mut process.environment {
                *value = self.rules.variable(name, value);
                self.rules.edit_line(value);
                self.rules.edit_line(name);
            }
            let allocator = &mut process.allocator;
            let named = allocator.active.iter_mut().chain(&mut allocator.loaded);
            let more = process.ruby.iter_mut().chain(&mut process.slots_unknown);
            let texts = named.chain(more).chain([&mut allocator.evidence]);
            texts.for_each(|text| self.rules.edit_line(text));
            let files = process.files.iter_mut();
            files.for_each(|file| self.rules.edit_line(&mut file.name));
        }
        if let Some(group) = &mut ledger.group {
            let above = group.limits.iter_mut().map(|limit| &mut limit.group);
            above.chain([&mut group.name]).for_each(|name| self.edit_group(name));
        }
    }
}

impl NameEditor for Redaction {
    fn rules(&self) -> &RedactionRules {
        &self.rules
    }

    fn edit_class(&mut self, name: &mut String) {
        *name = self.class(name);
    }

    fn edit_library(&mut self, name: &mut String) {
        self.rules.edit_name(name);
    }
}

/// A histogram in base64; empty if it is another text.
fn edit_histogram(text: &mut String) {
    // Anything else could be a text that the server chose.
    if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=-_".contains(&byte)) {
        text.clear();
    }
}
