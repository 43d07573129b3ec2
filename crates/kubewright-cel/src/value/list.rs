//! Lists: borrowed from the data and read item by item, or made by an expression.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{Evaluated, Val};
use crate::{
    eval::EvalError,
    schema::{DeclType, ListIdentity, escape_identifier},
};

/// A list.
#[derive(Debug, Clone)]
pub struct List<'a> {
    pub(crate) items: Items<'a>,
    /// How a list with a schema tells its items apart; none for lists an expression made.
    pub(crate) identity: Option<&'a ListIdentity>,
}

#[derive(Debug, Clone)]
pub(crate) enum Items<'a> {
    Json { array: &'a [Json], ty: &'a DeclType },
    Owned(Arc<Vec<Val<'a>>>),
}

impl<'a> List<'a> {
    pub(crate) fn len(&self) -> usize {
        match &self.items {
            Items::Json { array, .. } => array.len(),
            Items::Owned(items) => items.len(),
        }
    }

    /// The item at a position below the length.
    pub(crate) fn get(&self, position: usize) -> Evaluated<'a> {
        match &self.items {
            Items::Json { array, ty } => Val::from_json(&array[position], ty),
            Items::Owned(items) => Ok(items[position].clone()),
        }
    }

    /// The items; each can fail, since data is only read now.
    pub fn iter(&self) -> impl Iterator<Item = Result<Val<'a>, EvalError>> + '_ {
        (0..self.len()).map(|position| self.get(position))
    }

    fn values(&self) -> Result<Vec<Val<'a>>, EvalError> {
        self.iter().collect()
    }

    pub(crate) fn contains(&self, value: &Val<'a>) -> Result<bool, EvalError> {
        let mut problem = None;
        for item in self.iter() {
            match item.and_then(|item| item.equal(value)) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) => problem = problem.or(Some(error)),
            }
        }
        problem.map_or(Ok(false), Err)
    }

    pub(super) fn equal(&self, other: &Self) -> Result<bool, EvalError> {
        if self.len() != other.len() {
            return Ok(false);
        }
        if let (Items::Json { array: one, ty }, Items::Json { array: two, ty: other_ty }) =
            (&self.items, &other.items)
            && std::ptr::eq(*ty, *other_ty)
            && one == two
        {
            return Ok(true);
        }
        match self.identity {
            Some(ListIdentity::Set) => {
                for item in other.iter() {
                    if !self.contains(&item?)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Some(ListIdentity::Map(keys)) => {
                let items = self.values()?;
                for item in other.iter() {
                    let item = item?;
                    let Some(same) = items.iter().find(|candidate| same_keys(candidate, &item, keys)) else {
                        return Ok(false);
                    };
                    if !same.equal(&item)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => {
                for (one, two) in self.iter().zip(other.iter()) {
                    if !one?.equal(&two?)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    pub(crate) fn concat(&self, other: &Self) -> Evaluated<'a> {
        if self.len() == 0 && self.identity.is_none() && other.identity.is_none() {
            return Ok(Val::List(other.clone()));
        }
        let mut items = self.values()?;
        for item in other.iter() {
            let item = item?;
            match self.identity {
                Some(ListIdentity::Set) => {
                    if !contains(&items, &item)? {
                        items.push(item);
                    }
                }
                Some(ListIdentity::Map(keys)) => {
                    match items.iter_mut().find(|candidate| same_keys(candidate, &item, keys)) {
                        Some(same) => *same = item,
                        None => items.push(item),
                    }
                }
                _ => items.push(item),
            }
        }
        Ok(Val::List(List { items: Items::Owned(Arc::new(items)), identity: self.identity }))
    }
}

fn contains(items: &[Val<'_>], item: &Val<'_>) -> Result<bool, EvalError> {
    for candidate in items {
        if candidate.equal(item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn same_keys(one: &Val<'_>, two: &Val<'_>, keys: &[String]) -> bool {
    keys.iter().all(|key| {
        let key = escape_identifier(key).unwrap_or_else(|| key.clone());
        let key = Val::from(key.as_str());
        match (one.get(&key), two.get(&key)) {
            (Ok(Some(one)), Ok(Some(two))) => one.equal(&two).unwrap_or(false),
            (Ok(None), Ok(None)) => true,
            _ => false,
        }
    })
}
