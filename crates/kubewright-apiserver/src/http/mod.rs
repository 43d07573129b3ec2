//! From an HTTP request to an answer: who asks, may they, and who serves it.

pub(crate) mod answer;
mod compress;
mod descriptions;
pub(crate) mod discovery;
pub(crate) mod listener;
pub(crate) mod negotiate;
pub(crate) mod openapi;
pub(crate) mod path;
pub(crate) mod yaml;

use std::sync::Arc;

use ::http::{HeaderMap, Method, Request};
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::json;

use self::{
    answer::{Answer, Body},
    negotiate::{Offer, Shape},
    path::{Query, ResourcePath, Target},
};
use crate::{
    KUBERNETES_VERSION,
    auth::{self, UserInfo, rbac},
    error::ApiError,
    rest::{Scope, ownership::Conversions},
    selector::FieldSelector,
    server::Server,
};

/// The largest body that is read.
pub(crate) const BODY_MAX: usize = 3 << 20;

/// Serves one request of a user who is already known.
pub(crate) async fn handle(server: &Arc<Server>, request: Request<Bytes>, user: Arc<UserInfo>) -> Answer {
    let (parts, body) = request.into_parts();
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let pretty = wants_pretty(&query, &parts.headers);
    let accepts_gzip = header(&parts.headers, "accept-encoding").is_some_and(|list| list.contains("gzip"));
    let warnings = Mutex::new(Vec::new());
    let call = Call {
        server,
        method: &parts.method,
        path: parts.uri.path(),
        headers: &parts.headers,
        query,
        body,
        user,
    };
    let mut answer = match call.serve(&warnings).await {
        Ok(answer) => answer,
        Err(error) => error.into(),
    };
    finish(&mut answer, server, warnings.into_inner());
    if pretty || accepts_gzip {
        answer = answer.map(Body::gathered);
    }
    if parts.method == Method::HEAD {
        *answer.body_mut() = Body::from(Bytes::new());
    } else if pretty && is_json(&answer) {
        let text = answer.body().whole().map(|bytes| answer::pretty(bytes));
        if let Some(text) = text {
            *answer.body_mut() = Body::from(Bytes::from(text));
        }
    }
    if accepts_gzip { compress::gzip(answer) } else { answer }
}

fn finish(answer: &mut Answer, server: &Server, warnings: Vec<String>) {
    if !answer.headers().contains_key("cache-control") {
        answer::header(answer, "cache-control", "no-cache, private");
    }
    answer::header(answer, "audit-id", &server.entropy.uid());
    add_warnings(answer, &warnings);
}

/// Adds the `Warning` headers. If they are too long together, each is cut, and the last ones are left out.
fn add_warnings(answer: &mut Answer, warnings: &[String]) {
    const TOTAL_MAX: usize = 4 * 1024;
    const CUT: usize = 256;
    let usable = || warnings.iter().filter(|text| !text.is_empty() && !text.chars().any(char::is_control));
    let too_long = usable().map(|text| text.chars().count()).sum::<usize>() > TOTAL_MAX;
    let mut written = 0;
    for text in usable() {
        if too_long && written >= TOTAL_MAX {
            break;
        }
        let text: String = if too_long { text.chars().take(CUT).collect() } else { text.clone() };
        written += text.chars().count();
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = ::http::HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            answer.headers_mut().append("warning", value);
        }
    }
}

fn is_json(answer: &Answer) -> bool {
    header(answer.headers(), "content-type").is_some_and(|kind| kind.starts_with("application/json"))
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// People who look with curl or a browser get indented JSON.
fn wants_pretty(query: &Query, headers: &HeaderMap) -> bool {
    if query.has("pretty") {
        return query.flag("pretty");
    }
    let agent = header(headers, "user-agent").unwrap_or_default();
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|known| agent.starts_with(known))
}

struct Call<'a> {
    server: &'a Arc<Server>,
    method: &'a Method,
    path: &'a str,
    headers: &'a HeaderMap,
    query: Query,
    body: Bytes,
    user: Arc<UserInfo>,
}

fn resource_not_found() -> ApiError {
    ApiError::new(404, "NotFound", "the server could not find the requested resource")
        .with_details(Default::default())
}

fn method_not_allowed() -> ApiError {
    ApiError::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        .with_details(Default::default())
}

impl Call<'_> {
    async fn serve(mut self, warnings: &Mutex<Vec<String>>) -> Result<Answer, ApiError> {
        match Target::parse(self.path) {
            Target::Resource(path) => self.resource(path, warnings).await,
            Target::Other => {
                let verb = self.method.as_str().to_ascii_lowercase();
                self.authorize(&verb, rbac::Target::Path(self.path))?;
                self.document()
            }
        }
    }

    /// Becomes the user whom the headers name, if that is allowed, and checks that the user may do this.
    fn authorize(&mut self, verb: &str, target: rbac::Target<'_>) -> Result<(), ApiError> {
        let rules = self.server.rules();
        let headers =
            self.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        if let Some(wanted) = auth::impersonation::wanted_user(headers)? {
            let request = rbac::Attributes { user: &self.user, verb, target };
            self.user = Arc::new(rules.impersonate(&wanted, &request)?);
        }
        rules.check(&rbac::Attributes { user: &self.user, verb, target })
    }

    async fn resource(
        mut self,
        path: ResourcePath,
        warnings: &Mutex<Vec<String>>,
    ) -> Result<Answer, ApiError> {
        let verb = self.verb(&path);
        // Who may only see one object by its name may also list and watch that one.
        let selected = matches!(verb, "list" | "watch" | "deletecollection")
            .then(|| FieldSelector::parse(self.query.get("fieldSelector").unwrap_or_default()).ok())
            .flatten()
            .and_then(|selector| selector.exact("metadata.name").map(str::to_owned));
        let target = rbac::Target::Resource(rbac::ResourceTarget {
            group: &path.group,
            resource: &path.resource,
            subresource: path.subresource.as_deref().unwrap_or_default(),
            namespace: path.namespace.as_deref().unwrap_or_default(),
            name: path.name.as_deref().or(selected.as_deref()).unwrap_or_default(),
        });
        self.authorize(verb, target)?;
        let registry = self.server.registry();
        let missing = || {
            let custom_group = registry.group(&path.group).is_none_or(|group| {
                group
                    .versions
                    .iter()
                    .flat_map(|version| &version.resources)
                    .any(|resource| resource.is_custom())
            });
            if custom_group { Ok(answer::page_not_found()) } else { Err(resource_not_found()) }
        };
        let Some(resource) = registry.resource(&path.group, &path.version, &path.resource).cloned() else {
            return missing();
        };
        let named = path.name.is_some();
        let in_namespace =
            path.namespace.is_some() && !(&*resource.plural == "namespaces" && resource.group.is_empty());
        if resource.namespaced != in_namespace && (in_namespace || named || resource.is_virtual()) {
            return missing();
        }
        if let Some(name) = &path.subresource
            && resource.subresource(name).is_none()
        {
            return match resource.is_custom() {
                true => {
                    Err(ApiError::not_found(&resource.subject(), path.name.as_deref().unwrap_or_default()))
                }
                false => missing(),
            };
        }
        let verbs = path
            .subresource
            .as_deref()
            .and_then(|name| resource.subresource(name))
            .map_or(&resource.verbs, |sub| &sub.verbs);
        let has = |verb: &str| verbs.iter().any(|one| &**one == verb);
        let known_method =
            matches!(*self.method, Method::GET | Method::POST | Method::PUT | Method::PATCH | Method::DELETE);
        if named && !resource.has_verb("get") && path.subresource.is_none() {
            return missing();
        }
        let all_namespaces_write = resource.namespaced && !in_namespace && verb != "list" && verb != "watch";
        if all_namespaces_write && resource.is_custom() {
            return Ok(answer::page_not_found());
        }
        if resource.is_custom() && !named && matches!(verb, "update" | "patch") {
            return Err(ApiError::bad_request("name must be provided"));
        }
        if !known_method
            || !has(verb)
            || all_namespaces_write
            || (path.subresource.is_none()
                && named == matches!(verb, "create" | "list" | "deletecollection")
                && verb != "watch")
        {
            return Err(method_not_allowed());
        }
        let offer = if resource.is_custom() { Offer::Custom } else { Offer::BuiltIn };
        let accepted = negotiate::accept(header(self.headers, "accept"), offer)?;
        if let Some(text) = resource.deprecation() {
            warnings.lock().push(text.to_owned());
        }
        let namespace = if resource.namespaced { path.namespace.unwrap_or_default() } else { String::new() };
        let scope = Arc::new(Scope {
            server: self.server.clone(),
            registry,
            resource,
            namespace,
            name: path.name.unwrap_or_default(),
            subresource: path.subresource.unwrap_or_default(),
            query: std::mem::take(&mut self.query),
            user_agent: header(self.headers, "user-agent").unwrap_or_default().to_owned(),
            content_type: header(self.headers, "content-type").map(str::to_owned),
            body: std::mem::take(&mut self.body),
            user: self.user,
            accepted,
            warnings: Mutex::default(),
            conversions: Conversions::default(),
            settles: false,
        });
        let outcome = scope.run(verb).await;
        warnings.lock().append(&mut scope.warnings.lock());
        outcome
    }

    fn verb(&self, path: &ResourcePath) -> &'static str {
        match *self.method {
            Method::GET if path.watch_prefix => "watch",
            Method::GET | Method::HEAD if path.name.is_some() && path.subresource.is_some() => "get",
            Method::GET | Method::HEAD if self.query.flag("watch") => "watch",
            Method::GET | Method::HEAD if path.name.is_some() => "get",
            Method::GET | Method::HEAD => "list",
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if path.name.is_some() => "delete",
            Method::DELETE => "deletecollection",
            _ => "",
        }
    }

    /// Everything that is not a resource.
    fn document(&self) -> Result<Answer, ApiError> {
        let registry = self.server.registry();
        let parts: Vec<&str> = self.path.trim_matches('/').split('/').collect();
        if !matches!(*self.method, Method::GET | Method::HEAD) {
            return match parts.as_slice() {
                ["api" | "apis", ..] => Err(method_not_allowed()),
                _ => Ok(answer::page_not_found()),
            };
        }
        match parts.as_slice() {
            [""] => {
                let paths: Vec<String> = self.paths();
                Ok(answer::json(200, &json!({"paths": paths})))
            }
            ["api"] => self.groups(true, || discovery::core_versions(&self.server.address())),
            ["apis"] => self.groups(false, || discovery::groups(&registry)),
            ["api", "v1"] | ["apis", _, _] => {
                let (group, version) = if parts[0] == "api" { ("", "v1") } else { (parts[1], parts[2]) };
                match (registry.group(group), registry.version(group, version)) {
                    (_, Some(found)) => self.plain(discovery::resources(group, found)),
                    (Some(_), None) => Err(resource_not_found()),
                    (None, None) => Ok(answer::page_not_found()),
                }
            }
            ["api", _] => Err(resource_not_found()),
            ["apis", group] => match registry.group(group) {
                Some(group) => self.plain(discovery::group(group)),
                None => Ok(answer::page_not_found()),
            },
            ["version"] => self.plain(version()),
            ["healthz" | "livez" | "readyz", rest @ ..] => Ok(self.health(parts[0], rest)),
            ["openapi", "v2"] => self.openapi_v2(&openapi::document_v2(&registry)),
            ["openapi", "v3"] => Ok(answer::json(200, &openapi::index(&registry))),
            ["openapi", "v3", "api", version] => self.openapi("", version),
            ["openapi", "v3", "apis", group, version] => self.openapi(group, version),
            [".well-known", "openid-configuration"] => {
                Ok(answer::json(200, &self.server.openid_configuration()))
            }
            ["openid", "v1", "jwks"] => self.key_set(),
            _ => Ok(answer::page_not_found()),
        }
    }

    fn plain(&self, document: serde_json::Value) -> Result<Answer, ApiError> {
        let accepted = negotiate::accept(header(self.headers, "accept"), Offer::Discovery)?;
        Ok(match accepted.encoding {
            negotiate::Encoding::Json | negotiate::Encoding::Protobuf => answer::json(200, &document),
            negotiate::Encoding::Yaml => {
                answer::bytes(200, "application/yaml", crate::http::yaml::print(&document))
            }
        })
    }

    /// `/api` and `/apis`, in the legacy or the aggregated form.
    fn groups(&self, core: bool, legacy: impl FnOnce() -> serde_json::Value) -> Result<Answer, ApiError> {
        let accepted = negotiate::accept(header(self.headers, "accept"), Offer::Discovery)?;
        if accepted.shape != Shape::Discovery {
            return self.plain(legacy());
        }
        let document = discovery::aggregated(&self.server.registry(), core);
        let content_type = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let mut answer = answer::bytes(200, content_type, document.body);
        answer::header(&mut answer, "vary", "Accept");
        answer::header(&mut answer, "cache-control", "public");
        Ok(self.tagged_with(&document.tag, answer))
    }

    /// Adds an entity tag, and leaves the body out for who has it already.
    fn tagged(&self, answer: Answer) -> Answer {
        let Some(body) = answer.body().whole() else { return answer };
        self.tagged_with(&openapi::tag(body), answer)
    }

    fn tagged_with(&self, tag: &str, mut answer: Answer) -> Answer {
        answer::header(&mut answer, "etag", tag);
        if header(self.headers, "if-none-match") == Some(tag) {
            *answer.status_mut() = ::http::StatusCode::NOT_MODIFIED;
            *answer.body_mut() = Body::from(Bytes::new());
        }
        answer
    }

    fn openapi(&self, group: &str, version: &str) -> Result<Answer, ApiError> {
        let registry = self.server.registry();
        let Some(found) = registry.version(group, version) else { return Ok(answer::page_not_found()) };
        let document = openapi::document(group, found);
        Ok(self.tagged(answer::json(200, &document)))
    }

    fn openapi_v2(&self, document: &serde_json::Value) -> Result<Answer, ApiError> {
        let accept = header(self.headers, "accept").unwrap_or("*/*");
        let served = ["*/*", "application/json", "application/*"].iter().any(|kind| accept.contains(kind));
        if !served {
            return Err(ApiError::new(406, "NotAcceptable", "only application/json is served"));
        }
        Ok(self.tagged(answer::json(200, document)))
    }

    fn key_set(&self) -> Result<Answer, ApiError> {
        let accept = header(self.headers, "accept").unwrap_or("*/*");
        if !["*/*", "application/jwk-set+json"].iter().any(|kind| accept.contains(kind)) {
            let types = "application/jwk-set+json";
            let message = format!("only the following media types are accepted: {types}");
            return Err(ApiError::new(406, "NotAcceptable", message));
        }
        let body = answer::line(&self.server.key_set());
        Ok(answer::bytes(200, "application/jwk-set+json", body))
    }

    fn health(&self, endpoint: &str, rest: &[&str]) -> Answer {
        const CHECKS: [&str; 3] = ["ping", "log", "store"];
        match rest {
            [] if self.query.has("verbose") => {
                let is_excluded = |check: &str| self.query.all("exclude").any(|one| one == check);
                let line = |check: &&str| match is_excluded(check) {
                    true => format!("[+]{check} excluded: ok\n"),
                    false => format!("[+]{check} ok\n"),
                };
                let lines: String = CHECKS.iter().map(line).collect();
                answer::text(200, format!("{lines}{endpoint} check passed\n"))
            }
            [] => answer::text(200, "ok"),
            [check] if CHECKS.contains(check) => answer::text(200, "ok"),
            _ => answer::page_not_found(),
        }
    }

    fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = [
            "/.well-known/openid-configuration",
            "/api",
            "/api/v1",
            "/apis",
            "/apis/",
            "/healthz",
            "/livez",
            "/openapi/v2",
            "/openapi/v3",
            "/openid/v1/jwks",
            "/readyz",
            "/version",
        ]
        .map(str::to_owned)
        .to_vec();
        for group in self.server.registry().groups().iter().filter(|group| !group.name.is_empty()) {
            paths.push(format!("/apis/{}", group.name));
            paths.extend(
                group.versions.iter().map(|version| format!("/apis/{}/{}", group.name, version.name)),
            );
        }
        paths.sort();
        paths
    }
}

fn version() -> serde_json::Value {
    json!({
        "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
        "gitVersion": format!("{KUBERNETES_VERSION}+kubewright-{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}
