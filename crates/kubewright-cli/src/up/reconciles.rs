//! What the operators have just reconciled, as their tracing tells it.

use std::{
    collections::{BTreeSet, VecDeque},
    fmt,
    sync::Arc,
};

use parking_lot::Mutex;
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id},
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

/// How many are remembered.
const REMEMBERED: usize = 50;

/// A reconcile that has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reconcile {
    pub(super) controller: String,
    pub(super) object: String,
    /// Why it failed, if it did.
    pub(super) failure: Option<String>,
    /// How often the same has happened since another did.
    pub(super) times: usize,
}

/// The latest reconciles of some controllers. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub(super) struct Reconciles(Arc<Mutex<Remembered>>);

#[derive(Default)]
struct Remembered {
    /// The controllers whose reconciles count.
    controllers: BTreeSet<String>,
    /// The latest last.
    latest: VecDeque<Reconcile>,
}

impl Reconciles {
    /// From now on the reconciles of a controller count.
    pub(super) fn follow(&self, controller: &str) {
        self.0.lock().controllers.insert(controller.to_owned());
    }

    /// The latest ones, the last one last.
    pub(super) fn latest(&self, count: usize) -> Vec<Reconcile> {
        let remembered = self.0.lock();
        let skipped = remembered.latest.len().saturating_sub(count);
        remembered.latest.iter().skip(skipped).cloned().collect()
    }

    fn ended(&self, reconcile: Reconcile) {
        let Remembered { controllers, latest } = &mut *self.0.lock();
        if !controllers.contains(&reconcile.controller) {
            return;
        }
        match latest.back_mut() {
            Some(last) if (Reconcile { times: 1, ..last.clone() }) == reconcile => last.times += 1,
            _ => latest.push_back(reconcile),
        }
        if latest.len() > REMEMBERED {
            latest.pop_front();
        }
    }
}

impl<S: Subscriber + for<'l> LookupSpan<'l>> Layer<S> for Reconciles {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: Context<'_, S>) {
        if let Some(span) = cx.span(id).filter(|span| span.name() == "reconcile") {
            let mut reconcile = Reconcile { times: 1, ..Reconcile::default() };
            attributes.record(&mut reconcile);
            span.extensions_mut().insert(reconcile);
        }
    }

    fn on_event(&self, event: &Event<'_>, cx: Context<'_, S>) {
        if let Some(span) = cx.lookup_current()
            && let Some(reconcile) = span.extensions_mut().get_mut::<Reconcile>()
        {
            event.record(reconcile);
        }
    }

    fn on_close(&self, id: Id, cx: Context<'_, S>) {
        let reconcile = cx.span(&id).and_then(|span| span.extensions_mut().remove::<Reconcile>());
        if let Some(reconcile) = reconcile {
            self.ended(reconcile);
        }
    }
}

impl Visit for Reconcile {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "controller" => self.controller = format!("{value:?}").trim_matches('"').to_owned(),
            "object" => self.object = format!("{value:?}"),
            "error" | "panic" => self.failure = Some(format!("{value:?}")),
            "limit" => self.failure = Some(format!("took longer than {value:?}")),
            _ => {}
        }
    }
}
