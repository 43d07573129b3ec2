//! The kinds that one controller has declared, each with the watch it reads from.

use std::{
    any::{Any, TypeId},
    collections::BTreeMap,
    pin::Pin,
    sync::Arc,
};

use parking_lot::RwLock;

use crate::{
    cache::{Cache, Health, View, Watch},
    error::{Error, Result},
    kind::{Kind, KindName},
};

/// The kinds of a controller.
#[derive(Default)]
pub(crate) struct Views(Arc<Inner>);

#[derive(Default)]
struct Inner {
    controller: String,
    views: RwLock<BTreeMap<TypeId, Arc<dyn AnyView>>>,
}

/// A view, whatever its kind.
trait AnyView: Any + Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn name(&self) -> KindName;
    fn health(&self) -> Vec<Health>;
    fn synced(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

impl<K: Kind> AnyView for View<K> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> KindName {
        KindName::of::<K>()
    }

    fn health(&self) -> Vec<Health> {
        View::health(self)
    }

    fn synced(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(View::synced(self))
    }
}

impl Views {
    pub(crate) fn new(controller: &str) -> Self {
        Self(Arc::new(Inner { controller: controller.to_owned(), views: RwLock::default() }))
    }

    pub(crate) fn share(&self) -> Arc<Self> {
        Arc::new(Self(self.0.clone()))
    }

    /// Declares a kind. The first declaration of a kind is the one that is read from.
    pub(crate) fn view<K: Kind>(&self, cache: &Cache, watch: &Watch<K>) -> View<K> {
        let view = cache.view(watch);
        self.0.views.write().entry(TypeId::of::<K>()).or_insert_with(|| Arc::new(view.clone()));
        view
    }

    /// The objects of a kind; an error that says what to do if it was not declared.
    pub(crate) fn get<K: Kind>(&self) -> Result<View<K>> {
        let views = self.0.views.read();
        match views.get(&TypeId::of::<K>()).and_then(|view| view.as_any().downcast_ref::<View<K>>()) {
            Some(view) => Ok(view.clone()),
            None => {
                let name = KindName::of::<K>();
                Err(Error::terminal(format!(
                    "controller {} does not watch {name}: declare it with .owns::<{kind}>(), .watches::<{kind}>(..) \
                     or .reads::<{kind}>(), or ask the server with cx.live()",
                    self.0.controller,
                    kind = name.kind,
                )))
            }
        }
    }

    /// How the watches of all kinds are doing.
    pub(crate) fn health(&self) -> Vec<(KindName, Health)> {
        let views = self.all();
        let mut all: Vec<(KindName, Health)> = views
            .iter()
            .flat_map(|view| view.health().into_iter().map(|health| (view.name(), health)))
            .collect();
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        all
    }

    /// Waits until everything of all kinds was seen once.
    pub(crate) async fn synced(&self) {
        for view in self.all() {
            view.synced().await;
        }
    }

    fn all(&self) -> Vec<Arc<dyn AnyView>> {
        self.0.views.read().values().cloned().collect()
    }
}
