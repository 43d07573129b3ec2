//! The verbs: what a request does to objects, from its decoded options down to the store and back.
//!
//! Every verb takes a [`Scope`], which says who asks for what in which form. Reads hand out the bytes the
//! store keeps; writes decode, default, admit, validate and then commit against the revision they have
//! seen, and start over if somebody else was faster.

mod body;
pub(crate) mod codec;
mod create;
mod custom;
mod delete;
mod effects;
mod eviction;
mod list;
pub(crate) mod logs;
pub(crate) mod options;
pub(crate) mod ownership;
mod patch;
mod read;
mod respond;
mod subresource;
mod update;
mod watch;

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use self::ownership::Conversions;
use crate::{
    auth::UserInfo,
    error::ApiError,
    http::{answer::Answer, negotiate::Accepted, path::Query},
    registry::{Registry, Resource},
    server::Server,
    store::ResourceId,
};

/// More warnings than headers can carry.
const WARNINGS_MAX: usize = 1000;

/// One request to one resource: who, what, where, and how the answer shall look.
pub(crate) struct Scope {
    pub(crate) server: Arc<Server>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) resource: Arc<Resource>,
    /// Empty for cluster-scoped resources and for all namespaces.
    pub(crate) namespace: String,
    /// Empty for collections.
    pub(crate) name: String,
    /// Empty for the object itself.
    pub(crate) subresource: String,
    pub(crate) query: Query,
    pub(crate) user: Arc<UserInfo>,
    pub(crate) user_agent: String,
    pub(crate) content_type: Option<String>,
    pub(crate) body: Bytes,
    pub(crate) accepted: Accepted,
    pub(crate) warnings: Mutex<Vec<String>>,
    /// What the field manager needs of other versions.
    pub(crate) conversions: Conversions,
    /// Whether this is part of settling definitions, which sees by itself to what that sets in motion.
    pub(crate) settles: bool,
}

impl Scope {
    /// Adds a text for the `Warning` header.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        let text = text.into();
        let mut warnings = self.warnings.lock();
        if warnings.len() < WARNINGS_MAX && !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    pub(crate) fn storage(&self) -> &ResourceId {
        &self.resource.storage.id
    }

    /// The key of the object of this request in the store.
    pub(crate) fn key(&self) -> Arc<str> {
        self.key_of(&self.name)
    }

    pub(crate) fn key_of(&self, name: &str) -> Arc<str> {
        if self.resource.namespaced { [&self.namespace, "/", name].concat().into() } else { name.into() }
    }

    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::not_found(&self.resource.subject(), &self.name)
    }

    /// The same request, turned to another resource: for what a verb does besides.
    pub(crate) fn at(&self, resource: Arc<Resource>, namespace: &str, name: &str) -> Self {
        Self {
            server: self.server.clone(),
            registry: self.registry.clone(),
            resource,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: String::new(),
            query: Query::default(),
            user: self.user.clone(),
            user_agent: self.user_agent.clone(),
            content_type: None,
            body: Bytes::new(),
            accepted: self.accepted,
            warnings: Mutex::default(),
            conversions: Conversions::default(),
            settles: self.settles,
        }
    }

    /// Does what the request asks for. The larger futures are on the heap: every request is as large as the
    /// largest that is not.
    pub(crate) async fn run(self: &Arc<Self>, verb: &str) -> Result<Answer, ApiError> {
        if !self.subresource.is_empty() {
            return Box::pin(subresource::run(self, verb)).await;
        }
        match verb {
            "get" => read::get(self).await,
            "list" => Box::pin(list::list(self)).await,
            "watch" => Box::pin(watch::watch(self)).await,
            "create" if self.resource.is_virtual() => Box::pin(subresource::create_virtual(self)).await,
            "create" => create::create(self).await,
            "update" => update::put(self).await,
            "patch" => Box::pin(patch::patch(self)).await,
            "delete" => Box::pin(delete::delete(self)).await,
            "deletecollection" => Box::pin(delete::delete_collection(self)).await,
            _ => Err(ApiError::method_not_supported(&self.resource.subject(), verb)),
        }
    }
}
