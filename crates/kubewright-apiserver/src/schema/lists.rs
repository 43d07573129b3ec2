//! That the items of sets and keyed lists are unique.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::field::{FieldError, Path};

use super::{ListType, Schema, object_meta::object_meta};

/// The items of sets and keyed lists of `value` that appear more than once.
pub(crate) fn validate_lists(value: &Value, schema: &Schema) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(value, schema, &Path::default(), &mut errors);
    errors
}

fn walk(value: &Value, schema: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    if !schema.below.keyed_lists {
        return;
    }
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                match schema.properties.get(name) {
                    Some(field) if field.schema.same(object_meta()) => {}
                    Some(field) if field.schema.below.keyed_lists => {
                        walk(value, &field.schema, &path.child(name), errors);
                    }
                    Some(_) => {}
                    None => {
                        if let Some(values) = &schema.values {
                            walk(value, values, &path.key(name), errors);
                        }
                    }
                }
            }
        }
        Value::Array(list) => {
            match &schema.list {
                ListType::Atomic => {}
                ListType::Set => errors.extend(
                    repeated(list.iter().map(Value::to_string))
                        .map(|index| FieldError::duplicate(&path.index(index), list[index].clone())),
                ),
                ListType::Map(keys) => errors.extend(repeated_keys(list, keys, path)),
            }
            if let Some(items) = &schema.items {
                for (index, item) in list.iter().enumerate() {
                    walk(item, items, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn repeated_keys(list: &[Value], keys: &[String], path: &Path) -> Vec<FieldError> {
    let stranger = list.iter().position(|item| !item.is_null() && !item.is_object());
    if let Some(index) = stranger {
        let detail = "must be an object for an array of list-type map";
        return vec![FieldError::invalid(&path.index(index), list[index].clone(), detail)];
    }
    let key_of = |item: &Value| -> Value {
        let named = keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
        named.collect::<Map<_, _>>().into()
    };
    repeated(list.iter().map(|item| key_of(item).to_string()))
        .map(|index| FieldError::duplicate(&path.index(index), key_of(&list[index])))
        .collect()
}

/// The index of the second appearance of each text that appears more than once.
fn repeated(texts: impl ExactSizeIterator<Item = String>) -> impl Iterator<Item = usize> {
    let mut second = Vec::new();
    if texts.len() > 1 {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for (index, text) in texts.enumerate() {
            let times = seen.entry(text).or_default();
            *times += 1;
            if *times == 2 {
                second.push(index);
            }
        }
    }
    second.into_iter()
}
