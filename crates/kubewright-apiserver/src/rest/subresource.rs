//! Parts of objects with verbs of their own, and resources that are only ever created.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    Scope,
    body::{Expected, Source},
    options::{FieldValidation, WriteOptions},
    patch::{self, PatchType, Prepared},
    read, respond, update,
};
use crate::{
    admission::Operation,
    auth::{review, token::BoundObject},
    decode::Parsed,
    error::ApiError,
    field::{FieldError, Path},
    fields::{FieldManager, ResetFields, ScaleFields, folded},
    http::answer::Answer,
    kinds::access,
    registry::{Origin, types::Types},
    schema::SchemaRef,
    store::ResourceId,
};

pub(crate) async fn run(scope: &Arc<Scope>, verb: &str) -> Result<Answer, ApiError> {
    match (&*scope.subresource, verb) {
        ("scale", "get") => scope.get_scale().await,
        ("scale", "update" | "patch") => scope.write_scale(verb).await,
        ("binding", "create") => scope.bind().await,
        ("eviction", "create") => scope.evict().await,
        ("token", "create") => scope.issue_token().await,
        ("log", "get") => scope.log().await,
        ("exec" | "attach" | "portforward" | "proxy", _) => scope.unreachable_pod().await,
        (_, "get") => read::get(scope).await,
        (_, "update") => update::put(scope).await,
        (_, "patch") => patch::patch(scope).await,
        _ => Err(ApiError::method_not_supported(&scope.resource.subject(), verb)),
    }
}

/// A change of a Scale.
enum ScaleWrite {
    Replace(Value),
    Patch(Prepared),
    Apply(Value),
}

/// The answer to a create of a resource that is never stored, such as an access review.
pub(crate) async fn create_virtual(scope: &Scope) -> Result<Answer, ApiError> {
    let options = WriteOptions::read("CreateOptions", &scope.query, &scope.user_agent, false)?;
    let parsed = scope.parse_body(&scope.resource.kind)?;
    let mut object = scope.decode_as(parsed, &scope.expected(), options.validation, Source::Body)?;
    scope.admit_body(&mut object, &options).await?;
    let rules = scope.server.rules();
    let answer = match &*scope.resource.kind {
        "SelfSubjectReview" => review::self_subject(&scope.user, scope.server.clock.now()),
        "TokenReview" => {
            let server = &scope.server;
            review::token(&object, server.authenticator(), server.clock.now(), &|kind, namespace, name| {
                server.bound_object(kind, namespace, name)
            })?
        }
        "SelfSubjectAccessReview" => review::self_subject_access(&object, &rules, &scope.user)?,
        "SubjectAccessReview" => review::subject_access(&object, &rules)?,
        "LocalSubjectAccessReview" => {
            scope.fix_namespace(&mut object)?;
            review::local_subject_access(&object, &rules, &scope.namespace)?
        }
        "SelfSubjectRulesReview" => review::self_subject_rules(&object, &rules, &scope.user)?,
        "Binding" => {
            let name = access::get_str(&object, &["metadata", "name"]).to_owned();
            let pods = scope.registry.resource("", "v1", "pods").cloned().ok_or_else(|| scope.not_found())?;
            let mut pod = scope.at(pods, &scope.namespace, &name);
            pod.subresource = "binding".to_owned();
            pod.assign(&object, &options).await?;
            success(201)
        }
        _ => return Err(ApiError::method_not_supported(&scope.resource.subject(), "create")),
    };
    Ok(respond::document_answer(scope, 201, &answer))
}

pub(super) fn success(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code})
}

impl Scope {
    /// Admission of a body that is not stored itself.
    pub(super) async fn admit_body(&self, body: &mut Value, options: &WriteOptions) -> Result<(), ApiError> {
        if self.resource.namespaced {
            access::default_to(body, &["metadata", "namespace"], self.namespace.as_str());
        }
        self.admit(Operation::Create, body, None, options).await?;
        self.validate_admission(Operation::Create, body, None, options).await?;
        folded::unfold(body);
        Ok(())
    }

    pub(super) async fn live(&self) -> Result<Value, ApiError> {
        let stored = self.server.store.get(self.storage(), &self.key()).ok_or_else(|| self.not_found())?;
        self.load(&stored).await
    }

    /// Decodes the body as a built-in kind that is not the resource's own.
    pub(super) fn body_as(&self, group: &str, version: &str, kind: &str) -> Result<Value, ApiError> {
        let validation =
            WriteOptions::read("CreateOptions", &self.query, &self.user_agent, false)?.validation;
        let parsed = self.parse_body(kind)?;
        self.decode_foreign(parsed, group, version, kind, validation)
    }

    fn decode_foreign(
        &self,
        parsed: Parsed<'_>,
        group: &str,
        version: &str,
        kind: &str,
        validation: FieldValidation,
    ) -> Result<Value, ApiError> {
        let schema: SchemaRef = Types::get().kind(group, version, kind).unwrap_or_default();
        self.decode_as(parsed, &Expected { group, version, kind, schema: &schema }, validation, Source::Body)
    }

    pub(crate) fn scale_of(&self, object: &Value) -> Result<Value, ApiError> {
        match &self.resource.origin {
            Origin::BuiltIn(_) => Ok(crate::kinds::scale::read(&self.resource.kind, object)),
            Origin::Custom(custom) => custom.scale(&self.resource.version, object),
        }
    }

    fn scale_for_update(&self, object: &Value) -> Result<Value, ApiError> {
        match &self.resource.origin {
            Origin::BuiltIn(_) => self.scale_of(object),
            Origin::Custom(custom) => custom.scale_for_update(&self.resource.version, object),
        }
    }

    async fn get_scale(&self) -> Result<Answer, ApiError> {
        let scale = self.scale_of(&self.live().await?)?;
        Ok(respond::document_answer(self, 200, &scale))
    }

    /// Update and patch of `/scale`: the change is made to a Scale, what it says is carried over.
    async fn write_scale(&self, verb: &str) -> Result<Answer, ApiError> {
        let (options, write) = if verb == "update" {
            let options = WriteOptions::read("UpdateOptions", &self.query, &self.user_agent, false)?;
            let body = self.body_as("autoscaling", "v1", "Scale")?;
            self.check_name(&body)?;
            (options, ScaleWrite::Replace(body))
        } else {
            let kind = PatchType::read(self)?;
            let apply = kind == PatchType::Apply;
            let options = WriteOptions::read("PatchOptions", &self.query, &self.user_agent, apply)?;
            let write = match kind {
                PatchType::Apply => ScaleWrite::Apply(crate::patch::apply::read(&self.body)?.value),
                _ => ScaleWrite::Patch(Prepared::read(self, kind)?),
            };
            (options, write)
        };
        let mut transform = |live: &Value| self.scaled(live, &write, &options);
        let written = self.update_object(&mut transform, &options).await?;
        let object = match written {
            super::create::Written::Stored(stored) => self.load(&stored).await?,
            super::create::Written::Unwritten(object) => object,
        };
        Ok(respond::document_answer(self, 200, &self.scale_of(&object)?))
    }

    /// `live` with its Scale changed, and with who owns the number of replicas.
    fn scaled(&self, live: &Value, write: &ScaleWrite, options: &WriteOptions) -> Result<Value, ApiError> {
        let schema = Types::get().kind("autoscaling", "v1", "Scale").unwrap_or_default();
        let api_version = self.resource.api_version();
        let owners = ScaleFields { api_version: &api_version, paths: &self.resource.replicas_paths() };
        let managed = access::get(live, &["metadata", "managedFields"]);
        let mut before = self.scale_for_update(live)?;
        if let Some(managed) = owners.to_scale(managed).map_err(ApiError::internal)? {
            access::set(&mut before, &["metadata", "managedFields"], managed);
        }
        let fields = FieldManager {
            versions: &("autoscaling/v1", schema.clone()),
            api_version: "autoscaling/v1",
            kind: "Scale",
            subresource: "scale",
            reset: &ResetFields::None,
            empty: &json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {}, "spec": {}, "status": {"replicas": 0}}),
            now: self.server.clock.now(),
        };
        let decode = |value: Value| {
            self.decode_foreign(Parsed::from(value), "autoscaling", "v1", "Scale", options.validation)
        };
        let after = match write {
            ScaleWrite::Apply(config) => {
                match fields.apply(&before, config, &options.manager, options.force)? {
                    Some(applied) => decode(applied)?,
                    None => return Ok(live.clone()),
                }
            }
            ScaleWrite::Replace(body) => {
                let mut after = body.clone();
                fields.update(&before, &mut after, &options.manager);
                after
            }
            ScaleWrite::Patch(patch) => {
                let mut after = decode(patch.apply(&before, &schema)?)?;
                fields.update(&before, &mut after, &options.manager);
                after
            }
        };
        let mut new = live.clone();
        self.carry_over(&mut new, &after)?;
        let scale_managed = access::get(&after, &["metadata", "managedFields"]);
        match owners.to_object(managed, scale_managed).map_err(ApiError::internal)? {
            Some(managed) => access::set(&mut new, &["metadata", "managedFields"], managed),
            None => {
                access::remove(&mut new, &["metadata", "managedFields"]);
            }
        }
        Ok(new)
    }

    /// Takes replicas and conditions of a Scale into the object it scales.
    pub(crate) fn carry_over(&self, object: &mut Value, scale: &Value) -> Result<(), ApiError> {
        match &self.resource.origin {
            Origin::BuiltIn(_) => {
                let replicas = access::get_i64(scale, &["spec", "replicas"]).unwrap_or(0);
                if replicas < 0 {
                    let subject = crate::error::Subject { group: "autoscaling", resource: "", kind: "Scale" };
                    let path = Path::new("spec.replicas");
                    let error = FieldError::invalid(&path, replicas, "must be greater than or equal to 0");
                    return Err(ApiError::invalid(&subject, &self.name, &[error]));
                }
                access::set(object, &["spec", "replicas"], replicas);
            }
            Origin::Custom(custom) => custom.write_scale(&self.resource.version, object, scale)?,
        }
        for field in ["resourceVersion", "uid"] {
            let given = access::get_str(scale, &["metadata", field]).to_owned();
            if !given.is_empty() {
                access::set(object, &["metadata", field], given);
            }
        }
        Ok(())
    }

    async fn bind(&self) -> Result<Answer, ApiError> {
        let options = WriteOptions::read("CreateOptions", &self.query, &self.user_agent, false)?;
        let mut binding = self.body_as("", "v1", "Binding")?;
        self.admit_body(&mut binding, &options).await?;
        self.assign(&binding, &options).await?;
        Ok(respond::document_answer(self, 201, &success(201)))
    }

    /// Puts a pod on the node that a binding names.
    async fn assign(&self, binding: &Value, options: &WriteOptions) -> Result<(), ApiError> {
        let node = access::get_str(binding, &["target", "name"]).to_owned();
        let kind = access::get_str(binding, &["target", "kind"]);
        let mut errors = Vec::new();
        if !kind.is_empty() && kind != "Node" {
            errors.push(FieldError::not_supported(&Path::new("target.kind"), kind, &["Node", "<empty>"]));
        }
        if node.is_empty() {
            errors.push(FieldError::required(&Path::new("target.name"), ""));
        }
        if !errors.is_empty() {
            let subject = crate::error::Subject { group: "", resource: "bindings", kind: "Binding" };
            return Err(ApiError::invalid(&subject, &self.name, &errors));
        }
        let now = self.server.clock.now_text();
        let mut transform = |live: &Value| {
            let conflict = |why: String| {
                ApiError::conflict(
                    &crate::error::Subject { group: "", resource: "pods/binding", kind: "Pod" },
                    &self.name,
                    why,
                )
            };
            if access::has(live, &["metadata", "deletionTimestamp"]) {
                return Err(conflict(format!(
                    "pod {} is being deleted, cannot be assigned to a host",
                    self.name
                )));
            }
            let assigned = access::get_str(live, &["spec", "nodeName"]);
            if !assigned.is_empty() {
                return Err(conflict(format!(
                    "pod {} is already assigned to node \"{assigned}\"",
                    self.name
                )));
            }
            let mut new = live.clone();
            access::set(&mut new, &["spec", "nodeName"], node.as_str());
            for part in ["annotations", "labels"] {
                for (name, value) in access::entries(binding, &["metadata", part]) {
                    access::set(&mut new, &["metadata", part, name], value.clone());
                }
            }
            let conditions =
                access::ensure_object(&mut new, &["status"]).entry("conditions").or_insert_with(|| json!([]));
            if let Value::Array(list) = conditions {
                list.retain(|one| one.get("type").and_then(Value::as_str) != Some("PodScheduled"));
                list.push(json!({
                    "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
                }));
            }
            Ok(new)
        };
        self.update_object(&mut transform, options).await.map(|_| ())
    }

    async fn issue_token(&self) -> Result<Answer, ApiError> {
        let options = WriteOptions::read("CreateOptions", &self.query, &self.user_agent, false)?;
        let mut request = self.body_as("authentication.k8s.io", "v1", "TokenRequest")?;
        self.admit_body(&mut request, &options).await?;
        let server = &self.server;
        let issued = server.authenticator().service_accounts().request(
            &self.namespace,
            &self.name,
            &request,
            server.clock.now(),
            &server.entropy.uid(),
            &|kind, namespace, name| server.bound_object(kind, namespace, name),
        )?;
        issued.warnings.iter().for_each(|warning| self.warn(warning));
        Ok(respond::document_answer(self, 201, &issued.object))
    }

    /// The options of a connection, such as `PodExecOptions`, as the query gives them.
    fn connect_options(&self) -> Value {
        let kind = self.resource.subresource(&self.subresource).map_or("", |one| &*one.kind);
        let mut options = json!({"kind": kind, "apiVersion": "v1"});
        for name in ["stdin", "stdout", "stderr", "tty"] {
            if self.query.has(name) && self.query.flag(name) {
                options[name] = true.into();
            }
        }
        for name in ["container", "path"] {
            if let Some(value) = self.query.get(name).filter(|value| !value.is_empty()) {
                options[name] = value.into();
            }
        }
        for name in ["command", "ports"] {
            if self.query.has(name) {
                options[name] = self.query.all(name).collect::<Vec<_>>().into();
            }
        }
        options
    }

    /// Exec and the like need a node, and there is none behind this server.
    async fn unreachable_pod(&self) -> Result<Answer, ApiError> {
        self.admit_connect(self.connect_options()).await?;
        let live = self.live().await?;
        if &*self.resource.kind == "Pod" {
            let node = access::get_str(&live, &["spec", "nodeName"]);
            if node.is_empty() {
                return Err(ApiError::bad_request(format!(
                    "pod {} does not have a host assigned",
                    self.name
                )));
            }
            if self.server.store.get(&ResourceId::new("", "nodes"), node).is_none() {
                return Err(ApiError::not_found(&self.resource.subject(), node));
            }
        }
        Err(self.no_node())
    }

    pub(super) fn no_node(&self) -> ApiError {
        ApiError::new(
            501,
            "NotImplemented",
            format!(
                "{} of {} needs a running node, and this server has none",
                self.subresource, self.resource.plural
            ),
        )
    }
}

impl crate::server::Server {
    /// An object a token is tied to.
    pub(crate) fn bound_object(
        &self,
        kind: crate::auth::token::BoundKind,
        namespace: &str,
        name: &str,
    ) -> Option<BoundObject> {
        use crate::auth::token::BoundKind;
        let plural = match kind {
            BoundKind::ServiceAccount => "serviceaccounts",
            BoundKind::Pod => "pods",
            BoundKind::Secret => "secrets",
            BoundKind::Node => "nodes",
        };
        let key = if kind == BoundKind::Node { name.to_owned() } else { format!("{namespace}/{name}") };
        let stored = self.store.get(&ResourceId::new("", plural), &key)?;
        super::codec::parse(&stored.bytes).ok().map(|object| BoundObject::of(&object))
    }
}
