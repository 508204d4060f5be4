//! What engines are given: a batch script of Slurm, an Indexed Job of Kubernetes.

use crate::fleet::plan::{FleetPlan, MOST_ATTEMPTS};
use crate::fleet::{EngineKind, MachineType};
use carat_model::one_line;
use std::path::Path;

/// What Kubernetes needs to know besides the plan.
#[derive(Debug, Clone)]
pub struct KubernetesOptions {
    /// The image of the containers, which has the app and carat.
    pub image: Option<String>,
    /// The claim of the volume that is the fleet's folder.
    pub claim: String,
    /// The nodes of each type; `None` for as many as there are blocks.
    pub nodes: Option<u32>,
}

/// Where Kubernetes keeps the number of earlier attempts.
const ATTEMPTS: &str = "metadata.annotations['batch.kubernetes.io/job-index-failure-count']";

/// A file for an engine.
#[derive(Debug)]
pub(super) struct JobFile {
    pub(super) name: String,
    pub(super) text: String,
}

/// The name of the file for a type of machine; `None` where nothing is submitted.
pub(super) fn job_file_name(machine_type: &MachineType) -> Option<String> {
    match machine_type.engine {
        EngineKind::Slurm => Some(format!("slurm-{}.sbatch", machine_type.name)),
        EngineKind::K8s => Some(format!("k8s-{}.yaml", machine_type.name)),
        EngineKind::Other => None,
    }
}

/// The file for a type of machine of the fleet in `folder`.
pub(super) fn job_file(
    plan: &FleetPlan,
    machine_type: &MachineType,
    folder: &Path,
    options: &KubernetesOptions,
) -> Option<JobFile> {
    let name = job_file_name(machine_type)?;
    let text = match machine_type.engine {
        EngineKind::Slurm => batch_script(plan, machine_type, folder),
        EngineKind::K8s => indexed_job(plan, machine_type, folder, options),
        EngineKind::Other => return None,
    };
    Some(JobFile { name, text })
}

/// The numbers of blocks as Slurm's `--array` has them.
pub(super) fn array(blocks: impl Iterator<Item = u32>) -> String {
    blocks.map(|block| block.to_string()).collect::<Vec<_>>().join(",")
}

/// The script replaces itself by carat, so that Slurm's TERM reaches carat.
fn batch_script(plan: &FleetPlan, machine_type: &MachineType, folder: &Path) -> String {
    let carat = std::env::current_exe().unwrap_or_else(|_| "carat".into());
    let options = match machine_type.selector.as_str() {
        "" => String::new(),
        options => format!("#SBATCH {options}\n"),
    };
    let fleet = plan.fleet();
    format!(
        "#!/bin/sh\n\
         # Blocks of `{experiment}` on machines of type {name}. Written by `carat fleet plan`.\n\
         #SBATCH --job-name={job}\n\
         #SBATCH --array={array}\n\
         #SBATCH --nodes=1\n\
         #SBATCH --exclusive\n\
         #SBATCH --requeue\n\
         #SBATCH --open-mode=append\n\
         #SBATCH --output={folder}/log/b%a.txt\n\
         {options}exec {carat} fleet block {quoted}\n",
        experiment = one_line(&plan.name),
        name = machine_type.name,
        job = plan.job_name(&machine_type.name),
        array = array(fleet.blocks_of(&machine_type.name)),
        folder = folder.display(),
        carat = shell_word(&carat.to_string_lossy()),
        quoted = shell_word(&folder.to_string_lossy()),
    )
}

/// A word that a shell takes literally.
fn shell_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A text in quotes that YAML takes literally: a JSON string is one.
fn yaml_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Pods that wait for a node get one in any order, so there are only as many as nodes if their number is known.
/// The pod of a machine that falls silent is terminating for ever, so it is replaced before it has failed; should it end
/// after all, its part is one more attempt.
fn indexed_job(
    plan: &FleetPlan,
    machine_type: &MachineType,
    folder: &Path,
    options: &KubernetesOptions,
) -> String {
    let name = &machine_type.name;
    let blocks = plan.fleet().blocks_of(name).count();
    let at_once = options.nodes.map_or(blocks, |nodes| blocks.min(nodes as usize));
    format!(
        "# Blocks on machines of type {name}. Written by `carat fleet plan`.
apiVersion: batch/v1
kind: Job
metadata:
  name: {job}
  labels: {{app.kubernetes.io/name: carat}}
spec:
  completionMode: Indexed
  completions: {blocks}
  parallelism: {at_once}
  backoffLimitPerIndex: {MOST_ATTEMPTS}
  maxFailedIndexes: {blocks}
  podReplacementPolicy: TerminatingOrFailed
  template:
    metadata:
      labels: {{app.kubernetes.io/name: carat}}
    spec:
{pod}",
        job = plan.job_name(name),
        pod = pod(machine_type, folder, options),
    )
}

/// One pod per machine at a time.
fn pod(machine_type: &MachineType, folder: &Path, options: &KubernetesOptions) -> String {
    let selector = machine_type.selector.split_once('=').map_or(String::new(), |(label, value)| {
        let (label, value) = (yaml_text(label), yaml_text(value));
        format!("      nodeSelector: {{{label}: {value}}}\n")
    });
    format!(
        "      restartPolicy: Never
      terminationGracePeriodSeconds: 120
{selector}      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - labelSelector:
              matchLabels: {{app.kubernetes.io/name: carat}}
            topologyKey: kubernetes.io/hostname
      containers:
      - name: block
        image: {image}
        command: [carat, fleet, block, {folder}, --type, {name}]
        env:
        - name: NODE_NAME
          valueFrom: {{fieldRef: {{fieldPath: spec.nodeName}}}}
        - name: JOB_INDEX_FAILURE_COUNT
          valueFrom: {{fieldRef: {{fieldPath: \"{ATTEMPTS}\"}}}}
        volumeMounts:
        - {{name: fleet, mountPath: {folder}}}
      volumes:
      - name: fleet
        persistentVolumeClaim: {{claimName: {claim}}}
",
        image = yaml_text(options.image.as_deref().unwrap_or_default()),
        folder = yaml_text(&folder.to_string_lossy()),
        name = yaml_text(&machine_type.name),
        claim = yaml_text(&options.claim),
    )
}
