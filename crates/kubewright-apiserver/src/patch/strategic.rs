//! Strategic merge patch: a merge patch that knows from the schema how lists merge.
//!
//! Lists of objects merge by the key that their field declares, lists of scalars as sets, others are
//! replaced. Directives inside the patch (`$patch`, `$retainKeys`, `$setElementOrder/…`,
//! `$deleteFromPrimitiveList/…`) change that. Only built-in kinds have the schemas for it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::unprocessable;
use crate::{
    decode::{self, Parsed, go},
    error::ApiError,
    schema::{Merge, Schema, Type},
};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// Reads the patch from a body.
pub(crate) fn read(body: &[u8]) -> Result<Parsed<'_>, ApiError> {
    let mut parsed = decode::json::parse(body)
        .and_then(|parsed| super::require_object(&parsed).map(|()| parsed))
        .map_err(ApiError::bad_request)?;
    if parsed.value.is_null() {
        parsed.value = Value::Object(Map::new());
    }
    Ok(parsed)
}

/// Merges `patch` into `object`, an object of the kind that `schema` describes.
pub(crate) fn apply(object: &mut Value, patch: Value, schema: &Schema) -> Result<(), ApiError> {
    let (Value::Object(original), Value::Object(patch)) = (object.take(), patch) else {
        return Err(Failure::BadDocument.into());
    };
    *object = Value::Object(merge_map(original, patch, schema)?);
    Ok(())
}

/// What a patch can fail by. Most of it the server answers as a failure of its own.
enum Failure {
    BadDocument,
    BadPrimitiveList,
    BadRetainKeys,
    BadElementOrder,
    ListOfLists,
    Other(String),
}

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::BadDocument => Self::bad_request("invalid JSON document"),
            Failure::BadPrimitiveList => Self::bad_request("invalid patch format of primitive list"),
            Failure::BadRetainKeys => Self::bad_request("invalid patch format of retainKeys"),
            Failure::BadElementOrder => Self::bad_request("invalid patch format of setElementOrder list"),
            Failure::ListOfLists => unprocessable(),
            Failure::Other(why) => Self::unexplained(why),
        }
    }
}

type Merged<T> = Result<T, Failure>;
type Object = Map<String, Value>;

fn wrong_type(expected: &str, found: &Value) -> Failure {
    Failure::Other(format!("expected a {expected}, but received a {}", go::type_of(found)))
}

fn no_merge_key(item: &Object, key: &str) -> Failure {
    let shown = go::print(&Value::Object(item.clone()));
    Failure::Other(format!("map: {shown} does not contain declared merge key: {key}"))
}

/// What the schema says about a field of the object it describes.
fn lookup<'s>(schema: &'s Schema, name: &str) -> Merged<(&'s Schema, &'s Merge)> {
    let is_struct = schema.ty == Type::Any || (schema.ty == Type::Object && schema.values.is_none());
    if !is_struct {
        let kind = match schema.ty {
            Type::Object => "map",
            Type::Array => "slice",
            Type::Boolean => "bool",
            _ => "string",
        };
        let why = format!("merging an object in json but data type is not struct, instead is: {kind}");
        return Err(Failure::Other(why));
    }
    let folded =
        || schema.properties.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, field)| field);
    match schema.properties.get(name).or_else(folded) {
        Some(field) => Ok((&field.schema, &field.merge)),
        None => {
            let structure = schema.name.unwrap_or_default();
            let structure = structure.rsplit('.').next().unwrap_or_default();
            let name = go::quote(name);
            let why = format!("unable to find api field in struct {structure} for the json field {name}");
            Err(Failure::Other(why))
        }
    }
}

/// The same for a field that is a list: the schema is that of its items.
fn lookup_list<'s>(schema: &'s Schema, name: &str) -> Merged<(&'s Schema, &'s Merge)> {
    let (list, merge) = lookup(schema, name)?;
    match (&list.items, list.ty) {
        (Some(items), Type::Array) if items.ty == Type::Array => {
            Err(Failure::Other("unexpected slice of slice".to_owned()))
        }
        (Some(items), Type::Array) => Ok((items, merge)),
        _ => Err(Failure::Other("expected slice or array type, but got: struct".to_owned())),
    }
}

fn merge_map(mut original: Object, mut patch: Object, schema: &Schema) -> Merged<Object> {
    match patch.get(DIRECTIVE) {
        None => {}
        Some(Value::String(directive)) if directive == "replace" => {
            patch.remove(DIRECTIVE);
            return Ok(patch);
        }
        Some(Value::String(directive)) if directive == "delete" => return Ok(Object::new()),
        Some(other) => return Err(unknown_directive(other, &patch)),
    }
    retain_keys(&mut original, &mut patch)?;
    merge_ordered_lists(&mut original, &mut patch, schema)?;

    for (key, value) in patch {
        let deleting = key.starts_with(DELETE_FROM_LIST);
        let key = if deleting {
            let name = key.strip_prefix(DELETE_FROM_LIST).and_then(|rest| rest.strip_prefix('/'));
            name.ok_or(Failure::BadPrimitiveList)?.to_owned()
        } else {
            key
        };
        if value.is_null() {
            original.remove(&key);
            continue;
        }
        match (original.remove(&key), value) {
            (Some(Value::Object(current)), Value::Object(patch)) => {
                let (schema, _) = lookup(schema, &key)?;
                original.insert(key, Value::Object(merge_map(current, patch, schema)?));
            }
            (Some(Value::Array(current)), Value::Array(patch)) => {
                let (items, merge) = lookup_list(schema, &key)?;
                let list = if merge.merge || deleting {
                    merge_list(current, patch, items, merge.key.as_deref(), deleting)?
                } else {
                    patch
                };
                original.insert(key, Value::Array(list));
            }
            (current, _) if deleting => {
                if let Some(current) = current {
                    original.insert(key, current);
                }
            }
            (_, mut value) => {
                discard_nulls(&mut value);
                if remove_directives(&mut value) {
                    original.insert(key, value);
                }
            }
        }
    }
    Ok(original)
}

fn unknown_directive(directive: &Value, patch: &Object) -> Failure {
    let (directive, patch) = (go::print(directive), go::print(&Value::Object(patch.clone())));
    Failure::Other(format!("unknown patch type: {directive} in map: {patch}"))
}

/// `$retainKeys`: fields that are not listed are dropped, and the patch may only have listed ones.
fn retain_keys(original: &mut Object, patch: &mut Object) -> Merged<()> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(keys) = keys else { return Err(Failure::BadRetainKeys) };
    let keys: BTreeSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let listed = |(key, value): (&String, &Value)| {
        value.is_null()
            || key.starts_with(DELETE_FROM_LIST)
            || key.starts_with(SET_ORDER)
            || keys.contains(key.as_str())
    };
    if !patch.iter().all(listed) {
        return Err(Failure::BadRetainKeys);
    }
    original.retain(|key, _| keys.contains(key.as_str()));
    Ok(())
}

/// `$setElementOrder/…`: merges the lists it speaks of, and puts them into the order it asks for.
fn merge_ordered_lists(original: &mut Object, patch: &mut Object, schema: &Schema) -> Merged<()> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let order = match patch.remove(&directive) {
            Some(Value::Array(order)) => order,
            other => return Err(wrong_type("[]interface {}", &other.unwrap_or_default())),
        };
        let name = directive.strip_prefix(SET_ORDER).and_then(|rest| rest.strip_prefix('/'));
        let name = name.ok_or(Failure::BadElementOrder)?;
        let list = |object: &Object| match object.get(name) {
            None => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list.clone())),
            Some(other) => Err(wrong_type("[]interface {}", other)),
        };
        let (current, patched) = (list(original)?, list(patch)?);
        let (items, merge) = lookup_list(schema, name)?;
        let key = merge.key.as_deref();
        require_order(patched.as_deref().unwrap_or_default(), &order, key)?;
        let mut server_order = current.clone().unwrap_or_default();
        let kind = element_kind(&[&server_order, patched.as_deref().unwrap_or_default()]);
        let merged = match (current, patched) {
            (Some(current), None) => current,
            (None, Some(added)) => {
                let mut added = Value::Array(added);
                remove_directives(&mut added);
                match added {
                    Value::Array(added) => added,
                    _ => continue,
                }
            }
            (Some(current), Some(patched)) if merge.merge => {
                if let Some(key) = key {
                    overwrite(&mut server_order, &patched, key);
                }
                merge_list(current, patched, items, key, false)?
            }
            (Some(_), Some(patched)) => patched,
            (None, None) => continue,
        };
        kind?;
        original.insert(name.to_owned(), Value::Array(arrange(merged, &order, &server_order, key)?));
        patch.remove(name);
    }
    Ok(())
}

/// The real server merges within the very list that it takes its own order from afterwards: what is deleted
/// closes ranks, and what is added takes the places that this leaves at the end. Where new items come to
/// stand follows from it, so it is done here as well.
fn overwrite(server: &mut Vec<Value>, patch: &[Value], key: &str) {
    let directive = |item: &Value| item.get(DIRECTIVE).and_then(Value::as_str).map(str::to_owned);
    let name = |item: &Value| item.get(key).map(Value::to_string);
    let deleted: BTreeSet<Option<String>> =
        patch.iter().filter(|item| directive(item).as_deref() == Some("delete")).map(name).collect();
    let places = server.len();
    server.retain(|item| !deleted.contains(&name(item)));
    if patch.iter().any(|item| directive(item).as_deref() == Some("replace")) {
        return;
    }
    let mut known: BTreeSet<Option<String>> = server.iter().map(name).collect();
    for item in patch.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        if server.len() < places && known.insert(name(item)) {
            server.push(item.clone());
        }
    }
}

/// Every item of the patch must be in the order, and both in the same sequence.
fn require_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Merged<()> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut items = Vec::with_capacity(patch.len());
    for item in patch {
        match (item, key) {
            (Value::Object(map), Some(_))
                if map.get(DIRECTIVE).is_some_and(|directive| directive == "delete") => {}
            (Value::Object(_), Some(_)) | (_, None) => items.push(item),
            (other, Some(_)) => return Err(wrong_type("map[string]interface {}", other)),
        }
    }
    let (mut items, mut places) = (items.into_iter().peekable(), order.iter().peekable());
    while let (Some(item), Some(place)) = (items.peek(), places.peek()) {
        if item.get(DIRECTIVE).is_some() {
            items.next();
            continue;
        }
        if identity(item, key)? == identity(place, key)? {
            items.next();
        }
        places.next();
    }
    if items.peek().is_some() {
        return Err(Failure::Other(format!(
            "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
            go::print(&Value::Array(patch.to_vec())),
            go::print(&Value::Array(order.to_vec()))
        )));
    }
    Ok(())
}

/// What tells an item from others: the value of its merge key, or the item itself.
fn identity(item: &Value, key: Option<&str>) -> Merged<String> {
    let value = match key {
        None => item,
        Some(key) => match item {
            Value::Object(map) => map.get(key).ok_or_else(|| no_merge_key(map, key))?,
            other => return Err(wrong_type("map[string]interface {}", other)),
        },
    };
    Ok(value.to_string())
}

/// The type that all elements of the lists share: objects or scalars.
fn element_kind(lists: &[&[Value]]) -> Merged<&'static str> {
    let mut kind = None;
    for element in lists.iter().copied().flatten() {
        let found = go::type_of(element);
        match kind {
            None if element.is_array() => return Err(Failure::ListOfLists),
            None => kind = Some(found),
            Some(kind) if kind == found => {}
            Some(_) => {
                let shown: Vec<Value> = lists.iter().map(|list| Value::Array(list.to_vec())).collect();
                let shown = go::print(&Value::Array(shown));
                return Err(Failure::Other(format!("list element types are not identical: {shown}")));
            }
        }
    }
    kind.ok_or_else(|| Failure::Other("no elements in any of the given slices".to_owned()))
}

fn merge_list(
    original: Vec<Value>,
    patch: Vec<Value>,
    items: &Schema,
    key: Option<&str>,
    deleting: bool,
) -> Merged<Vec<Value>> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let objects = element_kind(&[&original, &patch])? == "map[string]interface {}";
    if !objects {
        if deleting {
            let deleted = identities(&patch, None)?;
            let kept = original.into_iter().filter(|item| !deleted.contains_key(&item.to_string()));
            return Ok(kept.collect());
        }
        let mut seen = BTreeSet::new();
        let both =
            original.iter().chain(&patch).filter(|item| seen.insert(item.to_string())).cloned().collect();
        return arrange(both, &patch, &original, key);
    }
    let Some(key) = key else {
        return Err(Failure::Other("cannot merge lists without merge key for struct".to_owned()));
    };
    let (original, patch) = apply_item_directives(original, patch, key)?;
    let mut places = BTreeMap::new();
    for (index, item) in original.iter().enumerate() {
        // Items without the key can't be matched, and stay what they are until the order is set.
        if let Ok(identity) = identity(item, Some(key)) {
            places.entry(identity).or_insert(index);
        }
    }
    let mut merged = original.clone();
    for item in &patch {
        let identity = identity(item, Some(key))?;
        match places.get(&identity) {
            Some(&index) => {
                if let (Value::Object(current), Value::Object(patch)) = (merged[index].take(), item.clone()) {
                    merged[index] = Value::Object(merge_map(current, patch, items)?);
                }
            }
            None => {
                places.insert(identity, merged.len());
                merged.push(item.clone());
            }
        }
    }
    arrange(merged, &patch, &original, Some(key))
}

/// Carries out the `$patch` directives among the items of a patch: what is left of both lists.
fn apply_item_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Merged<(Vec<Value>, Vec<Value>)> {
    let mut ordinary = Vec::with_capacity(patch.len());
    let (mut replace, mut deleted) = (false, BTreeSet::new());
    for item in patch {
        let Value::Object(map) = &item else { return Err(wrong_type("map[string]interface {}", &item)) };
        match map.get(DIRECTIVE) {
            None => ordinary.push(item),
            Some(directive) => match directive.as_str() {
                Some("delete") => {
                    let name = map.get(key).ok_or_else(|| no_merge_key(map, key))?;
                    deleted.insert(name.to_string());
                }
                Some("replace") => replace = true,
                Some("merge") => {
                    let why = "merging lists cannot yet be specified in the patch";
                    return Err(Failure::Other(why.to_owned()));
                }
                _ => return Err(unknown_directive(directive, map)),
            },
        }
    }
    if replace {
        return Ok((ordinary, Vec::new()));
    }
    original.retain(|item| item.get(key).is_none_or(|name| !deleted.contains(&name.to_string())));
    Ok((original, ordinary))
}

/// The place of every item, by what tells it apart; the first one counts.
fn identities(list: &[Value], key: Option<&str>) -> Merged<BTreeMap<String, usize>> {
    let mut places = BTreeMap::new();
    for (index, item) in list.iter().enumerate() {
        places.entry(identity(item, key)?).or_insert(index);
    }
    Ok(places)
}

/// Items that the patch speaks of come in its order, the others in the server's; where both have a place
/// in the server's order, that decides which of them comes first, otherwise the patch does.
fn arrange(merged: Vec<Value>, order: &[Value], server: &[Value], key: Option<&str>) -> Merged<Vec<Value>> {
    let (in_patch, on_server) = (identities(order, key)?, identities(server, key)?);
    let (mut patched, mut others) = (Vec::new(), Vec::new());
    for item in merged {
        let identity = identity(&item, key)?;
        let place = on_server.get(&identity).copied();
        match in_patch.get(&identity) {
            Some(&rank) => patched.push((rank, place, item)),
            None => others.push((place, item)),
        }
    }
    patched.sort_by_key(|(rank, ..)| *rank);
    others.sort_by_key(|(place, _)| *place);

    let mut arranged = Vec::with_capacity(patched.len() + others.len());
    let (mut patched, mut others) = (patched.into_iter().peekable(), others.into_iter().peekable());
    loop {
        let other_first = match (others.peek(), patched.peek()) {
            (Some((Some(other), _)), Some((_, Some(patched), _))) => other < patched,
            (Some(_), None) => true,
            _ => false,
        };
        let next = if other_first {
            others.next().map(|(_, item)| item)
        } else {
            patched.next().map(|(_, _, item)| item)
        };
        match next {
            Some(item) => arranged.push(item),
            None => return Ok(arranged),
        }
    }
}

/// Removes fields that are `null`, at any depth.
fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// Removes whatever carries a directive; false if that is the value itself.
fn remove_directives(value: &mut Value) -> bool {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => return false,
        Value::Object(map) => map.retain(|_, value| remove_directives(value)),
        Value::Array(items) => items.retain_mut(remove_directives),
        _ => {}
    }
    true
}

#[cfg(test)]
mod tests;
