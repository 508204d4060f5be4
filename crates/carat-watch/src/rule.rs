//! Rules such as `worker.pss > 800m`: what they mean, and of which process they hold now. Pure: nothing is run here.

use carat_model::Bytes;
use carat_model::host::ProcessRole;
use carat_model::watch::{GroupSample, WatchedProcess};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// A condition as the user wrote it.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    text: String,
    subject: RuleSubject,
    above: RuleAmount,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RuleSubject {
    /// A figure of each process with this role; of each Ruby where there is none.
    Process(Option<ProcessRole>, RuleFigure),
    /// What is used of the limit of a control group, for its largest worker.
    Group,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RuleFigure {
    Rss,
    Pss,
    Private,
    Swap,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum RuleAmount {
    Bytes(u64),
    /// Of the nearest limit, as a fraction.
    OfLimit(f64),
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Rule {
    /// Parses a condition.
    ///
    /// # Errors
    /// What is wrong with it, and an example.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| {
            format!(
                "`{text}` is no rule: {what}; write for example 'worker.pss > 800m' or 'group.used > 90%'"
            )
        };
        let (subject, amount) = text.split_once('>').ok_or_else(|| wrong("it has no >"))?;
        let (who, figure) =
            subject.trim().split_once('.').ok_or_else(|| wrong("no figure is named"))?;
        let role = match who {
            "worker" => Some(ProcessRole::Worker),
            "master" => Some(ProcessRole::Master),
            "single" => Some(ProcessRole::Single),
            "process" | "group" => None,
            _ => return Err(wrong("it is about worker, master, single, process or group")),
        };
        let subject = match (who, figure) {
            ("group", "used") => RuleSubject::Group,
            ("group", _) => return Err(wrong("of a group there is `used`")),
            (_, "rss") => RuleSubject::Process(role, RuleFigure::Rss),
            (_, "pss") => RuleSubject::Process(role, RuleFigure::Pss),
            (_, "private") => RuleSubject::Process(role, RuleFigure::Private),
            (_, "swap") => RuleSubject::Process(role, RuleFigure::Swap),
            _ => return Err(wrong("the figures are rss, pss, private and swap")),
        };
        let above = amount_of(amount.trim()).ok_or_else(|| wrong("the amount is no size"))?;
        Ok(Self { text: text.trim().to_owned(), subject, above })
    }

    /// Whether it holds; `None` where a figure of it is unknown.
    fn holds(&self, one: &RuleProcess<'_>) -> Option<bool> {
        let group = one.group;
        let found = match self.subject {
            RuleSubject::Process(role, figure) => {
                if role.is_some_and(|role| role != one.process.role) {
                    return Some(false);
                }
                match figure {
                    RuleFigure::Rss => one.rss,
                    RuleFigure::Pss => one.pss,
                    RuleFigure::Private => one.private,
                    RuleFigure::Swap => one.swap,
                }
            }
            // Of a group the answer is to end one of its workers, since the others would take the server along.
            RuleSubject::Group if one.process.role != ProcessRole::Worker => return Some(false),
            RuleSubject::Group => group.and_then(|group| group.used),
        }?;
        let above = match self.above {
            RuleAmount::Bytes(bytes) => bytes as f64,
            // Unknown without a limit: nothing is ended because of a figure that nobody knows.
            RuleAmount::OfLimit(share) => group?.limit?.0 as f64 * share,
        };
        Some(found.0 as f64 > above)
    }
}

/// Bytes of `800m`, or the share of `90%`.
fn amount_of(text: &str) -> Option<RuleAmount> {
    if let Some(percent) = text.strip_suffix('%') {
        let percent: f64 = percent.trim().parse().ok()?;
        return (percent > 0.0 && percent <= 100.0).then_some(RuleAmount::OfLimit(percent / 100.0));
    }
    parse_size(text).ok().filter(|bytes| *bytes > 0).map(RuleAmount::Bytes)
}

/// Bytes of a size such as `500m`; the units are decimal, as everywhere in Carat.
///
/// # Errors
/// Where it is none, with an example.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no size; write for example 500m or 2g");
    let (number, unit) =
        text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?);
    let unit: u64 = match unit.to_ascii_lowercase().as_str() {
        "k" | "kb" => 1_000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    let number: u64 = number.trim().parse().map_err(|_| wrong())?;
    number.checked_mul(unit).ok_or_else(wrong)
}

/// What a rule may ask of a process.
#[derive(Debug, Clone, Copy)]
pub struct RuleProcess<'a> {
    pub process: &'a WatchedProcess,
    pub rss: Option<Bytes>,
    /// Known only where it was read a moment ago.
    pub pss: Option<Bytes>,
    pub private: Option<Bytes>,
    pub swap: Option<Bytes>,
    pub group: Option<&'a GroupSample>,
}

/// How often, and how many must be left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleBounds {
    /// The shortest time between two actions of one rule.
    pub pause: Duration,
    /// Processes with the role of the chosen one that must be left in its tree.
    pub left: usize,
}

/// A process for which a rule holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleAnswer {
    /// The place of the rule.
    pub rule: usize,
    /// The number of the process in the store.
    pub process: i64,
    /// Why nothing is done although it holds.
    pub refused: Option<String>,
}

/// Rules with what they did.
#[derive(Debug, Default)]
pub struct RuleWatch {
    rules: Vec<Rule>,
    last: BTreeMap<usize, Duration>,
    /// For which processes each held in the round before.
    held: BTreeSet<(usize, i64)>,
}

impl RuleWatch {
    pub fn new(rules: Vec<Rule>) -> Self {
        Self { rules, ..Self::default() }
    }

    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// What is to be done: at most one process a rule, the largest, and only if the rule held in the round before too.
    pub fn decide(
        &mut self,
        all: &[RuleProcess<'_>],
        bounds: RuleBounds,
        now: Duration,
    ) -> Vec<RuleAnswer> {
        let mut answers = Vec::new();
        let mut held = BTreeSet::new();
        for (place, rule) in self.rules.iter().enumerate() {
            let mut holding: Vec<&RuleProcess<'_>> =
                all.iter().filter(|one| rule.holds(one) == Some(true)).collect();
            // The largest: ending it frees most, and the number makes equal ones a fixed order.
            holding.sort_by_key(|one| std::cmp::Reverse((one.pss.or(one.rss), one.process.number)));
            held.extend(holding.iter().map(|one| (place, one.process.number)));
            // One round may be a peak that is over by the next.
            let twice = |one: &&&RuleProcess<'_>| self.held.contains(&(place, one.process.number));
            let Some(chosen) = holding.iter().find(twice) else { continue };
            if self.last.get(&place).is_some_and(|last| now.saturating_sub(*last) < bounds.pause) {
                continue;
            }
            // Also where it is refused below, or the refusal would be said in every round.
            self.last.insert(place, now);
            let others = all.iter().filter(|one| {
                one.process.tree == chosen.process.tree
                    && one.process.role == chosen.process.role
                    && one.process.number != chosen.process.number
            });
            let others = others.count();
            let refused = (others < bounds.left).then(|| {
                format!(
                    "{others} of its kind would be left in its tree, and {} must be",
                    bounds.left
                )
            });
            answers.push(RuleAnswer { rule: place, process: chosen.process.number, refused });
        }
        self.held = held;
        answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: RuleBounds = RuleBounds { pause: Duration::from_secs(600), left: 1 };

    fn worker(number: i64, tree: u32) -> WatchedProcess {
        WatchedProcess { number, tree, role: ProcessRole::Worker, ..WatchedProcess::default() }
    }

    fn of<'a>(
        process: &'a WatchedProcess,
        megabytes: Option<u64>,
        group: &'a GroupSample,
    ) -> RuleProcess<'a> {
        let pss = megabytes.map(|mb| Bytes(mb * 1_000_000));
        RuleProcess { process, rss: None, pss, private: None, swap: None, group: Some(group) }
    }

    fn group(used: u64) -> GroupSample {
        GroupSample { used: Some(Bytes(used)), limit: Some(Bytes(1000)), ..GroupSample::default() }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn watch(rule: &str) -> RuleWatch {
        RuleWatch::new(vec![Rule::parse(rule).unwrap()])
    }

    #[test]
    fn a_rule_acts_on_the_largest_once_in_its_time_and_only_if_it_held_twice() {
        let (one, two, group) = (worker(1, 9), worker(2, 9), group(0));
        let all = [of(&one, Some(810), &group), of(&two, Some(900), &group)];
        let mut rules = watch("worker.pss > 800m");
        assert!(rules.decide(&all, BOUNDS, at(0)).is_empty(), "a peak");
        let answer = RuleAnswer { rule: 0, process: 2, refused: None };
        assert_eq!(rules.decide(&all, BOUNDS, at(10)), std::slice::from_ref(&answer));
        assert!(rules.decide(&all, BOUNDS, at(20)).is_empty(), "too soon");
        assert_eq!(rules.decide(&all, BOUNDS, at(611)), [answer]);
    }

    #[test]
    fn unknown_is_never_above_and_another_role_is_not_meant() {
        let (one, group) = (worker(1, 9), group(0));
        let master = WatchedProcess { role: ProcessRole::Master, ..worker(2, 9) };
        let all = [of(&one, None, &group), of(&master, Some(900), &group)];
        let mut rules = watch("worker.pss > 800m");
        for second in [0, 10] {
            assert!(rules.decide(&all, BOUNDS, at(second)).is_empty());
        }
    }

    #[test]
    fn the_last_worker_is_left_and_that_is_said() {
        let (one, other, group) = (worker(1, 9), worker(2, 8), group(0));
        let all = [of(&one, Some(900), &group), of(&other, Some(1), &group)];
        let mut rules = watch("worker.pss > 800m");
        rules.decide(&all, BOUNDS, at(0));
        let answers = rules.decide(&all, BOUNDS, at(10));
        assert_eq!(
            answers[0].refused.as_deref(),
            Some("0 of its kind would be left in its tree, and 1 must be")
        );
    }

    #[test]
    fn of_a_group_near_its_limit_the_largest_worker_is_chosen() {
        let (one, two, group) = (worker(1, 9), worker(2, 9), group(950));
        let all = [of(&one, Some(5), &group), of(&two, Some(6), &group)];
        let mut rules = watch("group.used > 90%");
        rules.decide(&all, BOUNDS, at(0));
        assert_eq!(rules.decide(&all, BOUNDS, at(10))[0].process, 2);
        let mut higher = watch("group.used > 96%");
        higher.decide(&all, BOUNDS, at(0));
        assert!(higher.decide(&all, BOUNDS, at(10)).is_empty());
    }

    #[test]
    fn what_is_no_rule_is_refused_with_an_example() {
        for wrong in [
            "worker.pss",
            "worker > 3m",
            "cook.pss > 3m",
            "worker.size > 3m",
            "worker.pss > 3",
            "group.pss > 3m",
            "worker.pss > 0m",
            "group.used > 120%",
        ] {
            let error = Rule::parse(wrong).unwrap_err();
            assert!(error.contains("write for example 'worker.pss > 800m'"), "{error}");
        }
        assert_eq!(Rule::parse(" process.swap > 1g ").unwrap().to_string(), "process.swap > 1g");
    }
}
