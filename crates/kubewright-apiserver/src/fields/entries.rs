//! `metadata.managedFields`: decoding, encoding, order, and the cap on entries of past updates. An entry is
//! told apart by manager, operation, subresource and, for updates, apiVersion.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{node::Node, set::FieldSet};
use crate::clock;

/// How many entries of updates an object keeps apart.
const MOST_UPDATERS: usize = 10;

/// How a manager came to own fields. `Apply` sorts before `Update`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// What one manager owns.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) manager: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    pub(super) subresource: String,
    /// RFC 3339 in UTC and whole seconds, so that the order of texts is that of times.
    pub(super) time: Option<String>,
    pub(super) fields: FieldSet,
    /// The JSON this entry was read from, while it still says the same.
    json: Option<Value>,
}

impl Entry {
    pub(super) fn new(manager: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        Self {
            manager: manager.to_owned(),
            operation,
            api_version: api_version.to_owned(),
            subresource: subresource.to_owned(),
            time: None,
            fields: FieldSet::default(),
            json: None,
        }
    }

    /// Adds fields that were taken at this time.
    pub(super) fn take(&mut self, fields: FieldSet, time: Option<String>) {
        self.fields.union(fields);
        self.time = time;
        self.json = None;
    }

    /// Gives fields up. Tells whether there were any.
    pub(super) fn give_up(&mut self, fields: &FieldSet) -> bool {
        let changed = self.fields.remove(fields);
        if changed {
            self.json = None;
        }
        changed
    }

    /// Brings the fields in line with a changed schema. Tells whether that took anything.
    pub(super) fn follow_schema(&mut self, node: Node<'_>) -> bool {
        let changed = self.fields.follow_schema(node);
        if changed {
            self.json = None;
        }
        changed
    }

    /// Whether both speak of the same manager.
    fn is_twin_of(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// A text that tells entries apart; kube-apiserver orders by it.
    pub(super) fn identifier(&self) -> String {
        let text = |text: &str| Value::from(text).to_string();
        let mut out =
            format!("{{\"manager\":{},\"operation\":\"{}\"", text(&self.manager), self.operation.name());
        if self.operation == Operation::Update {
            out.push_str(&format!(",\"apiVersion\":{}", text(&self.api_version)));
        }
        if !self.subresource.is_empty() {
            out.push_str(&format!(",\"subresource\":{}", text(&self.subresource)));
        }
        out.push('}');
        out
    }

    fn decode(place: usize, entry: &Value) -> Result<Self, String> {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err("operation must be `Apply` or `Update`".to_owned()),
        };
        if text("apiVersion").is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        match text("fieldsType") {
            "FieldsV1" => {}
            "" => return Err(format!("missing fieldsType in managed fields entry {place}")),
            other => {
                return Err(format!("invalid fieldsType {other:?} in managed fields entry {place}"));
            }
        }
        let fields = match entry.get("fieldsV1") {
            None => Ok(FieldSet::default()),
            Some(Value::String(text)) => FieldSet::from_text(text),
            Some(unfolded) => FieldSet::from_text(&unfolded.to_string()),
        };
        let fields = fields
            .map_err(|why| format!("error decoding versioned set from {entry}: error decoding set: {why}"))?;
        Ok(Self {
            manager: text("manager").to_owned(),
            operation,
            api_version: text("apiVersion").to_owned(),
            subresource: text("subresource").to_owned(),
            time: entry.get("time").and_then(Value::as_str).and_then(canonical_time),
            fields,
            json: None,
        })
    }

    fn encode(self) -> Value {
        if let Some(json) = self.json {
            return json;
        }
        let mut entry = Map::new();
        let mut put = |name: &str, text: &str| {
            if !text.is_empty() {
                entry.insert(name.to_owned(), text.into());
            }
        };
        put("manager", &self.manager);
        put("operation", self.operation.name());
        put("apiVersion", &self.api_version);
        put("time", self.time.as_deref().unwrap_or_default());
        put("fieldsType", "FieldsV1");
        put("subresource", &self.subresource);
        entry.insert("fieldsV1".to_owned(), self.fields.to_text().into());
        Value::Object(entry)
    }
}

fn canonical_time(text: &str) -> Option<String> {
    // The usual case, a time this server wrote, needs no parsing.
    let is_canonical = text.len() == 20
        && text
            .bytes()
            .zip(b"0000-00-00T00:00:00Z")
            .all(|(found, shape)| if *shape == b'0' { found.is_ascii_digit() } else { found == *shape });
    if is_canonical { Some(text.to_owned()) } else { text.parse().ok().map(clock::seconds) }
}

/// All entries of an object.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Entries {
    pub(super) list: Vec<Entry>,
}

impl Entries {
    /// Reads `metadata.managedFields`; of two entries of the same manager the later one counts.
    pub(super) fn decode(managed: Option<&Value>) -> Result<Self, String> {
        let mut entries = Self::default();
        for (place, entry) in managed.and_then(Value::as_array).into_iter().flatten().enumerate() {
            let entry = Entry::decode(place, entry)?;
            match entries.position(&entry) {
                Some(place) => entries.list[place] = entry,
                None => entries.list.push(entry),
            }
        }
        Ok(entries)
    }

    /// Remembers the JSON the entries were just read from, to give it back where nothing changes. It must
    /// be what this server once wrote, since it is not brought into canonical form again.
    pub(super) fn remember(&mut self, managed: Value) {
        if let Value::Array(managed) = managed
            && managed.len() == self.list.len()
        {
            for (entry, json) in self.list.iter_mut().zip(managed) {
                entry.json = Some(json);
            }
        }
    }

    /// The entries as folded `metadata.managedFields`, in their order; `None` if there are none.
    pub(super) fn encode(mut self) -> Option<Value> {
        self.list.sort_by(|a, b| {
            (a.operation, &a.time, &a.manager, &a.api_version, &a.subresource).cmp(&(
                b.operation,
                &b.time,
                &b.manager,
                &b.api_version,
                &b.subresource,
            ))
        });
        if self.list.is_empty() { None } else { Some(self.list.into_iter().map(Entry::encode).collect()) }
    }

    /// Where the entry of the same manager is.
    pub(super) fn position(&self, entry: &Entry) -> Option<usize> {
        self.list.iter().position(|other| other.is_twin_of(entry))
    }

    /// Merges the oldest updates into one entry a version, so that at most ten are left.
    pub(super) fn cap_updaters(&mut self) {
        let mut updaters: Vec<usize> =
            (0..self.list.len()).filter(|place| self.list[*place].operation == Operation::Update).collect();
        let Some(mut surplus) = updaters.len().checked_sub(MOST_UPDATERS).filter(|surplus| *surplus > 0)
        else {
            return;
        };
        updaters.sort_by_cached_key(|place| {
            let entry = &self.list[*place];
            (entry.time.clone(), entry.identifier())
        });
        let mut bucket_of_version: BTreeMap<String, usize> = BTreeMap::new();
        let mut merged = Vec::new();
        for place in updaters {
            if surplus == 0 {
                break;
            }
            let version = self.list[place].api_version.clone();
            let Some(&first) = bucket_of_version.get(&version) else {
                bucket_of_version.insert(version, place);
                continue;
            };
            let bucket = Entry::new("ancient-changes", Operation::Update, &version, "");
            let target = self.position(&bucket).unwrap_or_else(|| {
                self.list[first].manager = bucket.manager;
                self.list[first].subresource = bucket.subresource;
                first
            });
            bucket_of_version.insert(version, target);
            if target == place {
                continue;
            }
            let fields = std::mem::take(&mut self.list[place].fields);
            let time = self.list[place].time.clone();
            self.list[target].take(fields, time);
            merged.push(place);
            surplus -= 1;
        }
        let mut place = 0;
        self.list.retain(|_| {
            place += 1;
            !merged.contains(&(place - 1))
        });
    }
}

/// `metadata.managedFields` of an object.
pub(super) fn managed_fields(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

/// Takes `metadata.managedFields` off an object.
pub(super) fn take_managed_fields(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove("managedFields")
}

/// Puts `metadata.managedFields` in place, or takes it away.
pub(super) fn set_managed_fields(object: &mut Value, managed: Option<Value>) {
    match managed {
        Some(managed) => {
            let Some(object) = object.as_object_mut() else { return };
            let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
            if metadata.is_null() {
                *metadata = Value::Object(Map::new());
            }
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.insert("managedFields".to_owned(), managed);
            }
        }
        None => {
            take_managed_fields(object);
        }
    }
}

/// Whether a request asks to forget all managers: an empty list, or one empty entry.
pub(super) fn is_reset(managed: &Value) -> bool {
    let is_blank = |entry: &Value| {
        entry.as_object().is_some_and(|fields| {
            fields.values().all(|value| match value {
                Value::Null => true,
                Value::String(text) => text.is_empty(),
                _ => false,
            })
        })
    };
    match managed.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([only]) => is_blank(only),
        _ => false,
    }
}

/// Whether an admission plugin left `metadata.managedFields` in a state that makes sense; the error is the
/// end of the warning kube-apiserver gives before it puts the former ones back.
pub(crate) fn check_managed_fields(object: &Value) -> Result<(), String> {
    Entries::decode(managed_fields(object)).map(|_| ())
}

/// Gives entries their former times back if nothing but times differs between the old and the new object, so
/// that a write without effect stays without effect.
pub(crate) fn keep_times_of_unchanged(old: &Value, new: &mut Value) {
    fn same_but(ignored: &str, a: &Value, b: &Value, inner: impl Fn(&Value, &Value) -> bool) -> bool {
        let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return a == b };
        a.len() == b.len()
            && a.iter().all(|(name, a)| {
                b.get(name).is_some_and(|b| if name == ignored { inner(a, b) } else { a == b })
            })
    }
    let (Some(before), Some(after)) = (managed_fields(old), managed_fields(new)) else { return };
    let (Some(before_list), Some(after_list)) = (before.as_array(), after.as_array()) else { return };
    let same_entries = before_list.len() == after_list.len()
        && before_list.iter().zip(after_list).all(|(a, b)| {
            let without_time = |entry: &Value| {
                entry.as_object().map_or(0, serde_json::Map::len) - usize::from(entry.get("time").is_some())
            };
            without_time(a) == without_time(b)
                && a.as_object().is_some_and(|a| {
                    a.iter().all(|(name, value)| name == "time" || b.get(name) == Some(value))
                })
        });
    if same_entries
        && before != after
        && same_but("metadata", old, new, |old, new| same_but("managedFields", old, new, |_, _| true))
    {
        let before = before.clone();
        set_managed_fields(new, Some(before));
    }
}
