//! Scenarios of an HTTP load: the steps of a session, as `[[load.http.scenario]]` has them and as the generator gets them.

use super::headers::{headers_from_table, sorted_headers};
use crate::{Span, is_placeholder_name};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// A session as a user writes it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioOptions {
    /// What reports call it.
    pub name: String,
    /// Share of the sessions relative to the other scenarios.
    #[serde(default = "one")]
    pub weight: u32,
    /// Pause after every step that has none of its own.
    #[serde(default)]
    pub think: Option<Span>,
    /// Requests in their order.
    pub steps: Vec<StepOptions>,
}

fn one() -> u32 {
    1
}

/// A step as a user writes it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StepOptions {
    /// Path of a GET request.
    pub get: Option<String>,
    /// Path of a POST request.
    pub post: Option<String>,
    /// Path of a PUT request.
    pub put: Option<String>,
    /// Path of a PATCH request.
    pub patch: Option<String>,
    /// Path of a DELETE request.
    pub delete: Option<String>,
    /// Headers beside those of the whole load.
    #[serde(deserialize_with = "headers_from_table")]
    pub headers: Vec<(String, String)>,
    /// Fields of a form, sent as `application/x-www-form-urlencoded`.
    pub form: Option<BTreeMap<String, String>>,
    /// A body of JSON.
    pub json: Option<serde_json::Value>,
    /// A body of any text.
    pub body: Option<String>,
    /// Values for later steps, by name.
    pub take: BTreeMap<String, TakeOptions>,
    /// The only correct status.
    pub expect_status: Option<u16>,
    /// The only correct body.
    pub expect_body: Option<String>,
    /// A text that the body must contain.
    pub expect_text: Option<String>,
    /// Pause after the step.
    pub think: Option<Span>,
    /// Whether redirects are followed; they are if absent.
    pub follow: Option<bool>,
    /// Whether a user sends it only in the first pass, for example to log in.
    pub once: bool,
}

/// Where a value comes from, as a user writes it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TakeOptions {
    /// A CSS selector.
    pub css: Option<String>,
    /// The attribute of the selected element; its text if absent.
    pub attribute: Option<String>,
    /// A regular expression; its first group, or the whole match, is the value.
    pub regex: Option<String>,
    /// A path such as `$.items[0].id`.
    pub json: Option<String>,
    /// A header of the response.
    pub header: Option<String>,
}

/// The scenarios of a file of their own, or of an experiment file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ScenarioTable {
    pub scenario: Vec<ScenarioOptions>,
    /// File with the users' values.
    pub data: Option<String>,
    /// Headers of every request.
    #[serde(deserialize_with = "headers_from_table")]
    pub headers: Vec<(String, String)>,
}

#[derive(Debug, Deserialize)]
struct ScenarioFile {
    load: Option<ScenarioLoads>,
    #[serde(flatten)]
    own: ScenarioTable,
}

#[derive(Debug, Deserialize)]
struct ScenarioLoads {
    http: Option<ScenarioTable>,
}

impl ScenarioTable {
    /// Reads `[[scenario]]`, or `[[load.http.scenario]]` of an experiment file. The file of data is relative to `folder`.
    ///
    /// # Errors
    /// If the text is malformed or has no scenario.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        let file: ScenarioFile = toml::from_str(text).map_err(|error| error.to_string())?;
        // An experiment file has the table inside `[load.http]`, a file of scenarios at its top.
        let mut table = file.load.and_then(|load| load.http).unwrap_or(file.own);
        if table.scenario.is_empty() {
            let message = "it has neither [[scenario]] nor [[load.http.scenario]]: add one";
            return Err(message.to_owned());
        }
        table.data = table.data.map(|data| folder.join(data).display().to_string());
        Ok(table)
    }
}

/// A session that users go through again and again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HttpScenario {
    /// What reports call it.
    pub name: String,
    /// Share of the sessions relative to the other scenarios.
    pub weight: u32,
    /// Requests in their order.
    pub steps: Vec<HttpStep>,
}

/// One request of a session. Its texts can have placeholders.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HttpStep {
    /// Method in capitals.
    pub method: String,
    /// Path with its query.
    pub path: String,
    /// Header names and values, those of the whole load included.
    pub headers: Vec<(String, String)>,
    /// What is sent.
    pub body: StepBody,
    /// Values for later steps, by name.
    pub take: Vec<(String, TakeFrom)>,
    /// The only correct status; without one every 2xx and 3xx is correct.
    pub expect_status: Option<u16>,
    /// The only correct body, byte for byte.
    pub expect_body: Option<String>,
    /// A text that the body must contain.
    pub expect_text: Option<String>,
    /// Pause after the step, in seconds.
    pub think_s: f64,
    /// Whether redirects are followed.
    pub follow: bool,
    /// Whether a user sends it only in the first pass. Absent if not, so that plans without such a step keep their hash.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub once: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepBody {
    /// None.
    Empty,
    /// Any text.
    Text(String),
    /// Fields of a form.
    Form(BTreeMap<String, String>),
    Json(serde_json::Value),
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TakeFrom {
    /// An element of an HTML page.
    Css {
        /// Which element.
        selector: String,
        /// Its attribute; its text if `None`.
        attribute: Option<String>,
    },
    /// A regular expression.
    Regex(String),
    /// A path in JSON.
    Json(String),
    Header(String),
}

impl ScenarioOptions {
    /// The scenario with the headers of the whole load.
    ///
    /// # Errors
    /// If a step contradicts itself; the message names it.
    pub(super) fn validate(&self, headers: &[(String, String)]) -> Result<HttpScenario, String> {
        if self.steps.is_empty() {
            return Err(format!("`{}` has no steps", self.name));
        }
        // After the first pass such a user would have nothing to send.
        if self.steps.iter().all(|step| step.once) {
            return Err(format!(
                "every step of `{}` has `once`, so nothing is left to repeat: add a step without it",
                self.name
            ));
        }
        let mut steps = Vec::new();
        for (number, step) in (1..).zip(&self.steps) {
            let valid = step.validate(headers, self.think);
            steps.push(valid.map_err(|what| format!("`{}`, step {number}: {what}", self.name))?);
        }
        Ok(HttpScenario { name: self.name.clone(), weight: self.weight, steps })
    }
}

impl StepOptions {
    fn validate(
        &self,
        headers: &[(String, String)],
        think: Option<Span>,
    ) -> Result<HttpStep, String> {
        let (method, path) = self.request().ok_or_else(|| {
            "needs exactly one of `get`, `post`, `put`, `patch` and `delete`".to_owned()
        })?;
        // A placeholder may be a whole path or URL that a page linked to.
        if !path.starts_with(['/', '{']) {
            return Err(format!("path `{path}` must start with `/` or a placeholder"));
        }
        let body = self.sent()?;
        // Servers may ignore or refuse it (RFC 9110, 9.3.1).
        if method == "GET" && body != StepBody::Empty {
            return Err("a GET request has no body: use `post`".to_owned());
        }
        // A step's header replaces the load's of the same name, because the later one counts.
        let own = headers.iter().chain(&self.headers).cloned().collect::<Vec<_>>();
        let mut take = Vec::new();
        for (name, options) in &self.take {
            take.push((name.clone(), options.source(name)?));
        }
        Ok(HttpStep {
            method: method.to_owned(),
            path: path.to_owned(),
            headers: sorted_headers(&own),
            body,
            take,
            expect_status: self.expect_status,
            expect_body: self.expect_body.clone(),
            expect_text: self.expect_text.clone(),
            think_s: self.think.or(think).map_or(0.0, Span::as_seconds),
            follow: self.follow.unwrap_or(true),
            once: self.once,
        })
    }

    fn request(&self) -> Option<(&'static str, &str)> {
        let all = [
            ("GET", &self.get),
            ("POST", &self.post),
            ("PUT", &self.put),
            ("PATCH", &self.patch),
            ("DELETE", &self.delete),
        ];
        let mut given =
            all.into_iter().filter_map(|(method, path)| Some((method, path.as_deref()?)));
        // Exactly one: two methods would be two requests.
        given.next().filter(|_| given.next().is_none())
    }

    fn sent(&self) -> Result<StepBody, String> {
        match (&self.form, &self.json, &self.body) {
            (None, None, None) => Ok(StepBody::Empty),
            (Some(form), None, None) => Ok(StepBody::Form(form.clone())),
            (None, Some(json), None) => Ok(StepBody::Json(json.clone())),
            (None, None, Some(text)) => Ok(StepBody::Text(text.clone())),
            _ => Err("`form`, `json` and `body` exclude each other: keep one".to_owned()),
        }
    }
}

impl TakeOptions {
    fn source(&self, name: &str) -> Result<TakeFrom, String> {
        // `{user}` and `{env.NAME}` have meanings of their own.
        if !is_placeholder_name(name) || name.contains('.') || name == "user" {
            return Err(format!(
                "`{name}` cannot be the name of a value: use lower-case letters, digits, `_` and `-`, and not `user`"
            ));
        }
        let from = match (&self.css, &self.regex, &self.json, &self.header) {
            (Some(css), None, None, None) => {
                TakeFrom::Css { selector: css.clone(), attribute: self.attribute.clone() }
            }
            (None, Some(regex), None, None) => TakeFrom::Regex(regex.clone()),
            (None, None, Some(json), None) => TakeFrom::Json(json.clone()),
            (None, None, None, Some(header)) => TakeFrom::Header(header.clone()),
            _ => {
                return Err(format!(
                    "`{name}` needs exactly one of `css`, `regex`, `json` and `header`"
                ));
            }
        };
        // It would be ignored, and the value be another one than the user expects.
        if self.attribute.is_some() && self.css.is_none() {
            return Err(format!(
                "`{name}` has an `attribute` but no `css`: only elements have one"
            ));
        }
        Ok(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(steps: &str) -> Result<HttpScenario, String> {
        let text = format!("name = 's'\nsteps = [{steps}]");
        let headers = [("a".to_owned(), "1".to_owned())];
        toml::from_str::<ScenarioOptions>(&text).unwrap().validate(&headers)
    }

    #[test]
    fn a_step_that_contradicts_itself_is_refused_with_its_number() {
        for (step, expected) in [
            ("{}", "needs exactly one of `get`"),
            ("{ get = '/', post = '/' }", "needs exactly one of `get`"),
            ("{ get = 'a' }", "must start with `/`"),
            ("{ get = '/', body = 'x' }", "a GET request has no body"),
            ("{ post = '/', body = 'x', json = {} }", "exclude each other"),
            ("{ get = '/', take = { a = {} } }", "`a` needs exactly one of `css`"),
            ("{ get = '/', take = { a = { css = 'p', regex = 'x' } } }", "`a` needs exactly one"),
            ("{ get = '/', take = { a = { regex = 'x', attribute = 'y' } } }", "but no `css`"),
            ("{ get = '/', take = { user = { regex = 'x' } } }", "cannot be the name"),
            ("{ get = '/', take = { 'env.A' = { regex = 'x' } } }", "cannot be the name"),
        ] {
            let error = scenario(&format!("{{ get = '/' }}, {step}")).unwrap_err();
            assert!(error.contains("`s`, step 2: ") && error.contains(expected), "{step}: {error}");
        }
        assert!(scenario("").unwrap_err().contains("`s` has no steps"));
        let nothing_left = scenario("{ get = '/', once = true }").unwrap_err();
        assert!(nothing_left.contains("every step of `s` has `once`"), "{nothing_left}");
    }

    #[test]
    fn a_step_has_the_headers_of_the_load_and_follows_redirects() {
        let valid = scenario("{ delete = '/x', headers = { b = '2' } }").unwrap();
        let headers = [("a", "1"), ("b", "2")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!((valid.steps[0].method.as_str(), valid.steps[0].follow), ("DELETE", true));
        assert_eq!(valid.steps[0].headers, headers);
    }

    #[test]
    fn a_step_without_once_has_the_form_that_it_had_before_there_was_one() {
        let valid = scenario("{ get = '/login', once = true }, { get = '/' }").unwrap();
        let form = serde_json::to_value(&valid).unwrap();
        assert_eq!(form["steps"][0]["once"], true);
        assert!(form["steps"][1].get("once").is_none(), "{form}");
        assert_eq!(serde_json::from_value::<HttpScenario>(form).unwrap(), valid);
    }

    #[test]
    fn scenarios_are_read_from_their_own_file_and_from_an_experiment() {
        let own = "data = 'u.csv'\n[[scenario]]\nname = 's'\nsteps = [{ get = '/' }]";
        let experiment =
            format!("name = 'x'\n[load.http]\nrequests = 5\n{}", own.replace("[[", "[[load.http."));
        for text in [own, &experiment] {
            let table = ScenarioTable::parse(text, Path::new("/f")).unwrap();
            assert_eq!(
                (table.scenario.len(), table.data.as_deref()),
                (1, Some("/f/u.csv")),
                "{text}"
            );
        }
        for (text, expected) in [
            ("name = 'x'", "neither [[scenario]] nor"),
            ("[[scenario]]\nname = 's'\nsteps = [{ gett = '/' }]", "unknown field `gett`"),
            ("[[scenario]]\nname = 's'\nsteps = [{ get = '/' ]", "line 3"),
        ] {
            let error = ScenarioTable::parse(text, Path::new("")).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
