//! OpenAPI 3 in JSON or YAML: a GET or HEAD request of every route whose required parameters have an example.

use crate::http::replay::collector::{FoundRequest, ReplayRules, TrafficCollector};
use crate::http::replay::har::is_replayed;
use crate::http::replay::shown::{json_error, shown};
use crate::http::replay::yaml::read_yaml;
use serde_json::Value;
use std::cell::Cell;
use std::collections::HashMap;

/// Largest file in bytes. A document takes many times its length in memory.
const DOCUMENT_MAX: usize = 16 * 1024 * 1024;
/// References that lead to each other.
const HOPS_MAX: usize = 8;
/// Schemas that are looked at for one parameter.
const SCHEMAS_MAX: usize = 10_000;
/// Bytes of a server's address with its variables filled in, roughly.
const ADDRESS_MAX: usize = 64 << 10;
/// Parameters of a document that are looked at: many routes can refer to the same long list.
const PARAMETERS_MAX: usize = 500_000;
/// Longest path with its query in bytes that is put together; longer ones are not sent.
const TARGET_MAX: usize = 16 << 10;
const METHODS: [&str; 8] = ["get", "head", "post", "put", "patch", "delete", "options", "trace"];

pub(super) fn read_openapi(content: &[u8], all: &mut TrafficCollector) -> Result<(), String> {
    if content.len() > DOCUMENT_MAX {
        return Err("it has more than 16 MiB: keep fewer paths".to_owned());
    }
    let document: Value = if content.trim_ascii_start().starts_with(b"{") {
        serde_json::from_slice(content).map_err(|error| json_error(&error))?
    } else {
        read_yaml(content)?
    };
    let version = document.get("openapi").and_then(scalar).unwrap_or_default();
    if !version.starts_with("3.") {
        return Err(format!("its version is `{}`, not 3", shown(&version)));
    }
    let paths = document.get("paths").and_then(Value::as_object).ok_or("it has no `paths`")?;
    let document = OpenApiDocument { value: &document, parameters_left: Cell::new(PARAMETERS_MAX) };
    let base = document.base_path();
    all.left_out.reads_only = true;
    for (path, item) in paths {
        let item = document.resolved(item);
        for method in METHODS {
            let Some(operation) = item.get(method) else { continue };
            let name = method.to_ascii_uppercase();
            if !matches!(method, "get" | "head") {
                all.leave_out_method(&name);
                continue;
            }
            let route = format!("{name} {base}{path}");
            let request = document.request((item, operation), &base, path);
            if document.parameters_left.get() == 0 {
                // Before the result: the parameters that ran out may be those that are missing.
                return Err(format!(
                    "its routes have more than {PARAMETERS_MAX} parameters: keep fewer paths"
                ));
            }
            match request {
                Ok(found) => {
                    let found = FoundRequest { method: name, route: Some(shown(&route)), ..found };
                    all.add(found).map_err(|why| format!("{}: {why}", shown(&route)))?;
                }
                Err(lack) => all.leave_out_route(&format!("{route} {lack}")),
            }
        }
    }
    Ok(())
}

/// A whole document, in which references are looked up.
struct OpenApiDocument<'a> {
    value: &'a Value,
    /// Parameters that may still be looked at.
    parameters_left: Cell<usize>,
}

impl<'a> OpenApiDocument<'a> {
    /// What a reference inside the document refers to; any other value is itself.
    fn resolved(&self, value: &'a Value) -> &'a Value {
        let mut found = value;
        // References can form a circle.
        for _ in 0..HOPS_MAX {
            let place = found.get("$ref").and_then(Value::as_str);
            match place.and_then(|place| self.value.pointer(place.strip_prefix('#')?)) {
                Some(target) => found = target,
                None => break,
            }
        }
        found
    }

    /// The path of the first server, without a slash at its end.
    fn base_path(&self) -> String {
        let server = self.value.pointer("/servers/0");
        let Some(server) = server else { return String::new() };
        let mut url = server.get("url").and_then(Value::as_str).unwrap_or_default().to_owned();
        let variables = server.get("variables").and_then(Value::as_object);
        for (name, variable) in variables.into_iter().flatten() {
            let value = variable.get("default").and_then(scalar).unwrap_or_default();
            // Values can name each other, so that each makes the address ten times as long.
            // Before the replacement, because the product of many is what exhausts memory.
            if url.len().saturating_mul(value.len().max(1)) <= ADDRESS_MAX {
                url = url.replace(&format!("{{{name}}}"), &value);
            }
        }
        let path = match url.split_once("://") {
            Some((_, rest)) => rest.find('/').map_or("", |slash| &rest[slash..]),
            None => &url,
        };
        match path.trim_matches('/') {
            "" => String::new(),
            path => format!("/{path}"),
        }
    }

    /// The request of an operation of a path. The error says which parameter has no example.
    fn request(
        &self,
        (item, operation): (&'a Value, &'a Value),
        base: &str,
        template: &str,
    ) -> Result<FoundRequest, String> {
        let too_long = format!("has a path of more than {} KiB", TARGET_MAX >> 10);
        if template.len() > TARGET_MAX {
            return Err(too_long);
        }
        let (mut path, mut query, mut headers) = (template.to_owned(), Vec::new(), Vec::new());
        let mut query_bytes = 0;
        for parameter in self.parameters(item, operation) {
            let (name, place) = (text_at(parameter, "name"), text_at(parameter, "in"));
            let required = parameter.get("required").and_then(Value::as_bool).unwrap_or(false);
            // Optional parameters are left out: few documents have a valid example of each.
            if place != "path" && !required {
                continue;
            }
            // Credentials are the user's own headers, and another method is not sent.
            let is_own = place == "header" && !is_replayed(name, ReplayRules::default());
            if place == "cookie" || is_own {
                continue;
            }
            let values = self.example(parameter);
            let values = values.ok_or_else(|| format!("has no example of `{name}`"))?;
            match place {
                // Escaped, so that a value cannot add parts to the path.
                "path" => path = path.replace(&format!("{{{name}}}"), &list(&values, ",")),
                "query" => {
                    let pairs = query_pairs(parameter, name, &values);
                    query_bytes += pairs.iter().map(String::len).sum::<usize>();
                    query.extend(pairs);
                }
                "header" if !values.iter().any(|value| value.contains(char::is_control)) => {
                    headers.push((name.to_owned(), values.join(",")));
                }
                _ => {}
            }
            // Checked at each parameter: a list of long examples would be joined first otherwise.
            if path.len() + query_bytes > TARGET_MAX {
                return Err(too_long);
            }
        }
        // A placeholder without a parameter would be sent as it is and answered with 404.
        if let Some((_, rest)) = path.split_once('{') {
            let name = rest.split('}').next().unwrap_or_default();
            return Err(format!("has no parameter `{name}`"));
        }
        let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
        let target = format!("{base}{path}{query}");
        Ok(FoundRequest { target, headers, ..FoundRequest::default() })
    }

    /// The parameters of an operation, which replace those of its path.
    fn parameters(&self, item: &'a Value, operation: &'a Value) -> Vec<&'a Value> {
        let mut all: Vec<&'a Value> = Vec::new();
        let mut places: HashMap<[Option<String>; 2], usize> = HashMap::new();
        for owner in [item, operation] {
            let listed = owner.get("parameters").and_then(Value::as_array);
            for parameter in listed.into_iter().flatten() {
                let left = self.parameters_left.get().saturating_sub(1);
                self.parameters_left.set(left);
                if left == 0 {
                    return all;
                }
                let parameter = self.resolved(parameter);
                // The operation's own parameter replaces that of its path (OpenAPI 3.1, 4.8.9).
                let key = ["name", "in"].map(|key| parameter.get(key).map(Value::to_string));
                match places.get(&key) {
                    Some(place) => all[*place] = parameter,
                    None => {
                        places.insert(key, all.len());
                        all.push(parameter);
                    }
                }
            }
        }
        all
    }

    /// The first example of a parameter, or a value that its schema names.
    fn example(&self, parameter: &'a Value) -> Option<Vec<String>> {
        let named = parameter.get("examples").and_then(Value::as_object);
        let named = named.into_iter().flat_map(serde_json::Map::values);
        let named = named.filter_map(|one| self.resolved(one).get("value"));
        let own = parameter.get("example").into_iter().chain(named).find_map(written);
        own.or_else(|| self.value_of(parameter.get("schema")?, HOPS_MAX, &mut { SCHEMAS_MAX }))
    }

    /// A value that a schema allows: an example, its only value, its default, or the first of those it lists. Schemas
    /// within it count too, so many deep and `left` in all: a schema can contain itself many times.
    fn value_of(&self, schema: &'a Value, depth: usize, left: &mut usize) -> Option<Vec<String>> {
        // Both limits: deep nesting exhausts the stack, wide nesting the time.
        let depth = depth.checked_sub(1)?;
        *left = left.checked_sub(1)?;
        let schema = self.resolved(schema);
        let [example, constant, default] =
            ["example", "const", "default"].map(|key| schema.get(key));
        let named = example.into_iter().chain(listed(schema, "examples")).chain(constant);
        let own = named.chain(default).chain(listed(schema, "enum")).find_map(written);
        let mut parts = ["allOf", "oneOf", "anyOf"].into_iter().flat_map(|key| listed(schema, key));
        own.or_else(|| parts.find_map(|part| self.value_of(part, depth, left)))
            .or_else(|| self.value_of(schema.get("items")?, depth, left))
    }
}

/// The values of a list.
fn listed<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// The pairs of a query that write a parameter (OpenAPI 3.1, 4.8.12): a list is repeated unless its style says otherwise.
fn query_pairs(parameter: &Value, name: &str, values: &[String]) -> Vec<String> {
    let style = parameter.get("style").and_then(Value::as_str).unwrap_or("form");
    let explode = parameter.get("explode").and_then(Value::as_bool);
    let name = component(name);
    let separator = match style {
        "spaceDelimited" => "%20",
        "pipeDelimited" => "%7C",
        _ => ",",
    };
    // `form` explodes by default, the other styles do not (OpenAPI 3.1, 4.8.12).
    if explode.unwrap_or(style == "form") {
        values.iter().map(|value| format!("{name}={}", component(value))).collect()
    } else {
        vec![format!("{name}={}", list(values, separator))]
    }
}

/// Values with a separator between them, each escaped.
fn list(values: &[String], separator: &str) -> String {
    values.iter().map(|value| component(value)).collect::<Vec<_>>().join(separator)
}

/// A value as it is written in a URL: one text, or those of a list. Nothing for an object, which has no single form.
fn written(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(all) if !all.is_empty() => all.iter().map(scalar).collect(),
        one => scalar(one).map(|text| vec![text]),
    }
}

fn text_at<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A text, number or truth value as it is written in a URL; nothing for an empty text.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        _ => None,
    }
}

/// A value inside one part of a path or query: everything but unreserved characters is escaped (RFC 3986, 2.3).
fn component(value: &str) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte as char);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::replay::collector::OwnServer;
    use crate::http::replay::traffic::RecordedTraffic;
    use carat_model::load::ReplayFormat;
    use serde_json::json;

    fn read(document: &Value) -> Result<RecordedTraffic, String> {
        let mut all = TrafficCollector::new(ReplayRules::default(), OwnServer::Unnamed);
        let text = document.to_string();
        read_openapi(text.as_bytes(), &mut all).and_then(|()| all.traffic(ReplayFormat::OpenApi))
    }

    #[test]
    fn a_document_that_names_itself_over_and_over_takes_neither_memory_nor_time() {
        let variable = |name: u8| {
            (
                char::from(name).to_string(),
                json!({ "default": format!("{{{}}}", char::from(name + 1)).repeat(10) }),
            )
        };
        let variables: serde_json::Map<String, Value> = (b'a'..b'p').map(variable).collect();
        let itself = json!({ "allOf": vec![json!({ "$ref": "#/components/schemas/S" }); 60] });
        let parameter =
            |number: usize| json!({ "name": format!("p{number}"), "in": "query", "example": 1 });
        let mut parameters: Vec<Value> = (0..20_000).map(parameter).collect();
        parameters.push(json!({ "name": "s", "in": "query", "required": true, "schema": { "$ref": "#/components/schemas/S" } }));
        let document = json!({
            "openapi": "3.1.0",
            "servers": [{ "url": "/{a}", "variables": variables }],
            "paths": { "/pets": { "get": {} }, "/all": { "get": { "parameters": parameters } } },
            "components": { "schemas": { "S": itself } },
        });
        let found = read(&document).unwrap();
        assert_eq!(found.requests.len(), 1);
        assert!(found.requests[0].path.len() < 2 * ADDRESS_MAX, "{}", found.requests[0].path.len());
    }

    #[test]
    fn many_routes_with_one_long_list_of_parameters_are_refused_and_a_long_path_is_left_out() {
        let parameter = |number: usize| json!({ "name": format!("p{number}"), "in": "query", "required": true, "example": 1 });
        let long =
            json!({ "get": { "parameters": (0..30_000).map(parameter).collect::<Vec<_>>() } });
        let document = |routes: usize| {
            let route = |number| (format!("/{number}"), json!({ "$ref": "#/components/x" }));
            let mut paths: serde_json::Map<String, Value> = (0..routes).map(route).collect();
            paths.insert("/pets".into(), json!({ "get": {} }));
            paths.insert(format!("/{}", "{a}".repeat(10_000)), json!({ "get": {} }));
            json!({ "openapi": "3.1.0", "paths": paths, "components": { "x": long } })
        };
        let found = read(&document(2)).unwrap();
        let sent: Vec<&str> = found.requests.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(sent, ["/pets"]);
        let left_out = found.left_out.text().unwrap();
        assert!(left_out.contains("GET /0 has a path of more than 16 KiB"), "{left_out}");
        let refused = read(&document(3_000)).unwrap_err();
        assert!(refused.contains("more than 500000 parameters"), "{refused}");
    }

    #[test]
    fn a_header_that_stands_for_another_method_is_not_sent() {
        let header = |name: &str| json!({ "name": name, "in": "header", "required": true, "example": "DELETE" });
        let parameters =
            ["X-HTTP-Method-Override", "X-Method-Override", "x-http-method"].map(header);
        let paths = json!({ "/pets/7": { "get": { "parameters": parameters } } });
        let found = read(&json!({ "openapi": "3.1.0", "paths": paths })).unwrap();
        assert_eq!(found.requests[0].headers, []);
    }

    fn store() -> Value {
        json!({
            "openapi": "3.0.3",
            "servers": [{ "url": "https://api.test/{version}/", "variables": { "version": { "default": "v1" } } }],
            "paths": {
                "/pets": {
                    "get": { "parameters": [
                        { "name": "limit", "in": "query", "schema": { "default": 20 } },
                        { "name": "kind", "in": "query", "required": true, "examples": { "a": { "value": "cat & dog" } } },
                        { "name": "X-Tenant", "in": "header", "required": true, "example": "acme" },
                        { "name": "X-Api-Key", "in": "header", "required": true },
                    ] },
                    "post": {},
                },
                "/pets/{id}": {
                    "parameters": [{ "$ref": "#/components/parameters/Id" }],
                    "get": {},
                    "head": { "parameters": [{ "name": "id", "in": "path", "required": true, "schema": { "examples": ["a/b"] } }] },
                },
                "/owners/{owner}": { "get": { "parameters": [{ "name": "owner", "in": "path", "required": true, "schema": { "type": "string" } }] } },
                "/loose/{x}": { "get": {} },
            },
            "components": {
                "parameters": { "Id": { "name": "id", "in": "path", "required": true, "schema": { "$ref": "#/components/schemas/Id" } } },
                "schemas": { "Id": { "type": "integer", "example": 7 } },
            },
        })
    }

    #[test]
    fn routes_with_examples_are_requested_and_the_others_named() {
        let traffic = read(&store()).unwrap();
        let sent: Vec<String> =
            traffic.requests.iter().map(|one| format!("{} {}", one.method, one.path)).collect();
        assert_eq!(
            sent,
            ["GET /v1/pets?kind=cat%20%26%20dog", "GET /v1/pets/7", "HEAD /v1/pets/a%2Fb"]
        );
        assert_eq!(traffic.requests[0].headers, [("X-Tenant".to_owned(), "acme".to_owned())]);
        assert_eq!(traffic.requests[1].route.as_deref(), Some("GET /v1/pets/{id}"));
        assert_eq!(
            traffic.left_out.text().unwrap(),
            "POST ×1, GET /v1/loose/{x} has no parameter `x`, GET /v1/owners/{owner} has no example of `owner`"
        );
    }

    /// What is requested of one route with one query parameter.
    fn query(parameter: &Value) -> String {
        let mut parameter = parameter.clone();
        parameter["name"] = "q".into();
        parameter["in"] = "query".into();
        parameter["required"] = true.into();
        let document = json!({
            "openapi": "3.1.0",
            "paths": { "/a": { "get": { "parameters": [parameter] } }, "/b": { "get": {} } },
            "components": { "schemas": { "Kind": { "enum": [null, "small", "large"] } } },
        });
        let traffic = read(&document).unwrap();
        traffic.requests[0].path.replace("/a?", "")
    }

    #[test]
    fn every_value_that_a_schema_names_is_an_example() {
        for (parameter, expected) in [
            (json!({ "schema": { "type": "integer", "const": 3 } }), "q=3"),
            (json!({ "schema": { "const": 3, "default": 4 } }), "q=3"),
            (json!({ "schema": { "examples": ["de", "en"], "const": "fr" } }), "q=de"),
            (json!({ "schema": { "$ref": "#/components/schemas/Kind" } }), "q=small"),
            (json!({ "schema": { "allOf": [{ "type": "string" }, { "const": "x" }] } }), "q=x"),
            (json!({ "schema": { "anyOf": [{ "type": "null" }, { "enum": [2, 1] }] } }), "q=2"),
            (json!({ "schema": { "type": "array", "items": { "enum": ["a", "b"] } } }), "q=a"),
            (json!({ "examples": { "one": {}, "two": { "value": 5 } } }), "q=5"),
            (json!({ "schema": { "enum": [false] } }), "q=false"),
        ] {
            assert_eq!(query(&parameter), expected, "{parameter}");
        }
        let object = json!({ "example": { "a": 1 } });
        assert_eq!(query(&object), "/b", "an object has no single form");
    }

    #[test]
    fn a_list_is_written_as_its_style_says() {
        for (style, explode, expected) in [
            (None, None, "q=a%20b&q=c"),
            (Some("form"), Some(false), "q=a%20b,c"),
            (Some("spaceDelimited"), None, "q=a%20b%20c"),
            (Some("pipeDelimited"), None, "q=a%20b%7Cc"),
            (Some("pipeDelimited"), Some(true), "q=a%20b&q=c"),
        ] {
            let mut parameter = json!({ "example": ["a b", "c"] });
            style.into_iter().for_each(|style| parameter["style"] = style.into());
            explode.into_iter().for_each(|explode| parameter["explode"] = explode.into());
            assert_eq!(query(&parameter), expected, "{parameter}");
        }
    }

    #[test]
    fn a_path_that_is_kept_in_the_components_is_requested() {
        let document = json!({
            "openapi": "3.1.0",
            "paths": { "/items/{id}": { "$ref": "#/components/pathItems/Item" } },
            "components": { "pathItems": { "Item": {
                "parameters": [{ "name": "id", "in": "path", "required": true, "example": ["a/b", 7] }],
                "get": {},
            } } },
        });
        assert_eq!(read(&document).unwrap().requests[0].path, "/items/a%2Fb,7");
    }

    #[test]
    fn documents_that_cannot_be_used_say_why() {
        let circle = json!({ "openapi": "3.1.0", "paths": { "/a": { "$ref": "#/paths/~1a" } } });
        for (document, expected) in [
            (json!({ "openapi": "2.0" }), "its version is `2.0`, not 3"),
            (json!({ "openapi": "3.1.0" }), "it has no `paths`"),
            (json!({ "openapi": "3.1.0", "paths": {} }), "no request that can be sent"),
            (circle, "no request that can be sent"),
            (
                json!({ "openapi": "3.1.0", "paths": { "/{a}": { "get": {} } } }),
                "not sent: GET /{a} has no parameter `a`",
            ),
            (json!({ "openapi": "3.1.0", "paths": { "a": { "get": {} } } }), "neither a path"),
        ] {
            let error = read(&document).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn yaml_has_the_requests_of_the_same_document_in_json() {
        let yaml = "# The store\nopenapi: 3.0.3\nservers: [{ url: /v1 }]\npaths:\n  /pets/{id}:\n    \
                    get: &read\n      parameters:\n      - { name: id, in: path, required: true, example: 7 }\n      \
                    responses:\n        200: { description: on }\n    head: *read\n    delete: {}\n";
        let mut all = TrafficCollector::new(ReplayRules::default(), OwnServer::Unnamed);
        read_openapi(yaml.as_bytes(), &mut all).unwrap();
        let traffic = all.traffic(ReplayFormat::OpenApi).unwrap();
        let sent: Vec<&str> = traffic.requests.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(sent, ["/v1/pets/7", "/v1/pets/7"]);
        assert_eq!(traffic.left_out.text().unwrap(), "DELETE ×1");
    }

    #[test]
    fn a_document_that_would_take_too_much_memory_is_refused() {
        let mut all = TrafficCollector::new(ReplayRules::default(), OwnServer::Unnamed);
        let error = read_openapi(&vec![b' '; DOCUMENT_MAX + 1], &mut all).unwrap_err();
        assert!(error.contains("16 MiB"), "{error}");
    }
}
