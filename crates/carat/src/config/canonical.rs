//! The canonical form of a plan, and its hash.
//!
//! The form is versioned and its keys are sorted, so neither the order of keys in the file nor the order of fields in Rust
//! types can change a hash. Adding, removing, renaming or reinterpreting a field requires a new [`PLAN_SCHEMA`], unless the
//! form has the field only for files that use it: then the hash of every other file stays.

use crate::config::{
    CommandSpec, Experiment, MeasureSpec, ReadyCheck, ReadyCondition, ServerSpec, ServiceSpec,
    TrialLoad, TrialTask, VariantSpec,
};
use carat_model::Span;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// Name and version of the canonical form.
const PLAN_SCHEMA: &str = "carat.plan/2";

impl Experiment {
    /// SHA-256 of the canonical form, in hex: every value counts, comments and layout do not.
    pub fn hash(&self) -> String {
        let digest = Sha256::digest(self.canonical().to_string());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether trials of both plans measure the same: they differ at most in `[trials]`, in the description, and in how many
    /// errors a load may have.
    pub fn measures_like(&self, other: &Self) -> bool {
        self.measured_form() == other.measured_form()
    }

    fn measured_form(&self) -> Value {
        let mut form = self.canonical();
        // What may change between two runs of the same measurement is taken out.
        form["trials"] = Value::Null;
        form["about"] = Value::Null;
        for options in ["/load/measured/options", "/load/warmup/options"] {
            if let Some(options) = form.pointer_mut(options).and_then(Value::as_object_mut) {
                // How many errors are allowed changes which trials count, not what they measure.
                options.remove("errors");
            }
        }
        form
    }

    /// Everything that defines the plan. `serde_json` writes the keys of an object in their alphabetical order.
    pub(super) fn canonical(&self) -> Value {
        let mut trials = json!({
            "max": self.trials.max,
            "margin": self.trials.margin.0,
            "seed": self.trials.seed,
        });
        if !self.trials.warmup_block {
            // Absent otherwise, so that plans from before this key keep their hash.
            trials["warmup_block"] = json!(false);
        }
        if let Some(attempts) = self.trials.attempts {
            trials["attempts"] = json!(attempts);
        }
        let mut form = json!({
            "schema": PLAN_SCHEMA,
            "name": self.name,
            "about": self.about,
            "services": self.services.iter()
                .map(|(name, spec)| (name.clone(), service(spec)))
                .collect::<Map<_, _>>(),
            "variants": self.variants.iter().map(variant).collect::<Vec<_>>(),
            "measure": measure(&self.measure),
            "trials": trials,
        });
        match &self.task {
            TrialTask::Serve { ready, load: driven } => {
                form["server"] = server(&self.server, ready);
                form["load"] = load(driven);
            }
            TrialTask::Run { within } => form["run"] = run(&self.server, *within),
        }
        // Absent otherwise, so that plans without them keep their hash.
        for (name, spec) in [("prepare", &self.prepare), ("cleanup", &self.cleanup)] {
            if let Some(spec) = spec {
                form[name] = command(spec);
            }
        }
        form
    }
}

fn server(spec: &ServerSpec, condition: &ReadyCondition) -> Value {
    json!({
        "command": spec.command.words(),
        "ready": ready(condition),
        "dir": spec.dir,
        "env": spec.env,
        "stop_within_s": spec.stop_within.as_seconds(),
    })
}

fn run(spec: &ServerSpec, within: Span) -> Value {
    json!({
        "command": spec.command.words(),
        "dir": spec.dir,
        "env": spec.env,
        "stop_within_s": spec.stop_within.as_seconds(),
        "within_s": within.as_seconds(),
    })
}

fn service(spec: &ServiceSpec) -> Value {
    json!({
        "command": spec.command.words(),
        "ready": ready(&spec.ready),
        "dir": spec.dir,
        "env": spec.env,
    })
}

fn command(spec: &CommandSpec) -> Value {
    json!({
        "command": spec.command.words(),
        "dir": spec.dir,
        "env": spec.env,
        "within_s": spec.within.as_seconds(),
    })
}

fn ready(ready: &ReadyCondition) -> Value {
    let (name, value) = match &ready.check {
        ReadyCheck::Http(path) => ("http", Some(path)),
        ReadyCheck::Tcp => ("tcp", None),
        ReadyCheck::Log(text) => ("log", Some(text)),
    };
    json!({ "check": name, "value": value, "within_s": ready.within.as_seconds() })
}

fn variant(spec: &VariantSpec) -> Value {
    let mut settings = spec.settings.describe();
    // As written: two machines with their roots in different folders run the same plan.
    settings.extend(spec.root.clone().map(|root| ("root".to_owned(), root)));
    let mut form = json!({
        "name": spec.name,
        "settings": settings,
        "env": spec.env,
        "command": spec.command.as_ref().map(|command| command.words()),
        "dir": spec.dir,
    });
    if !spec.controls.is_empty() {
        form["controls"] = json!(spec.controls);
    }
    form
}

fn measure(spec: &MeasureSpec) -> Value {
    let guards = spec.guards.iter().map(|(name, limit)| ((*name).to_owned(), json!(limit.0)));
    let mut form = json!({
        "primary": spec.primary.id,
        "guards": guards.collect::<Map<_, _>>(),
        "sample_every_s": spec.sample_every.as_seconds(),
        "settle_s": spec.settle.as_seconds(),
        "at_requests": spec.at_requests,
    });
    if let Some(idle) = spec.idle {
        form["idle_s"] = json!(idle.as_seconds());
    }
    if spec.census {
        form["census"] = json!(true);
    }
    form
}

/// The load as it is sent to the generator, for an address that is the same in every plan.
fn load(load: &TrialLoad) -> Value {
    let template = match load {
        TrialLoad::Generated(template) => template,
        TrialLoad::Command(spec) => return json!({ "command": command(spec) }),
    };
    // The port differs from trial to trial and is no part of the plan.
    let address = "127.0.0.1:1";
    json!({
        "warmup": template.warmup(address),
        "measured": template.measured(address),
    })
}
