//! The configurations that a search can try.

use carat_stats::simulate::SeededRng;

/// Most levels above the defaults, over all factors: each is a bit of a mask.
const MOST_LEVELS: usize = 64;
/// Most combinations of levels, valid or not, that are enumerated.
const MOST_COMBINATIONS: u64 = 5_000_000;
/// Share of the factors that a random configuration leaves at their default beyond those that chance leaves there.
const LEFT_AT_DEFAULT: f64 = 0.35;

/// A setting or a knob of the user with the levels to try. The first level is the default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Factor {
    pub name: String,
    /// Names of its levels.
    pub levels: Vec<String>,
}

/// A condition without which a factor, or one of its levels, has no effect and falls back to its default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Index of the factor.
    pub factor: usize,
    /// The level that requires it; `None` for every level above the default.
    pub level: Option<u8>,
    /// Index of the factor on which it depends.
    pub on: usize,
    /// The levels of that factor under which it has an effect.
    pub among: Vec<u8>,
}

/// One level of each factor.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Configuration(Vec<u8>);

impl Configuration {
    pub fn level(&self, factor: usize) -> u8 {
        self.0[factor]
    }

    /// Whether every factor has its default.
    pub fn is_default(&self) -> bool {
        self.0.iter().all(|&level| level == 0)
    }
}

/// Why factors and conditions make no space.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpaceError {
    /// Nothing can be varied.
    #[error("no setting is left to try")]
    Empty,
    /// A factor with its default only.
    #[error("`{0}` has no level besides its default")]
    OneLevel(String),
    /// Two factors with one name.
    #[error("`{0}` is named twice")]
    Twice(String),
    #[error("{0} levels are too many; at most {MOST_LEVELS} besides the defaults can be searched")]
    TooManyLevels(usize),
    /// A condition that names no factor or level.
    #[error("a condition of `{0}` names a factor or a level that does not exist")]
    Condition(String),
}

/// Factors and the conditions between them.
#[derive(Debug, Clone)]
pub struct Space {
    factors: Vec<Factor>,
    conditions: Vec<Condition>,
    /// The bit of each factor's first level above its default.
    first_bit: Vec<usize>,
    bits: usize,
}

impl Space {
    /// Checks and combines factors and conditions.
    ///
    /// # Errors
    /// If there is nothing to vary, too much, or a condition does not fit.
    pub fn new(factors: Vec<Factor>, conditions: Vec<Condition>) -> Result<Self, SpaceError> {
        if factors.is_empty() {
            return Err(SpaceError::Empty);
        }
        for (index, factor) in factors.iter().enumerate() {
            if factor.levels.len() < 2 {
                return Err(SpaceError::OneLevel(factor.name.clone()));
            }
            if factors[..index].iter().any(|other| other.name == factor.name) {
                return Err(SpaceError::Twice(factor.name.clone()));
            }
        }
        let mut first_bit = Vec::with_capacity(factors.len());
        // Each level above a default is a bit of one 64-bit mask, which makes a prediction cheap.
        let mut bits = 0;
        for factor in &factors {
            first_bit.push(bits);
            bits += factor.levels.len() - 1;
        }
        if bits > MOST_LEVELS {
            return Err(SpaceError::TooManyLevels(bits));
        }
        let space = Self { factors, conditions, first_bit, bits };
        // Checked once here: later code indexes factors and levels by conditions.
        match space.conditions.iter().find(|condition| !space.fits(condition)) {
            Some(condition) => {
                let name = space.factors.get(condition.factor).map(|factor| factor.name.clone());
                Err(SpaceError::Condition(name.unwrap_or_default()))
            }
            None => Ok(space),
        }
    }

    fn fits(&self, condition: &Condition) -> bool {
        let has = |factor: usize, level: u8| {
            self.factors.get(factor).is_some_and(|found| usize::from(level) < found.levels.len())
        };
        // The default needs no condition: it is where a level falls back to.
        has(condition.factor, condition.level.unwrap_or(0))
            && condition.level != Some(0)
            && condition.on != condition.factor
            && condition.among.iter().all(|&level| has(condition.on, level))
            && !condition.among.is_empty()
    }

    /// The factors in order.
    pub fn factors(&self) -> &[Factor] {
        &self.factors
    }

    /// Levels above the defaults, over all factors.
    pub(crate) fn bits(&self) -> usize {
        self.bits
    }

    /// Every factor at its default.
    pub fn default_configuration(&self) -> Configuration {
        Configuration(vec![0; self.factors.len()])
    }

    /// The valid configuration with these levels by name; `None` where a name is unknown. Factors that are not named have
    /// their default.
    pub fn configuration<'a>(
        &self,
        levels: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Option<Configuration> {
        let mut configuration = self.default_configuration();
        for (name, level) in levels {
            let factor = self.factors.iter().position(|factor| factor.name == name)?;
            let level = self.factors[factor].levels.iter().position(|known| known == level)?;
            configuration.0[factor] = u8::try_from(level).ok()?;
        }
        // Two lists that act the same must be one configuration, or it would be tried twice.
        Some(self.canonical(configuration))
    }

    /// Name and level of every factor that is not at its default.
    pub fn describe(&self, configuration: &Configuration) -> Vec<(&str, &str)> {
        let levels = self.factors.iter().zip(&configuration.0).filter(|(_, level)| **level > 0);
        levels
            .map(|(factor, &level)| (factor.name.as_str(), factor.levels[level as usize].as_str()))
            .collect()
    }

    /// The configuration with one factor at another level, and what then has no effect at its default.
    pub fn with(&self, configuration: &Configuration, factor: usize, level: u8) -> Configuration {
        let mut changed = configuration.clone();
        changed.0[factor] = level;
        self.canonical(changed)
    }

    /// The configuration without each of its settings, with the index of the factor.
    pub fn without_each(&self, configuration: &Configuration) -> Vec<(usize, Configuration)> {
        (0..self.factors.len())
            .filter(|&factor| configuration.level(factor) > 0)
            .map(|factor| (factor, self.with(configuration, factor, 0)))
            .collect()
    }

    /// The same configuration with everything that has no effect at its default.
    fn canonical(&self, mut configuration: Configuration) -> Configuration {
        // Each round sets at least one factor to its default, so there are at most as many rounds as factors.
        loop {
            let idle = self.conditions.iter().find(|condition| {
                let level = configuration.0[condition.factor];
                level > 0
                    && condition.level.is_none_or(|only| only == level)
                    && !condition.among.contains(&configuration.0[condition.on])
            });
            match idle {
                Some(condition) => configuration.0[condition.factor] = 0,
                None => return configuration,
            }
        }
    }

    /// Whether every level in it has an effect.
    fn is_canonical(&self, configuration: &Configuration) -> bool {
        self.canonical(configuration.clone()) == *configuration
    }

    /// The levels above the defaults as bits.
    pub(crate) fn mask(&self, configuration: &Configuration) -> u64 {
        let levels = configuration.0.iter().zip(&self.first_bit).filter(|(level, _)| **level > 0);
        levels.fold(0, |mask, (&level, &first)| mask | 1 << (first + usize::from(level) - 1))
    }

    /// The factor and the level of a bit.
    pub(crate) fn level_of(&self, bit: usize) -> (usize, u8) {
        // Factors have ascending bits, so the last first bit that is not above is its own.
        let factor = self.first_bit.partition_point(|&first| first <= bit) - 1;
        let level = bit - self.first_bit[factor] + 1;
        // A factor has at most 65 levels.
        (factor, u8::try_from(level).unwrap_or(u8::MAX))
    }

    /// The configurations one step away: each factor at each of its other levels. A change of a factor on which others
    /// depend is also combined with each level of those, because such a change alone may be worthless.
    pub(crate) fn neighbours(&self, configuration: &Configuration) -> Vec<Configuration> {
        let mut found = Vec::new();
        for (factor, levels) in self.factors.iter().enumerate() {
            for level in (0..levels.levels.len()).filter_map(|level| u8::try_from(level).ok()) {
                let changed = self.with(configuration, factor, level);
                found.extend(self.dependents_of(&changed, factor, level));
                found.push(changed);
            }
        }
        // A change may fall back to where it began.
        found.retain(|other| other != configuration);
        found
    }

    fn dependents_of(&self, changed: &Configuration, on: usize, level: u8) -> Vec<Configuration> {
        let enabled = self
            .conditions
            .iter()
            .filter(|condition| condition.on == on && condition.among.contains(&level));
        enabled
            .flat_map(|condition| {
                let levels = 1..self.factors[condition.factor].levels.len();
                levels
                    .filter_map(|level| u8::try_from(level).ok())
                    .map(|dependent| self.with(changed, condition.factor, dependent))
            })
            .collect()
    }

    /// A random valid configuration that is not the default.
    pub(crate) fn random(&self, rng: &mut SeededRng) -> Configuration {
        // Conditions can turn every draw into the default, which is in each block already.
        loop {
            let mut drawn = self.default_configuration();
            for (level, factor) in drawn.0.iter_mut().zip(&self.factors) {
                // `uniform` is below 1, so this stays below the number of levels.
                let any = (rng.uniform() * factor.levels.len() as f64) as u8;
                *level = if rng.uniform() < LEFT_AT_DEFAULT { 0 } else { any };
            }
            let drawn = self.canonical(drawn);
            if !drawn.is_default() {
                return drawn;
            }
        }
    }

    /// Every valid configuration; `None` where there are too many combinations to enumerate.
    pub fn all(&self) -> Option<Vec<Configuration>> {
        // Checked at every factor, because the product of many overflows.
        let combinations = self.factors.iter().try_fold(1_u64, |product, factor| {
            product.checked_mul(factor.levels.len() as u64).filter(|&n| n <= MOST_COMBINATIONS)
        })?;
        let mut found = Vec::new();
        let mut next = self.default_configuration();
        for _ in 0..combinations {
            if self.is_canonical(&next) {
                found.push(next.clone());
            }
            self.advance(&mut next);
        }
        Some(found)
    }

    /// The next combination, as an odometer counts.
    fn advance(&self, configuration: &mut Configuration) {
        for (level, factor) in configuration.0.iter_mut().zip(&self.factors) {
            *level += 1;
            if usize::from(*level) < factor.levels.len() {
                return;
            }
            *level = 0;
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn factor(name: &str, levels: &[&str]) -> Factor {
        Factor {
            name: name.into(),
            levels: levels.iter().map(|level| (*level).to_owned()).collect(),
        }
    }

    /// Arenas are those of the system's allocator, decay is jemalloc's.
    pub(crate) fn small() -> Space {
        let factors = vec![
            factor("allocator", &["system", "jemalloc"]),
            factor("arena_max", &["default", "2", "1"]),
            factor("decay", &["default", "0"]),
        ];
        let conditions = vec![
            Condition { factor: 1, level: None, on: 0, among: vec![0] },
            Condition { factor: 2, level: None, on: 0, among: vec![1] },
        ];
        Space::new(factors, conditions).unwrap()
    }

    #[test]
    fn only_combinations_in_which_every_level_has_an_effect_are_valid() {
        let space = small();
        let all = space.all().unwrap();
        let described: Vec<_> = all.iter().map(|one| space.describe(one)).collect();
        assert_eq!(
            described,
            [
                vec![],
                vec![("allocator", "jemalloc")],
                vec![("arena_max", "2")],
                vec![("arena_max", "1")],
                vec![("allocator", "jemalloc"), ("decay", "0")],
            ]
        );
        let mixed = space.configuration([("allocator", "jemalloc"), ("arena_max", "2")]).unwrap();
        assert_eq!(space.describe(&mixed), [("allocator", "jemalloc")]);
        assert_eq!(space.configuration([("allocator", "tcmalloc")]), None);
    }

    #[test]
    fn a_change_of_allocator_is_also_tried_with_the_settings_that_it_enables() {
        let space = small();
        let neighbours = space.neighbours(&space.default_configuration());
        let both = space.configuration([("allocator", "jemalloc"), ("decay", "0")]).unwrap();
        assert!(neighbours.contains(&both), "{neighbours:?}");
        assert!(!neighbours.contains(&space.default_configuration()));
    }

    #[test]
    fn every_level_has_a_bit_of_its_own() {
        let space = small();
        assert_eq!(space.bits(), 4);
        let levels: Vec<_> = (0..4).map(|bit| space.level_of(bit)).collect();
        assert_eq!(levels, [(0, 1), (1, 1), (1, 2), (2, 1)]);
        for (bit, (factor, level)) in levels.into_iter().enumerate() {
            let mut only = space.default_configuration();
            only.0[factor] = level;
            assert_eq!(space.mask(&only), 1 << bit);
        }
    }

    #[test]
    fn random_configurations_are_valid_and_never_the_default() {
        let space = small();
        let all = space.all().unwrap();
        let mut rng = SeededRng::new(5);
        for _ in 0..200 {
            let drawn = space.random(&mut rng);
            assert!(all.contains(&drawn) && !drawn.is_default(), "{drawn:?}");
        }
    }

    #[test]
    fn what_cannot_be_searched_is_refused_by_name() {
        let two = |name: &str| factor(name, &["a", "b"]);
        let condition = |factor, on, among| Condition { factor, level: None, on, among };
        let many: Vec<Factor> = (0..65).map(|n| two(&n.to_string())).collect();
        for (factors, conditions, expected) in [
            (vec![], vec![], SpaceError::Empty),
            (vec![factor("x", &["a"])], vec![], SpaceError::OneLevel("x".into())),
            (vec![two("x"), two("x")], vec![], SpaceError::Twice("x".into())),
            (many, vec![], SpaceError::TooManyLevels(65)),
            (vec![two("x")], vec![condition(0, 1, vec![0])], SpaceError::Condition("x".into())),
            (vec![two("x")], vec![condition(0, 0, vec![0])], SpaceError::Condition("x".into())),
            (
                vec![two("x"), two("y")],
                vec![condition(0, 1, vec![2])],
                SpaceError::Condition("x".into()),
            ),
            (
                vec![two("x"), two("y")],
                vec![condition(0, 1, vec![])],
                SpaceError::Condition("x".into()),
            ),
        ] {
            assert_eq!(Space::new(factors, conditions).unwrap_err(), expected);
        }
    }
}
