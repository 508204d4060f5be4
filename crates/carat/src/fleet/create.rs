//! Plans a fleet: draws the order of machine types and writes the folder that every machine sees.

use crate::config::block_order;
use crate::fleet::jobs::{JobFile, KubernetesOptions, job_file};
use crate::fleet::plan::{ATTEMPTS, EXPERIMENT, FleetPlan, INFO, LOG, PARTS, PLAN, SCHEMA, spare};
use crate::fleet::{EngineKind, FleetError, MachineType};
use crate::run::experiment::PreparedExperiment;
use crate::target::new_token;
use carat_files::{NamedBy, create_folder, write_file};
use carat_model::ExperimentInfo;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Makes the order of types independent of the order of variants, which is drawn from the seed itself.
const TYPE_ORDER: u64 = 0x7479_7065_7300_0000;

#[derive(Debug, Clone)]
pub struct PlanRequest {
    /// The new folder, which every machine sees under this path.
    pub folder: PathBuf,
    /// The types of machines; none for any machine.
    pub types: Vec<MachineType>,
    /// The folder in which relative paths of the experiment start, if not that of the experiment's file.
    pub experiment_folder: Option<PathBuf>,
    /// What Kubernetes needs to know.
    pub kubernetes: KubernetesOptions,
}

/// Plans a fleet and writes its folder.
///
/// # Errors
/// Where the folder has a plan or cannot be written, or where the request is impossible. Nothing is written then.
pub fn create(
    prepared: &PreparedExperiment,
    request: &PlanRequest,
) -> Result<FleetPlan, FleetError> {
    let folder = std::path::absolute(&request.folder).map_err(FleetError::io(&request.folder))?;
    if folder.join(PLAN).exists() {
        return Err(FleetError::Exists(folder));
    }
    if prepared.experiment.trials.attempts.is_some() {
        return Err(FleetError::Request(
            "the confirmation of a candidate runs on one machine; leave out trials.attempts".into(),
        ));
    }
    let types = match request.types.as_slice() {
        [] => vec![MachineType::any()],
        given => given.to_vec(),
    };
    check_types(&types, request)?;
    let experiment_folder =
        request.experiment_folder.as_ref().unwrap_or(&prepared.experiment.folder);
    let info = &prepared.info;
    let plan = FleetPlan {
        schema: SCHEMA.to_owned(),
        // Short, because it is part of names of jobs, which Kubernetes limits.
        id: new_token()[..8].to_owned(),
        name: info.name.clone(),
        plan_hash: info.plan_hash.clone(),
        seed: info.seed,
        max_blocks: info.max_blocks,
        // Every machine sees the folder under this path, whatever its working directory.
        folder: std::path::absolute(experiment_folder)
            .map_err(FleetError::io(experiment_folder))?,
        binary: binary_hash()?,
        blocks: type_order(info.seed, &types, info.max_blocks),
        types,
    };
    let jobs: Vec<JobFile> = plan
        .types
        .iter()
        .filter_map(|one| job_file(&plan, one, &folder, &request.kubernetes))
        .collect();
    let info = ExperimentInfo { fleet: Some(plan.fleet()), ..info.clone() };
    let info = written_text(&folder.join(INFO), serde_json::to_string_pretty(&info))?;
    let text = written_text(&folder.join(PLAN), toml::to_string(&plan))?;
    let text = format!(
        "# Written by `carat fleet plan`. Every machine checks it; do not change it.\n{text}"
    );
    let mut files = vec![(EXPERIMENT, prepared.experiment.text.as_str()), (INFO, info.as_str())];
    files.extend(jobs.iter().map(|job| (job.name.as_str(), job.text.as_str())));
    // Last, because its presence means that the folder is complete.
    files.push((PLAN, text.as_str()));
    write(&folder, &files)?;
    Ok(plan)
}

fn check_types(types: &[MachineType], request: &PlanRequest) -> Result<(), FleetError> {
    for (at, one) in types.iter().enumerate() {
        if types[..at].iter().any(|other| other.name == one.name) {
            let name = &one.name;
            return Err(FleetError::Request(format!(
                "machine type `{name}` is given twice; a type has one engine, so give each another name"
            )));
        }
        let folder = request.folder.to_string_lossy();
        if one.engine == EngineKind::Slurm
            // In the name of an output `%` begins a pattern (sbatch(1)).
            && folder.contains(|c: char| c.is_whitespace() || c == '%')
        {
            return Err(FleetError::Request(format!(
                "Slurm cannot write its output to `{folder}`: give a folder without white space and % with -o"
            )));
        }
        if one.engine == EngineKind::K8s && request.kubernetes.image.is_none() {
            return Err(FleetError::Request(
                "Kubernetes needs an image with the app and this carat; give --image IMAGE".into(),
            ));
        }
    }
    Ok(())
}

/// The text that a value was written as, for the file at `path`.
fn written_text<E: std::fmt::Display>(
    path: &Path,
    written: Result<String, E>,
) -> Result<String, FleetError> {
    written.map_err(|error| FleetError::Plan { path: path.to_owned(), message: error.to_string() })
}

fn write(folder: &Path, files: &[(&str, &str)]) -> Result<(), FleetError> {
    let inner = [PARTS, ATTEMPTS, LOG].map(|name| folder.join(name));
    // Those that exist first, so that nothing is created beside one that is refused.
    let (present, missing): (Vec<&PathBuf>, Vec<&PathBuf>) =
        inner.iter().partition(|path| path.symlink_metadata().is_ok());
    for path in present.into_iter().chain(missing) {
        create_folder(path).map_err(FleetError::io(path))?;
    }
    for (name, text) in files {
        let path = folder.join(name);
        write_file(&path, text.as_bytes(), NamedBy::Carat).map_err(FleetError::io(&path))?;
    }
    Ok(())
}

/// The type of every block: rounds that have every type once, in random order. Every type has as many blocks to spare as may
/// be given up at all.
fn type_order(seed: u64, types: &[MachineType], max_blocks: u32) -> Vec<String> {
    // Whole rounds, so that every type has the same number of blocks.
    let rounds = max_blocks.div_ceil(types.len() as u32) + spare(max_blocks);
    (0..rounds)
        .flat_map(|round| block_order(seed ^ TYPE_ORDER, round, types.len()))
        .map(|at| types[at.variant].name.clone())
        .collect()
}

/// SHA-256 of the file of this process, in hex.
pub(super) fn binary_hash() -> Result<String, FleetError> {
    // Not the path of the executable: that file may have been replaced since.
    let path = Path::new("/proc/self/exe");
    let mut hash = Sha256::new();
    let mut file = File::open(path).map_err(FleetError::io(path))?;
    io::copy(&mut file, &mut HashWriter(&mut hash)).map_err(FleetError::io(path))?;
    Ok(hex(&hash.finalize()))
}

struct HashWriter<'a>(&'a mut Sha256);

impl io::Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_created_where_a_link_of_another_user_is_in_the_way() {
        use carat_files::own_user;
        use std::os::unix::fs::symlink;
        if own_user() != 0 {
            return;
        }
        let stranger = |link: &Path| std::os::unix::fs::lchown(link, Some(65_534), None).unwrap();
        let home = tempfile::tempdir().unwrap();
        let (target, link) = (home.path().join("target"), home.path().join("link"));
        std::fs::create_dir(&target).unwrap();
        symlink(&target, &link).unwrap();
        stranger(&link);
        write(&link.join("fleet"), &[("a", "b")]).unwrap_err();
        assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0);
        let fleet = home.path().join("fleet");
        std::fs::create_dir(&fleet).unwrap();
        symlink(&target, fleet.join(LOG)).unwrap();
        stranger(&fleet.join(LOG));
        write(&fleet, &[("a", "b")]).unwrap_err();
        assert_eq!(std::fs::read_dir(&fleet).unwrap().count(), 1, "only the link");
    }

    #[test]
    fn every_round_has_every_type_once_and_every_type_can_lose_as_many_blocks_as_all() {
        let types = ["slurm:a", "slurm:b", "other:c"].map(|one| MachineType::parse(one).unwrap());
        let order = type_order(7, &types, 31);
        assert_eq!(order.len(), 3 * (11 + 3));
        let mut first = Vec::new();
        for round in order.chunks(3) {
            let mut sorted = round.to_vec();
            first.push(sorted[0].clone());
            sorted.sort();
            assert_eq!(sorted, ["a", "b", "c"]);
        }
        first.sort();
        first.dedup();
        assert_eq!(first.len(), 3, "the order within rounds is drawn");
    }
}
