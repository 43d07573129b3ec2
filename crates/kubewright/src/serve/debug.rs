//! The page that shows what an operator is doing: as JSON for programs, as HTML for browsers.

use std::{fmt::Write as _, time::Duration};

use http::{StatusCode, header, request::Parts};
use serde::Serialize;
use tokio::time::Instant;

use super::{Answer, Inspected, text};
use crate::{
    controller::{Failure, Slow},
    kind::Key,
    queue::{Entry, Standing},
};

/// How many keys of each queue are shown.
const SHOWN: usize = 50;

#[derive(Serialize)]
struct State {
    operator: String,
    phase: String,
    watches: Vec<WatchLine>,
    queues: Vec<QueueLine>,
}

#[derive(Serialize)]
struct WatchLine {
    kind: String,
    objects: usize,
    synced: bool,
    trouble: Option<String>,
}

#[derive(Serialize)]
struct QueueLine {
    controller: String,
    depth: usize,
    delayed: usize,
    processing: usize,
    failing: usize,
    next: Vec<KeyLine>,
    slowest: Vec<SlowLine>,
    errors: Vec<ErrorLine>,
}

#[derive(Serialize)]
struct KeyLine {
    key: String,
    state: &'static str,
    /// How long it has been so; for delayed keys, how long it will be.
    seconds: f64,
    priority: String,
    failures: u32,
}

#[derive(Serialize)]
struct SlowLine {
    key: String,
    longest_seconds: f64,
    last_seconds: f64,
    time: String,
}

#[derive(Serialize)]
struct ErrorLine {
    time: String,
    key: String,
    message: String,
    count: u64,
}

pub(super) fn answer(request: &Parts, inspected: &Inspected) -> Answer {
    let state = State::of(inspected);
    let accept = request.headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    if accept.is_some_and(|accept| accept.contains("text/html")) {
        return text(StatusCode::OK, "text/html; charset=utf-8", page(&state));
    }
    let body = serde_json::to_string_pretty(&state).unwrap_or_default() + "\n";
    text(StatusCode::OK, "application/json", body)
}

impl State {
    fn of(inspected: &Inspected) -> Self {
        let watches = inspected.cache.watches().into_iter().map(|watch| WatchLine {
            kind: watch.name.to_string(),
            objects: watch.objects,
            synced: watch.health.is_synced,
            trouble: watch.health.trouble,
        });
        let mut watches: Vec<WatchLine> = watches.collect();
        watches.sort_by(|one, other| one.kind.cmp(&other.kind));
        let controllers = inspected.controllers.lock();
        let queues = controllers.iter().map(|controller| {
            let stats = controller.queue.stats();
            QueueLine {
                controller: controller.name.clone(),
                depth: stats.depth(),
                delayed: stats.delayed,
                processing: stats.processing,
                failing: stats.failing,
                next: controller.queue.describe(SHOWN).iter().map(KeyLine::of).collect(),
                slowest: controller.history.slowest().iter().map(SlowLine::of).collect(),
                errors: controller.history.failures().into_iter().map(ErrorLine::of).collect(),
            }
        });
        Self {
            operator: inspected.operator.to_string(),
            phase: format!("{:?}", *inspected.phase.borrow()).to_ascii_lowercase(),
            watches,
            queues: queues.collect(),
        }
    }
}

impl KeyLine {
    fn of(entry: &Entry<Key>) -> Self {
        let now = Instant::now();
        let (state, time) = match entry.standing {
            Standing::Processing { since, .. } => ("processing", now - since),
            Standing::Ready { since } => ("ready", now - since),
            Standing::Delayed { until } => ("delayed", until - now),
        };
        Self {
            key: entry.key.to_string(),
            state,
            seconds: seconds(time),
            priority: format!("{:?}", entry.priority).to_ascii_lowercase(),
            failures: entry.failures,
        }
    }
}

impl SlowLine {
    fn of(slow: &Slow) -> Self {
        Self {
            key: slow.key.to_string(),
            longest_seconds: seconds(slow.longest),
            last_seconds: seconds(slow.last),
            time: format!("{:.0}", slow.time),
        }
    }
}

impl ErrorLine {
    fn of(failure: Failure) -> Self {
        Self {
            time: format!("{:.0}", failure.time),
            key: failure.key.to_string(),
            message: failure.message,
            count: failure.count,
        }
    }
}

/// To the millisecond.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}

fn page(state: &State) -> String {
    let watches = state.watches.iter().map(|watch| {
        let synced = if watch.synced { "yes" } else { "no" };
        [
            watch.kind.clone(),
            watch.objects.to_string(),
            synced.to_owned(),
            watch.trouble.clone().unwrap_or_default(),
        ]
    });
    let mut body = table("Watches", ["kind", "objects", "synced", "trouble"], watches);
    for queue in &state.queues {
        let title = format!(
            "Queue of {}: {} ready, {} delayed, {} processing, {} failing",
            queue.controller, queue.depth, queue.delayed, queue.processing, queue.failing
        );
        let keys = queue.next.iter().map(|key| {
            let seconds = format!("{:.3}", key.seconds);
            [key.key.clone(), key.state.to_owned(), seconds, key.priority.clone(), key.failures.to_string()]
        });
        body += &table(&title, ["key", "state", "seconds", "priority", "failures"], keys);
        let slowest = queue.slowest.iter().map(|slow| {
            let (longest, last) =
                (format!("{:.3}", slow.longest_seconds), format!("{:.3}", slow.last_seconds));
            [slow.key.clone(), longest, last, slow.time.clone()]
        });
        let title = format!("Slowest objects of {}", queue.controller);
        body += &table(&title, ["key", "longest seconds", "last seconds", "last time"], slowest);
        let errors = queue.errors.iter().map(|error| {
            [error.time.clone(), error.key.clone(), error.message.clone(), error.count.to_string()]
        });
        let title = format!("Last errors of {}", queue.controller);
        body += &table(&title, ["time", "key", "message", "count"], errors);
    }
    let name = escaped(&state.operator);
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{name}</title>\n<style>body{{font:14px \
         system-ui;margin:2em}}table{{border-collapse:collapse}}td,th{{padding:.2em 1em .2em 0;\
         text-align:left}}</style>\n<h1>{name}: {}</h1>\n{body}</html>\n",
        state.phase
    )
}

fn table<const N: usize>(title: &str, head: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let mut table = format!("<h2>{}</h2>\n<table>\n<tr><th>{}</tr>\n", escaped(title), head.join("<th>"));
    for row in rows {
        // Writing into a string does not fail.
        let _ = writeln!(table, "<tr><td>{}</tr>", row.map(|cell| escaped(&cell)).join("<td>"));
    }
    table + "</table>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
