//! `pods/log`: what the containers of pods have written. It is read from whoever runs them; which run of a
//! container is meant, and whether there is one, the status of the pod says.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::time::sleep;

use super::Scope;
use crate::{
    error::{ApiError, Subject},
    field::{FieldError, Path},
    http::answer::{self, Answer, Body},
    kinds::access,
    store::ResourceId,
};

/// How often a log that is followed is read again.
const FOLLOWED_EVERY: Duration = Duration::from_secs(1);

/// A line that a container has written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// When.
    pub at: Timestamp,
    /// What, without the end of the line.
    pub text: String,
}

/// Gives what containers have written, as kubelets do for an API server.
pub trait LogSource: Send + Sync + 'static {
    /// What a container of a pod has written so far in its present or last run, or in the one before that.
    fn lines(&self, pod: &Value, container: &str, previous: bool) -> Vec<LogLine>;
}

/// What is asked of a log.
struct Request {
    container: String,
    previous: bool,
    timestamps: bool,
    tail: Option<usize>,
    since: Option<Timestamp>,
    /// How many bytes may still be sent.
    left: usize,
}

impl Request {
    /// The part of these lines that is wanted.
    fn print(&mut self, mut lines: Vec<LogLine>) -> String {
        lines.retain(|line| self.since.is_none_or(|since| since <= line.at));
        // Of lines that come later, all are wanted.
        let skipped = self.tail.take().map_or(0, |tail| lines.len().saturating_sub(tail));
        let mut text = String::new();
        for line in &lines[skipped..] {
            if self.timestamps {
                let _ = write!(text, "{:.9} ", line.at);
            }
            text.push_str(&line.text);
            text.push('\n');
        }
        text.truncate(text.floor_char_boundary(self.left));
        self.left -= text.len();
        text
    }
}

/// A log that is followed: what there is, and then what comes, until the run ends.
struct Follow {
    scope: Arc<Scope>,
    source: Arc<dyn LogSource>,
    request: Request,
    /// The run, by the ID of its container.
    run: String,
    /// How many of its lines were looked at.
    seen: usize,
    has_begun: bool,
    is_over: bool,
}

impl Follow {
    async fn next(&mut self) -> Option<Bytes> {
        while !self.is_over && self.request.left > 0 {
            if std::mem::replace(&mut self.has_begun, true) {
                sleep(FOLLOWED_EVERY).await;
            }
            let pod = self.scope.live().await.ok()?;
            let container = status_of(&pod, &self.request.container);
            let is_same = access::get_str(container, &["containerID"]) == self.run;
            self.is_over = !is_same || container["state"]["running"].is_null();
            let lines = self.source.lines(&pod, &self.request.container, !is_same);
            let fresh = lines.get(self.seen..).unwrap_or_default().to_vec();
            self.seen = self.seen.max(lines.len());
            let text = self.request.print(fresh);
            if !text.is_empty() {
                return Some(text.into());
            }
        }
        None
    }
}

/// The status of a container; null if it has none.
fn status_of<'p>(pod: &'p Value, container: &str) -> &'p Value {
    let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let mut all = lists.iter().flat_map(|list| pod["status"][*list].as_array().into_iter().flatten());
    all.find(|status| status["name"] == container).unwrap_or(&Value::Null)
}

/// The ID of the run that is meant; why there is none, in the words of a kubelet.
fn run_of(pod: &Value, name: &str, request: &Request) -> Result<String, ApiError> {
    let container = &request.container;
    let refuse = |why: String| Err(ApiError::bad_request(why));
    let status = status_of(pod, container);
    if status.is_null() {
        return refuse(format!("container {container:?} in pod {name:?} is not available"));
    }
    let last = access::get_str(status, &["lastState", "terminated", "containerID"]);
    if request.previous {
        if last.is_empty() {
            return refuse(format!("previous terminated container {container:?} in pod {name:?} not found"));
        }
        return Ok(last.to_owned());
    }
    let state = &status["state"];
    if !state["running"].is_null() || !state["terminated"].is_null() {
        return Ok(access::get_str(status, &["containerID"]).to_owned());
    }
    if !last.is_empty() {
        return Ok(last.to_owned());
    }
    let why = match access::get_str(state, &["waiting", "reason"]) {
        "ErrImagePull" => "image can't be pulled",
        "ImagePullBackOff" => "trying and failing to pull image",
        reason => reason,
    };
    refuse(format!("container {container:?} in pod {name:?} is waiting to start: {why}"))
}

impl Scope {
    pub(super) async fn log(self: &Arc<Self>) -> Result<Answer, ApiError> {
        let mut request = self.log_request()?;
        let pod = self.live().await?;
        request.container = self.container_of(&pod, request.container)?;
        let node = access::get_str(&pod, &["spec", "nodeName"]);
        if node.is_empty() {
            return Ok(answer::bytes(204, "text/plain", ""));
        }
        if self.server.store.get(&ResourceId::new("", "nodes"), node).is_none() {
            return Err(ApiError::not_found(&self.resource.subject(), node));
        }
        let Some(source) = self.server.log_source() else { return Err(self.no_node()) };
        let run = run_of(&pod, &self.name, &request)?;
        if request.previous || !self.query.flag("follow") {
            let text = request.print(source.lines(&pod, &request.container, request.previous));
            return Ok(answer::bytes(200, "text/plain", text));
        }
        let follow =
            Follow { scope: self.clone(), source, request, run, seen: 0, has_begun: false, is_over: false };
        let chunks = futures_util::stream::unfold(follow, |mut follow| async move {
            let stopped = follow.scope.server.clone();
            let chunk = tokio::select! {
                chunk = follow.next() => chunk?,
                () = stopped.stopped() => return None,
            };
            Some((chunk, follow))
        });
        Ok(answer::of(200, "text/plain", Body::stream(Box::pin(chunks))))
    }

    fn log_request(&self) -> Result<Request, ApiError> {
        let mut errors = Vec::new();
        let mut number = |name: &str, least: i64| -> Result<Option<i64>, ApiError> {
            let Some(value) = self.query.get(name) else { return Ok(None) };
            let number: i64 = value.parse().map_err(|_| {
                ApiError::bad_request(format!("strconv.ParseInt: parsing {value:?}: invalid syntax"))
            })?;
            if number < least {
                let why =
                    if least == 0 { "must be greater than or equal to 0" } else { "must be greater than 0" };
                errors.push(FieldError::invalid(&Path::new(name), number, why));
            }
            Ok(Some(number))
        };
        let tail = number("tailLines", 0)?;
        let limit = number("limitBytes", 1)?;
        let seconds = number("sinceSeconds", 1)?;
        let time = match self.query.get("sinceTime").filter(|time| !time.is_empty()) {
            Some(time) => {
                Some(time.parse::<Timestamp>().map_err(|why| ApiError::bad_request(why.to_string()))?)
            }
            None => None,
        };
        if seconds.is_some() && time.is_some() {
            let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(FieldError::forbidden(&Path::new(""), why));
        }
        if !errors.is_empty() {
            let subject = Subject { group: "", resource: "pods", kind: "PodLogOptions" };
            return Err(ApiError::invalid(&subject, &self.name, &errors));
        }
        let ago = |seconds| self.server.clock.now().saturating_sub(SignedDuration::from_secs(seconds)).ok();
        Ok(Request {
            container: self.query.get("container").unwrap_or_default().to_owned(),
            previous: self.query.flag("previous"),
            timestamps: self.query.flag("timestamps"),
            tail: tail.and_then(|tail| usize::try_from(tail).ok()),
            since: time.or_else(|| seconds.and_then(ago)),
            left: limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX),
        })
    }

    /// The container that is meant: the one that was named, or the only one.
    fn container_of(&self, pod: &Value, wanted: String) -> Result<String, ApiError> {
        let name = &self.name;
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        let all = lists.iter().flat_map(|list| pod["spec"][*list].as_array().into_iter().flatten());
        let all: Vec<&str> = all.filter_map(|container| container["name"].as_str()).collect();
        let main = pod["spec"]["containers"].as_array().map_or(&[][..], Vec::as_slice);
        match (wanted.is_empty(), main) {
            (false, _) if all.contains(&wanted.as_str()) => Ok(wanted),
            (false, _) => {
                Err(ApiError::bad_request(format!("container {wanted} is not valid for pod {name}")))
            }
            (true, [only]) => Ok(access::get_str(only, &["name"]).to_owned()),
            (true, _) => Err(ApiError::bad_request(format!(
                "a container name must be specified for pod {name}, choose one of: [{}]",
                all.join(" ")
            ))),
        }
    }
}
