//! The end of a search: confirmations of what the model chose, and what its settings are worth.

use crate::config::TunedVariant;
use crate::run::tune::error::TuneError;
use crate::run::tune::events::TuneStage;
use crate::run::tune::outcome::{recommendation, refusal};
use crate::run::tune::search::{DEFAULT, ProposedBlocks, TuneSession, variant_name};
use carat_analysis::{AblatedSetting, Attempt, Hint, TuneOutcome, TunedMetric};
use carat_analysis::{Judge, Judgement, Question};
use carat_model::{Conclusion, Role, Trial};
use carat_report::numbers::limit;
use carat_tune::{Configuration, Search, SearchTrial};

/// Most blocks of the recommended configuration and of it without each of its settings.
const ABLATION_BLOCKS: u32 = 10;
/// Name of the recommended configuration there.
const RECOMMENDED: &str = "recommended";

impl TuneSession<'_> {
    /// Confirms one candidate after the other, until one is recommended or the attempts are spent.
    pub(super) fn confirm(mut self, search: &mut Search<'_>) -> Result<TuneOutcome, TuneError> {
        let mut outcome = self.empty_outcome();
        for attempt in 1..=self.spec.attempts {
            let Some(candidate) = search.candidate() else { break };
            let effects = search.choice(&[]).effects(&candidate);
            outcome.hints = effects.into_iter().map(Hint::of).collect();
            let text = self.space.text(&candidate);
            let pair = [self.space.space.default_configuration(), candidate.clone()];
            let trials = self.run(ProposedBlocks {
                stage: TuneStage::Confirm,
                done: search.trials(),
                name: format!("confirm-{attempt}"),
                blocks: self.spec.confirm_blocks,
                variants: self.variants(&pair),
                texts: self.texts(&pair),
            })?;
            let judgement = self.judge(&trials);
            let why = refusal(judgement.confirmation, &judgement.conclusions, &self.guard_words());
            let conclusions = self.shown_conclusions(judgement.conclusions);
            let Some(why) = why else {
                let variant = self.space.variant(&candidate, text.clone());
                let own = trials.iter().filter(|trial| trial.variant == variant_name(1));
                let notes = own.flat_map(|trial| trial.notes.clone()).collect();
                outcome.recommendation = Some(recommendation(text, variant, conclusions, notes));
                if self.options.ablate {
                    outcome.ablation = self.ablate(&candidate, search.trials())?;
                }
                break;
            };
            outcome.attempts.push(Attempt { text, why, conclusions });
            // The model learns from it, so that the next candidate is another one.
            search.observe_confirmation(&candidate, &self.blocks_of(&pair, &trials));
        }
        let banned = search.banned_levels();
        let mut effects = search.choice(&[]).single_effects();
        effects.retain(|effect| {
            let level = (effect.name.as_str(), effect.level.as_str());
            // Without a standard error an effect is no hint.
            effect.standard_error.is_finite() && !banned.contains(&level)
        });
        outcome.effects = effects.into_iter().map(Hint::of).collect();
        outcome.failing =
            banned.into_iter().map(|(name, level)| format!("{name}={level}")).collect();
        outcome.tried = self.tried.into_configurations(self.shown.len());
        outcome.trials = self.trials;
        outcome.seconds = self.seconds;
        Ok(outcome)
    }

    fn empty_outcome(&self) -> TuneOutcome {
        let guards = self.spec.guards.iter();
        let limits = std::iter::once(None).chain(guards.map(|(_, limit)| Some(*limit)));
        let metrics = self.shown.iter().zip(limits.chain(std::iter::repeat(None)));
        let left_out = self.space.left_out.iter();
        TuneOutcome {
            metrics: metrics
                .map(|(metric, guard)| TunedMetric { metric: metric.id.to_owned(), guard })
                .collect(),
            recommendation: None,
            attempts: Vec::new(),
            ablation: Vec::new(),
            hints: Vec::new(),
            effects: Vec::new(),
            left_out: left_out.map(|one| (one.name.to_owned(), one.why.clone())).collect(),
            failing: Vec::new(),
            tried: Vec::new(),
            trials: 0,
            seconds: 0.0,
        }
    }

    /// What follows from the trials of a confirmation.
    fn judge(&self, trials: &[Trial]) -> Judgement {
        let candidate = variant_name(1);
        let guards = self.spec.guards.iter();
        Judge::new(Question {
            margin: self.spec.margin,
            guards: guards.map(|(metric, limit)| (metric.id.to_owned(), *limit)).collect(),
            max_blocks: self.spec.confirm_blocks,
            attempts: Some(self.spec.attempts),
            ..Question::new(&[DEFAULT, &candidate], self.spec.least.id)
        })
        .judge(trials)
    }

    /// The conclusions about the goal and the guards, in the order of the file, and about what is only reported.
    fn shown_conclusions(&self, conclusions: Vec<Conclusion>) -> Vec<Conclusion> {
        let mut shown = conclusions;
        shown.retain(|one| {
            one.role != Role::Exploratory || self.shown.iter().any(|metric| metric.id == one.metric)
        });
        shown
    }

    /// What each guard limits, in words.
    fn guard_words(&self) -> Vec<String> {
        let guards = self.spec.guards.iter();
        guards
            .map(|(metric, share)| format!("limit of {} in {}", limit(*share), metric.id))
            .collect()
    }

    fn blocks_of(&self, pair: &[Configuration], trials: &[Trial]) -> Vec<Vec<SearchTrial>> {
        let last = trials.iter().map(|trial| trial.block).max().unwrap_or(0);
        (1..=last).map(|block| self.outcomes(pair, trials, block)).collect()
    }

    /// Which of a configuration's settings does the work: compares it with itself without each of them. Nothing where it has
    /// a single one, because its confirmation says that already.
    fn ablate(
        &mut self,
        configuration: &Configuration,
        done: usize,
    ) -> Result<Vec<AblatedSetting>, TuneError> {
        let space = self.space;
        let without = space.space.without_each(configuration);
        if without.len() < 2 {
            return Ok(Vec::new());
        }
        let mut variants = vec![space.variant(configuration, RECOMMENDED.into())];
        let mut settings = Vec::new();
        for (factor, less) in without {
            let name = format!("without {}", space.space.factors()[factor].name);
            settings.push((name.clone(), space.difference(configuration, &less)));
            variants.push(space.variant(&less, name));
        }
        let names: Vec<String> =
            variants.iter().map(|TunedVariant { name, .. }| name.clone()).collect();
        let trials = self.run(ProposedBlocks {
            stage: TuneStage::Ablate,
            done,
            name: "ablate".into(),
            blocks: ABLATION_BLOCKS,
            // The first is the baseline, which has no words.
            texts: names[1..].to_vec(),
            variants,
        })?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let question = Question {
            margin: self.spec.margin,
            max_blocks: ABLATION_BLOCKS,
            ..Question::new(&names, self.spec.least.id)
        };
        let conclusions = Judge::new(question).judge(&trials).conclusions.into_iter();
        let primary = conclusions.filter(|one| one.role == Role::Primary);
        let found = primary.filter_map(|conclusion| {
            let setting = settings.iter().find(|(name, _)| *name == conclusion.variant)?;
            Some(AblatedSetting { setting: setting.1.clone(), conclusion })
        });
        Ok(found.collect())
    }
}
