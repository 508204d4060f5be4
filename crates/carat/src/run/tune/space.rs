//! The factors of a search: settings of the catalogue that can act on the server, and the user's knobs.

use crate::config::{KnobSpec, TuneSpec, TunedVariant};
use crate::run::tune::error::TuneError;
use carat_settings::{
    LeftOutSetting, SearchableSetting, SearchedServer, find_allocator, profiles,
    searchable_settings,
};
use carat_tune::{Condition, Configuration, Factor, Space, SpaceError};
use std::path::Path;

/// The setting on which settings of a malloc depend.
const ALLOCATOR: &str = "allocator";
/// The malloc of the C library, and the level of [`ALLOCATOR`] that means it.
const SYSTEM: (&str, &str) = ("glibc", "system");

/// The configurations of a search, and what each changes.
#[derive(Debug, Clone)]
pub struct TuneSpace {
    pub space: Space,
    /// Settings that are not tried, with the reason.
    pub left_out: Vec<LeftOutSetting>,
    settings: Vec<SearchableSetting>,
    knobs: Vec<KnobSpec>,
}

impl TuneSpace {
    /// Everything that can act on this server, whose file system has this root, and that the file does not exclude.
    ///
    /// # Errors
    /// Where nothing is left to try, or too much.
    pub fn new(spec: &TuneSpec, server: SearchedServer, root: &Path) -> Result<Self, TuneError> {
        let (mut settings, mut left_out) = searchable_settings(server);
        settings.retain(|setting| is_wanted(spec, setting.name));
        left_out.retain(|setting| is_wanted(spec, setting.name));
        for setting in &mut settings {
            if let Some(levels) = spec.levels.get(setting.name) {
                // The user's levels replace ours, but the default stays first: it is level 0.
                let default = setting.levels[0].clone();
                let others = levels.iter().filter(|level| **level != default).cloned();
                setting.levels = std::iter::once(default.clone()).chain(others).collect();
            }
        }
        leave_out_missing_allocators(&mut settings, &mut left_out, root);
        leave_out_dependents(&mut settings, &mut left_out);
        let factors = settings
            .iter()
            .map(|setting| Factor { name: setting.name.into(), levels: setting.levels.clone() })
            .chain(spec.knobs.iter().map(|knob| Factor {
                name: knob.name.clone(),
                levels: knob.levels.iter().map(|level| level.name.clone()).collect(),
            }));
        match Space::new(factors.collect(), conditions(&settings)) {
            Ok(space) => Ok(Self { space, left_out, settings, knobs: spec.knobs.clone() }),
            Err(SpaceError::Empty) => Err(TuneError::NothingToTry(reasons(&left_out))),
            Err(error) => Err(TuneError::Space(error)),
        }
    }

    /// A configuration as a variant of an experiment.
    pub fn variant(&self, configuration: &Configuration, name: String) -> TunedVariant {
        let mut variant = TunedVariant { name, ..TunedVariant::default() };
        for (index, setting) in self.settings.iter().enumerate() {
            let level = usize::from(configuration.level(index));
            // Level 0 is the default, which the file leaves out.
            if level > 0 {
                variant.settings.insert(setting.name.into(), setting.levels[level].clone());
            }
        }
        for (index, knob) in self.knobs.iter().enumerate() {
            let level = configuration.level(self.settings.len() + index);
            let level = &knob.levels[usize::from(level)];
            variant.env.extend(level.env.clone());
            variant.settings.extend(level.settings.clone());
        }
        variant
    }

    /// The profiles, as far as their settings can act here.
    pub fn profiles(&self) -> Vec<Configuration> {
        let known: Vec<&str> = self.settings.iter().map(|setting| setting.name).collect();
        profiles()
            .filter_map(|(_, pairs)| {
                self.space
                    .configuration(pairs.iter().copied().filter(|(name, _)| known.contains(name)))
            })
            .collect()
    }

    /// A configuration in words, such as `arena_max=2 prepare_fork=full`.
    pub fn text(&self, configuration: &Configuration) -> String {
        let words = words(self.space.describe(configuration));
        if words.is_empty() { "default".into() } else { words }
    }

    /// What of a configuration another one leaves out, in words.
    pub fn difference(&self, configuration: &Configuration, less: &Configuration) -> String {
        let kept = self.space.describe(less);
        let mut missing = self.space.describe(configuration);
        missing.retain(|level| !kept.contains(level));
        words(missing)
    }
}

fn words(levels: Vec<(&str, &str)>) -> String {
    let words = levels.into_iter().map(|(name, level)| format!("{name}={level}"));
    words.collect::<Vec<_>>().join(" ")
}

fn reasons(left_out: &[LeftOutSetting]) -> String {
    if left_out.is_empty() {
        return "[search] names none".into();
    }
    let reasons = left_out.iter().map(|setting| format!("{}: {}", setting.name, setting.why));
    reasons.collect::<Vec<_>>().join("; ")
}

fn is_wanted(spec: &TuneSpec, name: &str) -> bool {
    spec.only.as_ref().is_none_or(|only| only.contains(name)) && !spec.leave.contains(name)
}

/// Leaves out allocators that are not installed.
fn leave_out_missing_allocators(
    settings: &mut Vec<SearchableSetting>,
    left_out: &mut Vec<LeftOutSetting>,
    root: &Path,
) {
    let Some(place) = settings.iter().position(|setting| setting.name == ALLOCATOR) else { return };
    let installed = |level: &String| level == SYSTEM.1 || find_allocator(root, level).is_some();
    settings[place].levels.retain(installed);
    // The default alone is no choice.
    if settings[place].levels.len() < 2 {
        settings.remove(place);
        let why = "no other allocator is installed".into();
        left_out.push(LeftOutSetting { name: ALLOCATOR, why });
    }
}

/// Leaves out what depends on a setting that is not tried.
fn leave_out_dependents(settings: &mut Vec<SearchableSetting>, left_out: &mut Vec<LeftOutSetting>) {
    let known: Vec<&str> = settings.iter().map(|setting| setting.name).collect();
    let has_allocators = known.contains(&ALLOCATOR);
    let missing = |setting: &SearchableSetting| {
        let malloc = setting.malloc.filter(|malloc| *malloc != SYSTEM.0 && !has_allocators);
        let required = setting.requires.filter(|required| !known.contains(required));
        malloc.map(|malloc| format!("{malloc} is not tried")).or_else(|| {
            required.map(|required| format!("it requires `{required}`, which is not tried"))
        })
    };
    let reasons: Vec<Option<String>> = settings.iter().map(missing).collect();
    // In the order of the settings, in which `retain` visits them.
    let mut reasons = reasons.into_iter();
    settings.retain(|setting| match reasons.next().flatten() {
        Some(why) => {
            left_out.push(LeftOutSetting { name: setting.name, why });
            false
        }
        None => true,
    });
}

/// Settings of a malloc act under it, others where the setting that they require is chosen.
fn conditions(settings: &[SearchableSetting]) -> Vec<Condition> {
    let position = |name: &str| settings.iter().position(|setting| setting.name == name);
    let mut conditions = Vec::new();
    for (factor, setting) in settings.iter().enumerate() {
        // Only if allocators are tried; otherwise the server's own malloc decides.
        if let Some((on, malloc)) = position(ALLOCATOR).zip(setting.malloc) {
            let wanted = if malloc == SYSTEM.0 { SYSTEM.1 } else { malloc };
            let levels = (0_u8..).zip(&settings[on].levels);
            let among: Vec<u8> =
                levels.filter(|(_, level)| *level == wanted).map(|(index, _)| index).collect();
            conditions.push(Condition { factor, level: None, on, among });
        }
        if let Some(on) = setting.requires.and_then(position) {
            let among = (1_u8..).zip(&settings[on].levels[1..]).map(|(index, _)| index);
            // At any level but the default.
            conditions.push(Condition { factor, level: None, on, among: among.collect() });
        }
    }
    conditions.retain(|condition| !condition.among.is_empty());
    conditions
}
