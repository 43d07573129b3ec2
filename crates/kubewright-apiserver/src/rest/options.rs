//! The options of a request: read from the query (and the body of a delete), checked, made usable.

use serde_json::Value;

use crate::{
    decode::go::quote,
    error::{ApiError, Subject},
    field::{FieldError, Path},
    http::path::Query,
    selector::{FieldSelector, LabelSelector},
};

/// What happens to fields that the schema does not know, or that come twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// Options of create, update and patch.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    /// The name under which changed fields are recorded.
    pub(crate) manager: String,
    pub(crate) validation: FieldValidation,
    /// Only for apply: take over fields that others own.
    pub(crate) force: bool,
}

fn invalid(kind: &str, errors: &[FieldError]) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(&Subject { group: "meta.k8s.io", resource: "", kind }, "", errors))
}

fn check_dry_run<'a>(values: impl Iterator<Item = &'a str>, errors: &mut Vec<FieldError>) -> bool {
    let values: Vec<&str> = values.filter(|value| !value.is_empty()).collect();
    if values.iter().any(|value| *value != "All") {
        let path = Path::new("dryRun");
        errors.push(FieldError::not_supported(&path, Value::from(values.clone()), &["All"]));
    }
    !values.is_empty()
}

impl WriteOptions {
    /// `kind` is the name of the options in messages: `CreateOptions`, `UpdateOptions`, `PatchOptions`.
    pub(crate) fn read(kind: &str, query: &Query, user_agent: &str, apply: bool) -> Result<Self, ApiError> {
        let mut errors = Vec::new();
        let manager = query.get("fieldManager");
        let force = query.flag("force") && query.has("force");
        if kind == "PatchOptions" {
            if apply && manager.is_none() {
                errors.push(FieldError::required(&Path::new("fieldManager"), "is required for apply patch"));
            }
            if !apply && query.has("force") {
                errors.push(FieldError::forbidden(
                    &Path::new("force"),
                    "may not be specified for non-apply patch",
                ));
            }
        }
        if let Some(name) = manager {
            check_manager(name, &mut errors);
        }
        let dry_run = check_dry_run(query.all("dryRun"), &mut errors);
        let validation = match query.get("fieldValidation").unwrap_or("Warn") {
            "Ignore" => FieldValidation::Ignore,
            "Warn" => FieldValidation::Warn,
            "Strict" => FieldValidation::Strict,
            other => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                errors.push(FieldError::not_supported(&Path::new("fieldValidation"), other, &supported));
                FieldValidation::Warn
            }
        };
        invalid(kind, &errors)?;
        let manager = manager.map_or_else(|| crate::fields::manager_of_user_agent(user_agent), str::to_owned);
        Ok(Self { dry_run, manager, validation, force })
    }
}

fn check_manager(name: &str, errors: &mut Vec<FieldError>) {
    let path = Path::new("fieldManager");
    if name.len() > 128 {
        errors.push(FieldError::too_long(&path, 128));
    }
    if let Some((position, bad)) = name.chars().enumerate().find(|(_, c)| c.is_control()) {
        let detail = format!("invalid character U+{:04X} (at position {position})", bad as u32);
        errors.push(FieldError::invalid(&path, name, detail));
    }
}

/// Options of delete, from the body where there is one and from the query otherwise.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) dry_run: bool,
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
}

/// What happens to the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl DeleteOptions {
    pub(crate) fn read(query: &Query, body: Option<&Value>) -> Result<Self, ApiError> {
        let mut errors = Vec::new();
        let text = |name: &str| -> Option<String> {
            match body {
                Some(body) => body.get(name).and_then(Value::as_str).map(str::to_owned),
                None => query.get(name).map(str::to_owned),
            }
        };
        let number = match body {
            Some(body) => body.get("gracePeriodSeconds").and_then(Value::as_i64),
            None => query.get("gracePeriodSeconds").map(parse_int).transpose()?,
        };
        let orphan = match body {
            Some(body) => body.get("orphanDependents").and_then(Value::as_bool),
            None => query.has("orphanDependents").then(|| query.flag("orphanDependents")),
        };
        let propagation = match text("propagationPolicy").as_deref() {
            None | Some("") => None,
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let supported = ["Background", "Foreground", "Orphan", "nil"];
                errors.push(FieldError::not_supported(&Path::new("propagationPolicy"), other, &supported));
                None
            }
        };
        if orphan.is_some() && propagation.is_some() {
            let both = serde_json::json!(text("propagationPolicy"));
            errors.push(FieldError::invalid(
                &Path::new("propagationPolicy"),
                both,
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        let dry_run = match body.and_then(|body| body.get("dryRun")).and_then(Value::as_array) {
            Some(list) => check_dry_run(list.iter().filter_map(Value::as_str), &mut errors),
            None => check_dry_run(query.all("dryRun"), &mut errors),
        };
        invalid("DeleteOptions", &errors)?;
        let precondition = |name: &str| {
            body.and_then(|body| body.get("preconditions")?.get(name)?.as_str()).map(str::to_owned)
        };
        Ok(Self {
            dry_run,
            grace_period_seconds: number,
            propagation: propagation.or_else(|| {
                orphan.map(|orphan| if orphan { Propagation::Orphan } else { Propagation::Background })
            }),
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
        })
    }
}

fn parse_int(text: &str) -> Result<i64, ApiError> {
    text.parse().map_err(|_| {
        ApiError::bad_request(format!("strconv.ParseInt: parsing {}: invalid syntax", quote(text)))
    })
}

/// How the revision of a list is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RevisionMatch {
    Exact,
    NotOlderThan,
}

/// A year is for ever to a watch, and still a time that can be told.
const LONGEST_TIMEOUT_SECONDS: u64 = 365 * 24 * 3600;

/// Options of list, watch and deletecollection.
#[derive(Debug, Clone)]
pub(crate) struct ListOptions {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    pub(crate) limit: usize,
    pub(crate) continue_token: Option<String>,
    pub(crate) resource_version: String,
    pub(crate) revision_match: Option<RevisionMatch>,
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
}

impl ListOptions {
    pub(crate) fn read(query: &Query, watch: bool) -> Result<Self, ApiError> {
        let timeout = query.get("timeoutSeconds").map(parse_int).transpose()?;
        let limit = query.get("limit").map(parse_int).transpose()?.unwrap_or(0);
        let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or_default())?;
        let fields = FieldSelector::parse(query.get("fieldSelector").unwrap_or_default())?;
        let version = query.get("resourceVersion").unwrap_or_default().to_owned();
        let continue_token = query.get("continue").map(str::to_owned);
        let send_initial_events = query.has("sendInitialEvents").then(|| query.flag("sendInitialEvents"));
        let matching = query.get("resourceVersionMatch");
        let mut errors = Vec::new();
        let path = Path::new("resourceVersionMatch");
        let forbidden = |why: &str| FieldError::forbidden(&path, why);
        if watch {
            if send_initial_events.is_some() && matching != Some("NotOlderThan") {
                errors.push(forbidden(
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                ));
            }
            if let Some(text) = matching {
                if send_initial_events.is_none() {
                    errors.push(forbidden(
                        "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                    ));
                }
                if text != "NotOlderThan" {
                    errors.push(FieldError::not_supported(&path, text, &["NotOlderThan"]));
                }
                if continue_token.is_some() {
                    errors.push(forbidden("resourceVersionMatch is forbidden when continue is provided"));
                }
            }
        } else {
            if let Some(text) = matching {
                if version.is_empty() {
                    errors.push(forbidden(
                        "resourceVersionMatch is forbidden unless resourceVersion is provided",
                    ));
                }
                if continue_token.is_some() {
                    errors.push(forbidden("resourceVersionMatch is forbidden when continue is provided"));
                }
                if !matches!(text, "Exact" | "NotOlderThan") {
                    errors.push(FieldError::not_supported(&path, text, &["", "Exact", "NotOlderThan"]));
                }
                if text == "Exact" && version == "0" {
                    errors.push(forbidden(
                        "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                    ));
                }
            }
            if send_initial_events.is_some() {
                let path = Path::new("sendInitialEvents");
                errors.push(FieldError::forbidden(&path, "sendInitialEvents is forbidden for list"));
            }
        }
        invalid("ListOptions", &errors)?;
        Ok(Self {
            labels,
            fields,
            limit: usize::try_from(limit).unwrap_or(0),
            continue_token,
            resource_version: version,
            revision_match: match matching {
                Some("Exact") => Some(RevisionMatch::Exact),
                Some("NotOlderThan") => Some(RevisionMatch::NotOlderThan),
                _ => None,
            },
            timeout_seconds: timeout
                .and_then(|seconds| u64::try_from(seconds).ok())
                .filter(|seconds| *seconds > 0)
                .map(|seconds| seconds.min(LONGEST_TIMEOUT_SECONDS)),
            bookmarks: query.flag("allowWatchBookmarks"),
            send_initial_events,
        })
    }
}
