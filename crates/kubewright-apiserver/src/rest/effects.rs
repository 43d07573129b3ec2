//! What a write sets in motion inside the server: definitions become resources, roles become rights.
//!
//! All of it is done before the write is answered, so that whoever sees the answer can rely on it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering},
};

use serde_json::{Value, json};

use super::{Scope, codec, create::storage_error};
use crate::{
    auth::rbac,
    crd,
    error::ApiError,
    fields::folded,
    http::{negotiate::Accepted, path::Query},
    kinds::access,
    registry::{Origin, Registry, custom::Custom},
    server::Server,
    store::{Event, EventKind, Expect, ResourceId, Stored, Write},
};

impl Scope {
    /// Carries out what a write sets in motion. What few writes do is on the heap, so that all others stay small.
    pub(crate) async fn after_write(&self, event: &Event) -> Result<(), ApiError> {
        if self.settles {
            return Ok(());
        }
        match (&*self.resource.group, &*self.resource.plural) {
            ("apiextensions.k8s.io", "customresourcedefinitions") => {
                Box::pin(self.server.refresh_definitions()).await
            }
            (rbac::GROUP, _) => Box::pin(self.refresh_rights(event)).await,
            ("admissionregistration.k8s.io", _) => {
                self.server.admission.changed();
                Ok(())
            }
            ("", "services") => Box::pin(self.refresh_service(event)).await,
            _ => match &self.resource.origin {
                Origin::Custom(custom) if event.kind == EventKind::Deleted && custom.is_terminating() => {
                    Box::pin(self.server.object_of_deleted_definition_gone()).await
                }
                _ => Ok(()),
            },
        }
    }

    /// Takes a changed role or binding into the rights, and into the roles that collect it.
    async fn refresh_rights(&self, event: &Event) -> Result<(), ApiError> {
        let object = &event.object;
        let stale = self.server.change_rules(|rules| {
            // What is stored now counts: another write may have overtaken this one.
            match self.server.store.get(self.storage(), &object.key).map(|now| codec::parse(&now.bytes)) {
                Some(Ok(mut now)) => {
                    self.set_type(&mut now);
                    rules.upsert(&now);
                }
                _ => rules.remove(&self.resource.kind, object.namespace(), object.name()),
            }
            // Bindings and the roles of namespaces are not gathered by anyone.
            if &*self.resource.kind == "ClusterRole" { rules.stale_aggregates() } else { Vec::new() }
        });
        for (name, wanted) in stale {
            let rules = match wanted.as_slice() {
                [] => Value::Null, // as a role without rules is kept
                _ => serde_json::to_value(&wanted).map_err(ApiError::internal)?,
            };
            let role = self.server.internal(&self.resource.group, "clusterroles", "", &name, "");
            let Some(role) = role else { continue };
            Box::pin(role.change("clusterrole-aggregation-controller", &mut |object| {
                access::set(object, &["rules"], rules.clone());
            }))
            .await?;
        }
        Ok(())
    }

    /// Keeps the addresses of services, each with an object of its own, in step with a changed service.
    async fn refresh_service(&self, event: &Event) -> Result<(), ApiError> {
        self.record_service(&event.object.key);
        let addresses = |stored: Option<&Arc<Stored>>| -> BTreeSet<String> {
            let service = stored.and_then(|stored| codec::parse(&stored.bytes).ok()).unwrap_or_default();
            access::items(&service, &["spec", "clusterIPs"])
                .iter()
                .filter_map(Value::as_str)
                .filter(|address| *address != "None")
                .map(str::to_owned)
                .collect()
        };
        let (was, is) = (addresses(event.previous.as_ref()), addresses(event.current()));
        for gone in was.difference(&is) {
            if let Some(scope) = self.server.internal("networking.k8s.io", "ipaddresses", "", gone, "") {
                match Box::pin(super::delete::collect(&scope)).await {
                    Err(error) if error.code != 404 => return Err(error),
                    _ => {}
                }
            }
        }
        for new in is.difference(&was) {
            let address = json!({
                "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
                "metadata": {"name": new, "labels": {
                    "ipaddress.kubernetes.io/ip-family": if new.contains(':') { "IPv6" } else { "IPv4" },
                    "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
                }},
                "spec": {"parentRef": {
                    "resource": "services", "namespace": event.object.namespace(), "name": event.object.name(),
                }},
            });
            Box::pin(self.server.ensure("ipaddresses", address)).await?;
        }
        Ok(())
    }

    /// A change the server makes on its own account, if it changes anything.
    pub(crate) async fn change(
        &self,
        manager: &str,
        edit: &mut (dyn FnMut(&mut Value) + Send),
    ) -> Result<(), ApiError> {
        let key = self.key();
        loop {
            let Some(current) = self.server.store.get(self.storage(), &key) else { return Ok(()) };
            let old = self.load_folded(&current).await?;
            let mut new = old.clone();
            edit(&mut new);
            if new == old {
                return Ok(());
            }
            self.record_update(&old, &mut new, manager);
            let change = self.put(new).await?;
            if self.commit_over(&key, &current, change).await?.is_some() {
                return Ok(());
            }
        }
    }
}

impl Server {
    /// A request of the server itself, in its own process and with all rights.
    pub(crate) fn internal(
        self: &Arc<Self>,
        group: &str,
        plural: &str,
        namespace: &str,
        name: &str,
        subresource: &str,
    ) -> Option<Scope> {
        let registry = self.registry();
        let version = registry.group(group)?.versions.first()?.name.clone();
        let resource = registry.resource(group, &version, plural)?.clone();
        Some(Scope {
            server: self.clone(),
            registry,
            resource,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
            query: Query::default(),
            user: Arc::new(crate::auth::UserInfo::new("system:apiserver", [crate::auth::user::MASTERS])),
            user_agent: "kube-apiserver".to_owned(),
            content_type: None,
            body: bytes::Bytes::new(),
            accepted: Accepted::PLAIN,
            warnings: parking_lot::Mutex::default(),
            conversions: super::ownership::Conversions::default(),
            settles: false,
        })
    }

    /// Brings the status of all definitions up to date, serves what they define, and lets go of those that
    /// were deleted and have no objects left.
    pub(crate) async fn refresh_definitions(self: &Arc<Self>) -> Result<(), ApiError> {
        let _one_at_a_time = self.definitions.lock().await;
        self.settle().await
    }

    /// The last object may be gone. This may run inside the settling of definitions itself, so it must not
    /// wait for it: whoever settles looks again.
    async fn object_of_deleted_definition_gone(self: &Arc<Self>) -> Result<(), ApiError> {
        self.definitions_stale.store(true, Ordering::Release);
        while self.definitions_stale.load(Ordering::Acquire) {
            let Ok(_one_at_a_time) = self.definitions.try_lock() else { return Ok(()) };
            Box::pin(self.settle()).await?;
        }
        Ok(())
    }

    async fn settle(self: &Arc<Self>) -> Result<(), ApiError> {
        loop {
            self.definitions_stale.store(false, Ordering::Release);
            let known = self.registry().customs().clone();
            let definitions = self.read_definitions(&known)?;
            self.set_registry(Registry::with_customs(definitions.clone()));
            let changed = self.settle_definitions(&definitions).await?;
            if !changed && !self.definitions_stale.load(Ordering::Acquire) {
                return Ok(());
            }
        }
    }

    fn read_definitions(
        &self,
        known: &BTreeMap<Arc<str>, Arc<Custom>>,
    ) -> Result<BTreeMap<Arc<str>, Arc<Custom>>, ApiError> {
        let collection =
            self.store.collection(&ResourceId::new("apiextensions.k8s.io", "customresourcedefinitions"));
        collection
            .range("", "")
            .map(|stored| {
                let before = known.get(&stored.key);
                if let Some(before) = before.filter(|before| before.revision == stored.revision) {
                    return Ok((stored.key.clone(), before.clone()));
                }
                let definition = codec::parse(&stored.bytes)?;
                let custom = Custom::read(definition, stored.revision, before);
                Ok((stored.key.clone(), Arc::new(custom)))
            })
            .collect()
    }

    /// Writes what has to change about the definitions; says whether anything did.
    async fn settle_definitions(
        self: &Arc<Self>,
        definitions: &BTreeMap<Arc<str>, Arc<Custom>>,
    ) -> Result<bool, ApiError> {
        let now = self.clock.now_text();
        let mut changed = false;
        for (name, custom) in definitions {
            let group = custom.definition["spec"]["group"].as_str();
            let others = definitions
                .values()
                .filter(|other| {
                    !Arc::ptr_eq(other, custom) && other.definition["spec"]["group"].as_str() == group
                })
                .map(|other| &other.definition);
            let Some(scope) =
                self.internal("apiextensions.k8s.io", "customresourcedefinitions", "", name, "status")
            else {
                continue;
            };
            if let Some(status) = crd::next_status(&custom.definition, others, &now) {
                let mut new = scope.load_value(&custom.definition);
                let old = new.clone();
                access::set(&mut new, &["status"], status);
                scope.record_update(&old, &mut new, "kube-apiserver");
                changed |= scope.write_definition(custom, new).await?;
            } else if custom.is_terminating() {
                changed |= scope.finish_deletion(custom).await?;
            }
        }
        Ok(changed)
    }
}

impl Scope {
    fn load_value(&self, definition: &Value) -> Value {
        let mut object = definition.clone();
        folded::fold(&mut object);
        self.set_type(&mut object);
        object
    }

    /// Stores a definition in the state it was read in, if it still is.
    async fn write_definition(&self, custom: &Custom, new: Value) -> Result<bool, ApiError> {
        let change = self.put(new).await?;
        self.commit_definition(custom, change).await
    }

    async fn commit_definition(
        &self,
        custom: &Custom,
        change: crate::store::Change,
    ) -> Result<bool, ApiError> {
        let expect = Expect::Revision(custom.revision);
        let write = Write { resource: self.storage().clone(), key: self.key(), expect, change };
        match self.server.store.commit(write).await {
            Ok(_) | Err(crate::store::CommitError::Conflict { .. }) => Ok(true),
            Err(error) => Err(storage_error(&error)),
        }
    }

    /// Deletes the objects of a definition that was deleted, and the definition once they are gone.
    async fn finish_deletion(&self, custom: &Arc<Custom>) -> Result<bool, ApiError> {
        if !crd::awaits_cleanup(&custom.definition) {
            return Ok(false);
        }
        let resources = custom.resources();
        if let Some(resource) = resources.first() {
            let collection = self.server.store.collection(&resource.storage.id);
            for object in collection.range("", "") {
                // In the version it is kept in nothing has to be converted.
                let kept = resources.iter().find(|one| object.bytes.starts_with(&one.head));
                let kept = kept.unwrap_or(resource).clone();
                let one = Self { settles: true, ..self.at(kept, object.namespace(), object.name()) };
                match Box::pin(super::delete::collect(&one)).await {
                    Ok(()) => {}
                    Err(error) if error.code == 404 => {}
                    Err(error) => return Err(error),
                }
            }
            if !self.server.store.collection(&resource.storage.id).is_empty() {
                return Ok(false);
            }
        }
        let mut new = self.load_value(&custom.definition);
        crd::end_deletion(&mut new, &self.server.clock.now_text());
        if access::items(&new, &["metadata", "finalizers"]).is_empty() {
            return self.commit_definition(custom, Self::removal(Some(new))).await;
        }
        self.write_definition(custom, new).await
    }
}
