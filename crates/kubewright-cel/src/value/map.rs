//! Maps and objects: borrowed from the data and read entry by entry, or made by an expression.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use serde_json::Value as Json;

use super::{Str, Val};
use crate::{
    eval::EvalError,
    schema::{DeclType, ObjectShape, Shape, field_named},
};

/// A map or an object.
#[derive(Debug, Clone)]
pub enum Map<'a> {
    /// Borrowed from the data.
    #[doc(hidden)]
    Json { object: &'a serde_json::Map<String, Json>, fields: Fields<'a> },
    /// Made by the expression.
    #[doc(hidden)]
    Entries(Arc<BTreeMap<Key, Val<'a>>>),
}

/// How the values of a JSON object read.
#[derive(Debug, Clone, Copy)]
pub enum Fields<'a> {
    #[doc(hidden)]
    Values(&'a DeclType),
    #[doc(hidden)]
    Declared(&'a ObjectShape),
}

/// A key of a map that an expression made.
#[derive(Debug, Clone)]
pub enum Key {
    #[doc(hidden)]
    Bool(bool),
    #[doc(hidden)]
    Int(i64),
    #[doc(hidden)]
    Uint(u64),
    #[doc(hidden)]
    Double(f64),
    #[doc(hidden)]
    String(Arc<str>),
}

impl Key {
    pub(crate) fn from_val(value: &Val<'_>) -> Result<Self, EvalError> {
        Ok(match value {
            Val::Bool(value) => Self::Bool(*value),
            Val::Int(value) => Self::Int(*value),
            Val::Uint(value) => Self::Uint(*value),
            Val::Double(value) => Self::Double(*value),
            Val::String(text) => Self::String(match text {
                Str::Borrowed(text) => (*text).into(),
                Str::Shared(text) => text.clone(),
            }),
            other => {
                return Err(EvalError::new(format!(
                    "unsupported key type: {}",
                    other.type_value().runtime_name()
                )));
            }
        })
    }

    pub(crate) fn to_val<'a>(&self) -> Val<'a> {
        match self {
            Self::Bool(value) => Val::Bool(*value),
            Self::Int(value) => Val::Int(*value),
            Self::Uint(value) => Val::Uint(*value),
            Self::Double(value) => Val::Double(*value),
            Self::String(text) => Val::String(Str::Shared(text.clone())),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Bool(_) => 0,
            Self::Int(_) => 1,
            Self::Uint(_) => 2,
            Self::Double(_) => 3,
            Self::String(_) => 4,
        }
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(one), Self::Bool(two)) => one.cmp(two),
            (Self::Int(one), Self::Int(two)) => one.cmp(two),
            (Self::Uint(one), Self::Uint(two)) => one.cmp(two),
            (Self::Double(one), Self::Double(two)) => one.total_cmp(two),
            (Self::String(one), Self::String(two)) => one.cmp(two),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key {}

impl<'a> Map<'a> {
    pub(crate) fn from_entries(entries: BTreeMap<Key, Val<'a>>) -> Self {
        Self::Entries(Arc::new(entries))
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json { object, .. } => object.len(),
            Self::Entries(entries) => entries.len(),
        }
    }

    pub(crate) fn get(&self, key: &Val<'_>) -> Result<Option<Val<'a>>, EvalError> {
        match self {
            Self::Json { object, fields } => {
                let Val::String(name) = key else {
                    return match fields {
                        Fields::Values(ty) if matches!(ty.shape, Shape::Dyn) => Ok(None),
                        _ => Err(EvalError::no_such_overload()),
                    };
                };
                match fields {
                    Fields::Values(ty) => {
                        object.get(&**name).map(|json| Val::from_json(json, ty)).transpose()
                    }
                    Fields::Declared(shape) => {
                        let Some(field) = field_named(&shape.fields, name) else { return Ok(None) };
                        object
                            .get(&field.property)
                            .filter(|json| !json.is_null())
                            .map(|json| Val::from_json(json, &field.ty))
                            .transpose()
                    }
                }
            }
            Self::Entries(entries) => {
                let Ok(exact) = Key::from_val(key) else { return Ok(None) };
                if let Some(value) = entries.get(&exact) {
                    return Ok(Some(value.clone()));
                }
                // A number is found whatever its type.
                let others: [Option<Key>; 2] = match exact {
                    Key::Int(number) => [u64::try_from(number).ok().map(Key::Uint), None],
                    Key::Uint(number) => [i64::try_from(number).ok().map(Key::Int), None],
                    Key::Double(number) if number.fract() == 0.0 && number.abs() < 9.2e18 => {
                        let whole = number as i64;
                        [Some(Key::Int(whole)), u64::try_from(whole).ok().map(Key::Uint)]
                    }
                    _ => [None, None],
                };
                Ok(others.iter().flatten().find_map(|key| entries.get(key)).cloned())
            }
        }
    }

    /// The entries; each can fail, since data is only read now.
    pub fn iter(&self) -> impl Iterator<Item = Result<(Val<'a>, Val<'a>), EvalError>> + '_ {
        self.keys().into_iter().filter_map(|key| match self.get(&key) {
            Ok(value) => value.map(|value| Ok((key, value))),
            Err(error) => Some(Err(error)),
        })
    }

    pub(crate) fn keys(&self) -> Vec<Val<'a>> {
        match self {
            Self::Json { object, fields: Fields::Values(_) } => {
                object.keys().map(|key| Val::from(key.as_str())).collect()
            }
            Self::Json { object, fields: Fields::Declared(shape) } => object
                .keys()
                .filter_map(|key| shape.by_property.get(key))
                .map(|escaped| Val::from(escaped.as_str()))
                .collect(),
            Self::Entries(entries) => entries.keys().map(Key::to_val).collect(),
        }
    }

    pub(super) fn equal(&self, other: &Self) -> Result<bool, EvalError> {
        if self.len() != other.len() {
            return Ok(false);
        }
        if let (Self::Json { object: one, .. }, Self::Json { object: two, .. }) = (self, other)
            && one == two
        {
            return Ok(true);
        }
        for key in self.keys() {
            match (self.get(&key)?, other.get(&key)?) {
                (Some(one), Some(two)) if one.equal(&two)? => {}
                (None, None) => {}
                _ => return Ok(false),
            }
        }
        // What the schema does not declare compares as JSON.
        if let (Self::Json { object: one, fields: Fields::Declared(shape) }, Self::Json { object: two, .. }) =
            (self, other)
        {
            return Ok(one
                .iter()
                .filter(|(key, _)| !shape.by_property.contains_key(*key))
                .all(|(key, value)| two.get(key).is_none_or(|other| value == other)));
        }
        Ok(true)
    }
}
