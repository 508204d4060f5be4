//! The scenarios of a load, checked and compiled once before it begins.

use crate::http::scenario::data::DataRows;
use crate::http::scenario::encoding::Encoding;
use crate::http::scenario::location::Origin;
use crate::http::scenario::secrets::{SecretValues, UsedVariables};
use crate::http::scenario::take::ValueFinder;
use crate::http::scenario::template::{KnownNames, Template, environment_value};
use crate::net::Address;
use crate::target::Target;
use carat_model::load::{HttpLoad, HttpRoute, HttpScenario, HttpStep, StepBody};
use carat_model::{TextPart, text_parts};

/// Most steps of all scenarios: two rows of counts each, numbered by 16 bits.
const STEPS_MAX: usize = 10_000;

/// All scenarios of a load, and the values of its users.
#[derive(Debug)]
pub struct ScenarioSet {
    pub(super) scenarios: Vec<CompiledScenario>,
    /// Cumulated weights.
    pub bounds: Vec<u64>,
    pub(super) data: DataRows,
    pub(super) origin: Origin,
    /// Whether `Secure` cookies are sent: over TLS and, as browsers do, to this machine.
    pub(super) secure: bool,
    /// Users of all threads.
    pub(super) users: u64,
    /// How many visits a user keeps.
    pub(super) visits: usize,
    /// Variables of the environment that are in requests.
    pub(super) secrets: SecretValues,
}

#[derive(Debug)]
pub(super) struct CompiledScenario {
    pub(super) name: String,
    pub(super) steps: Vec<CompiledStep>,
    /// How many values its steps take.
    pub(super) slots: usize,
    /// Which of the user's visits it goes through; scenarios without `once` share the first, each as a new visitor.
    pub(super) visit: usize,
}

impl CompiledScenario {
    /// The next step from a place on, left out those that this user needs only once.
    pub(super) fn step_from(&self, place: usize, prepared: bool) -> Option<usize> {
        let mut rest = (place..).zip(self.steps.iter().skip(place));
        rest.find(|(_, step)| !(prepared && step.once)).map(|(place, _)| place)
    }
}

#[derive(Debug)]
pub(super) struct CompiledStep {
    /// Its number among the steps of all scenarios.
    pub(super) number: u16,
    pub(super) method: String,
    /// Method and path as written.
    pub(super) label: String,
    pub(super) path: Template,
    /// Value of the header `Host`.
    pub(super) host: Template,
    pub(super) headers: Template,
    pub(super) body: Option<StepContent>,
    /// Where each value is kept, its name, and where it is in the response.
    pub(super) takes: Vec<(usize, String, ValueFinder)>,
    pub(super) expect_status: Option<u16>,
    pub(super) expect_body: Option<Template>,
    pub(super) expect_text: Option<Template>,
    /// Nanoseconds until the user's next request.
    pub(super) think: u64,
    pub(super) follow: bool,
    /// Whether a user sends it only in the first pass.
    pub(super) once: bool,
}

/// What a step sends.
#[derive(Debug)]
pub(super) struct StepContent {
    /// Value of `Content-Type`, unless the step sets one.
    pub(super) kind: Option<&'static str>,
    pub(super) text: Template,
}

impl CompiledStep {
    /// Whether the whole body of the response is needed.
    pub(super) fn needs_body(&self) -> bool {
        self.expect_body.is_some()
            || self.expect_text.is_some()
            || self.takes.iter().any(|(_, _, finder)| finder.needs_body())
    }
}

impl ScenarioSet {
    /// `None` for a load without scenarios. The environment has the values of `{env.NAME}`.
    ///
    /// # Errors
    /// If a placeholder, a selector or the file of data cannot be used; the message names scenario and step.
    pub fn compile(
        load: &HttpLoad,
        target: &Target,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, String> {
        if load.scenarios.is_empty() {
            return Ok(None);
        }
        // Numbers of rows have 16 bits, and each step has two rows.
        if load.scenarios.iter().map(|scenario| scenario.steps.len()).sum::<usize>() > STEPS_MAX {
            return Err(format!("load.http.scenario: more than {STEPS_MAX} steps: use fewer"));
        }
        let data = match &load.data {
            Some(file) => DataRows::read(file)?,
            None => DataRows::default(),
        };
        // Collected while templates are compiled: only what is used can be echoed.
        let variables = UsedVariables::default();
        let compiler = StepCompiler {
            host: &target.host,
            columns: &data.columns,
            environment: &|name| variables.used(name, environment(name)),
        };
        let (mut scenarios, mut first, mut visits) = (Vec::new(), 0, 1);
        for scenario in &load.scenarios {
            let mut compiled = compiler.scenario(scenario, first)?;
            // Visit 0 is shared by scenarios that begin anew each time: it remembers nothing.
            if scenario.steps.iter().any(|step| step.once) {
                compiled.visit = visits;
                visits += 1;
            }
            scenarios.push(compiled);
            first += scenario.steps.len() as u16;
        }
        let bounds = load.scenarios.iter().scan(0, |sum, scenario| {
            *sum += u64::from(scenario.weight);
            Some(*sum)
        });
        let (bounds, secrets) = (bounds.collect(), variables.secrets());
        let origin = Origin { tls: target.tls_name.is_some(), host: target.host.clone() };
        // Browsers treat loopback as secure, so `Secure` cookies of a local server are sent.
        let secure = origin.tls || is_this_machine(&target.address);
        let users = u64::from(load.connections);
        Ok(Some(Self { scenarios, bounds, data, origin, secure, users, visits, secrets }))
    }

    /// A text from the server without the values of the environment that the load sends.
    pub fn without_secrets(&self, text: String) -> String {
        self.secrets.masked(text)
    }

    /// Each row of the counts: scenario, step from 1 on, method with path, and whether it was redirected.
    pub fn rows(&self) -> impl Iterator<Item = (&str, u32, &str, bool)> {
        self.scenarios.iter().flat_map(|scenario| {
            (1..).zip(&scenario.steps).flat_map(move |(number, step)| {
                [false, true].map(|redirected| {
                    (scenario.name.as_str(), number, step.label.as_str(), redirected)
                })
            })
        })
    }
}

struct StepCompiler<'a> {
    host: &'a str,
    columns: &'a [String],
    environment: &'a dyn Fn(&str) -> Option<String>,
}

impl StepCompiler<'_> {
    fn scenario(&self, scenario: &HttpScenario, first: u16) -> Result<CompiledScenario, String> {
        let (mut steps, mut taken) = (Vec::new(), Vec::new());
        for (number, step) in (first..).zip(&scenario.steps) {
            let compiled = self.step(step, number, &mut taken).map_err(|what| {
                let step = number - first + 1;
                format!("load.http.scenario `{}`, step {step}: {what}", scenario.name)
            })?;
            steps.push(compiled);
        }
        Ok(CompiledScenario { name: scenario.name.clone(), steps, slots: taken.len(), visit: 0 })
    }

    fn step(
        &self,
        step: &HttpStep,
        number: u16,
        taken: &mut Vec<String>,
    ) -> Result<CompiledStep, String> {
        let mut takes = Vec::new();
        // Before its own values are taken: a request cannot contain what its response brings.
        let (path, host, headers, body) = {
            let names = self.names(taken);
            (
                Template::path(&step.path, &names)?,
                self.host(step, &names)?,
                self.headers(step, &names)?,
                content(step, &names)?,
            )
        };
        for (name, from) in &step.take {
            if self.columns.contains(name) {
                return Err(format!(
                    "`{name}` is a column of the data: take the value under another name"
                ));
            }
            // The same name in a later step replaces the value of an earlier one.
            let slot = taken.iter().position(|own| own == name).unwrap_or_else(|| {
                taken.push(name.clone());
                taken.len() - 1
            });
            takes.push((slot, name.clone(), ValueFinder::compile(from)?));
        }
        let names = self.names(taken);
        Ok(CompiledStep {
            number,
            method: step.method.clone(),
            label: format!("{} {}", step.method, step.path),
            path,
            host,
            headers,
            body,
            takes,
            expect_status: step.expect_status,
            expect_body: expected(step.expect_body.as_deref(), &names)?,
            expect_text: expected(step.expect_text.as_deref(), &names)?,
            think: (step.think_s * 1e9) as u64,
            follow: step.follow,
            once: step.once,
        })
    }

    fn names<'b>(&'b self, taken: &'b [String]) -> KnownNames<'b> {
        KnownNames { columns: self.columns, taken, environment: self.environment }
    }

    fn host(&self, step: &HttpStep, names: &KnownNames<'_>) -> Result<Template, String> {
        let own = step.headers.iter().rev().find(|(name, _)| name.eq_ignore_ascii_case("host"));
        match own {
            Some((_, value)) => Template::compile(value, Encoding::Header, names),
            None => Ok(Template::fixed(self.host)),
        }
    }

    fn headers(&self, step: &HttpStep, names: &KnownNames<'_>) -> Result<Template, String> {
        let mut headers = Template::default();
        if !has_header(step, "host") {
            headers.push(&format!("Host: {}\r\n", self.host), Encoding::Header, names)?;
        }
        for (name, value) in &step.headers {
            headers.push(name, Encoding::Header, names)?;
            headers.push(": ", Encoding::Header, names)?;
            headers.push_parts(value, (Encoding::Header, Encoding::Header), names)?;
            headers.push("\r\n", Encoding::Header, names)?;
        }
        Ok(headers)
    }
}

fn is_this_machine(address: &Address) -> bool {
    match address {
        Address::Inet(address) => address.ip().is_loopback(),
        Address::Unix(_) => true,
    }
}

fn has_header(step: &HttpStep, name: &str) -> bool {
    step.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name))
}

fn expected(text: Option<&str>, names: &KnownNames<'_>) -> Result<Option<Template>, String> {
    text.map(|text| Template::compile(text, Encoding::Plain, names)).transpose()
}

fn content(step: &HttpStep, names: &KnownNames<'_>) -> Result<Option<StepContent>, String> {
    let (kind, text) = match &step.body {
        // A GET without a body has no `Content-Length` either.
        StepBody::Empty if step.method == "GET" => return Ok(None),
        StepBody::Empty => (None, Template::default()),
        StepBody::Text(text) => (None, Template::compile(text, Encoding::Plain, names)?),
        StepBody::Json(value) => {
            let text = Template::compile(&value.to_string(), Encoding::Json, names)?;
            (Some("application/json"), text)
        }
        StepBody::Form(fields) => {
            let mut text = Template::default();
            for (number, (name, value)) in fields.iter().enumerate() {
                if number > 0 {
                    text.push("&", Encoding::Form, names)?;
                }
                text.push_parts(name, (Encoding::Form, Encoding::Form), names)?;
                text.push("=", Encoding::Form, names)?;
                text.push_parts(value, (Encoding::Form, Encoding::Form), names)?;
            }
            (Some("application/x-www-form-urlencoded"), text)
        }
    };
    let kind = kind.filter(|_| !has_header(step, "content-type"));
    Ok(Some(StepContent { kind, text }))
}

/// A route with the values of `{env.NAME}`; other braces stay as they are.
///
/// # Errors
/// If a variable is not set.
pub fn environment_filled(
    route: &HttpRoute,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<HttpRoute, String> {
    let mut headers = Vec::new();
    for (name, value) in &route.headers {
        headers.push((name.clone(), filled(value, environment)?));
    }
    Ok(HttpRoute {
        path: filled(&route.path, environment)?,
        headers,
        body: filled(&route.body, environment)?,
        ..route.clone()
    })
}

fn filled(text: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut whole = String::with_capacity(text.len());
    for part in text_parts(text) {
        match part {
            TextPart::Literal(literal) => whole.push_str(literal),
            TextPart::Placeholder(name) => match name.strip_prefix("env.") {
                Some(variable) => whole.push_str(&environment_value(variable, environment)?),
                None => whole.push_str(&format!("{{{name}}}")),
            },
        }
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::resolve;
    use carat_model::{LoadSpec, LoadTable};

    fn compiled(text: &str) -> Result<Option<ScenarioSet>, String> {
        let table: LoadTable = toml::from_str(text).unwrap();
        let LoadSpec::Http(load) = table.validate().unwrap().measured("127.0.0.1:9") else {
            panic!("not an HTTP load")
        };
        let environment = |name: &str| (name == "KEY").then(|| "s3cret".to_owned());
        ScenarioSet::compile(&load, &resolve("http://127.0.0.1:9").unwrap(), &environment)
    }

    #[test]
    fn what_a_scenario_cannot_use_is_refused_with_its_step() {
        for (step, expected) in [
            (
                "{ get = '/{later}', take = { later = { regex = 'x' } } }",
                "unknown placeholder {later}",
            ),
            ("{ get = '/', headers = { A = '{env.NOT_SET}' } }", "`NOT_SET` is not set"),
            ("{ get = '/', take = { a = { css = 'a b' } } }", "not a selector"),
            ("{ get = '/', take = { a = { regex = '(' } } }", "not a regular expression"),
            ("{ post = '/', json = { a = '{none}' } }", "unknown placeholder {none}"),
            ("{ get = '/', expect_text = '{none}' }", "unknown placeholder {none}"),
        ] {
            let text = format!("[[http.scenario]]\nname = 's'\nsteps = [{{ get = '/' }}, {step}]");
            let error = compiled(&text).unwrap_err();
            let begin = "load.http.scenario `s`, step 2: ";
            assert!(error.starts_with(begin) && error.contains(expected), "{step}: {error}");
        }
        let missing =
            "[http]\ndata = '/no/such.csv'\n[[http.scenario]]\nname = 's'\nsteps = [{ get = '/' }]";
        assert!(compiled(missing).unwrap_err().starts_with("cannot read /no/such.csv"));
    }

    #[test]
    fn the_variables_that_are_used_are_secrets() {
        let text = "[http]\nheaders = { A = '{env.KEY}' }\n[[http.scenario]]\nname = 's'\nsteps = [{ get = '/' }]";
        let set = compiled(text).unwrap().unwrap();
        assert_eq!(set.without_secrets("a s3cret b".to_owned()), "a {env.KEY} b");
        assert!(compiled("[http]").unwrap().is_none());
    }
}
