//! Functions on lists, sets, maps and optionals.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use super::{standard, strings};
use crate::{
    eval::EvalError,
    time::Span,
    value::{Evaluated, Key, List, Map, Val},
};

fn no_such_overload<'a>() -> Evaluated<'a> {
    Err(EvalError::no_such_overload())
}

fn items<'a>(list: &List<'a>) -> Result<Vec<Val<'a>>, EvalError> {
    list.iter().collect()
}

pub(super) fn index_of<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::String(text), Val::String(part)] => strings::index_of(text, part, 0),
        [Val::String(text), Val::String(part), Val::Int(offset)] => strings::index_of(text, part, *offset),
        [Val::List(list), value] => position(list, 0..list.len(), value),
        _ => no_such_overload(),
    }
}

pub(super) fn last_index_of<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::String(text), Val::String(part)] => strings::last_index_of(text, part, None),
        [Val::String(text), Val::String(part), Val::Int(offset)] => {
            strings::last_index_of(text, part, Some(*offset))
        }
        [Val::List(list), value] => position(list, (0..list.len()).rev(), value),
        _ => no_such_overload(),
    }
}

fn position<'a>(list: &List<'a>, positions: impl Iterator<Item = usize>, value: &Val<'a>) -> Evaluated<'a> {
    for position in positions {
        if list.get(position)?.equal(value).unwrap_or(false) {
            return Ok(Val::Int(position as i64));
        }
    }
    Ok(Val::Int(-1))
}

pub(super) fn is_sorted<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    let [Val::List(list)] = args else { return no_such_overload() };
    let mut previous: Option<Val<'a>> = None;
    for item in list.iter() {
        let item = item?;
        if let Some(previous) = &previous
            && previous.compare(&item)? == Some(Ordering::Greater)
        {
            return Ok(Val::Bool(false));
        }
        previous = Some(item);
    }
    Ok(Val::Bool(true))
}

pub(super) fn sum<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    let [Val::List(list)] = args else { return no_such_overload() };
    let mut total: Option<Val<'a>> = None;
    for item in list.iter() {
        let item = item?;
        total = Some(match total {
            None => {
                let zero = match &item {
                    Val::Uint(_) => Val::Uint(0),
                    Val::Double(_) => Val::Double(0.0),
                    Val::Duration(_) => Val::Duration(Span { nanos: 0 }),
                    _ => Val::Int(0),
                };
                standard::add(&[zero, item])?
            }
            Some(total) => standard::add(&[total, item])?,
        });
    }
    Ok(total.unwrap_or(Val::Int(0)))
}

fn extreme<'a>(args: &[Val<'a>], name: &str, prefer: Ordering) -> Evaluated<'a> {
    let [Val::List(list)] = args else { return no_such_overload() };
    let mut best: Option<Val<'a>> = None;
    for item in list.iter() {
        let item = item?;
        best = Some(match best {
            Some(best) if best.compare(&item)? != Some(prefer) => best,
            _ => item,
        });
    }
    best.ok_or_else(|| EvalError::new(format!("{name} called on empty list")))
}

pub(super) fn max<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    extreme(args, "max", Ordering::Less)
}

pub(super) fn min<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    extreme(args, "min", Ordering::Greater)
}

pub(super) fn slice<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    let [Val::List(list), Val::Int(start), Val::Int(end)] = args else { return no_such_overload() };
    let problem = |why: String| Err(EvalError::new(format!("cannot slice({start}, {end}), {why}")));
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return problem("negative indexes not supported".into());
    };
    if from > to {
        return problem("start index must be less than or equal to end index".into());
    }
    if list.len() < to {
        return problem(format!("list is length {}", list.len()));
    }
    (from..to).map(|position| list.get(position)).collect::<Result<Vec<_>, _>>().map(Val::from)
}

pub(super) fn flatten<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    let (list, depth) = match args {
        [Val::List(list)] => (list, 1),
        [Val::List(list), Val::Int(depth)] => (list, *depth),
        _ => return no_such_overload(),
    };
    if depth < 0 {
        return Err(EvalError::new("level must be non-negative"));
    }
    let mut flat = Vec::new();
    flatten_into(list, depth, &mut flat)?;
    Ok(Val::from(flat))
}

fn flatten_into<'a>(list: &List<'a>, depth: i64, flat: &mut Vec<Val<'a>>) -> Result<(), EvalError> {
    for item in list.iter() {
        match item? {
            Val::List(inner) if depth > 0 => flatten_into(&inner, depth - 1, flat)?,
            item => flat.push(item),
        }
    }
    Ok(())
}

pub(super) fn sort<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    let [Val::List(list)] = args else { return no_such_overload() };
    sorted(list, list)
}

pub(super) fn sort_by_keys<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    let [Val::List(list), Val::List(keys)] = args else { return no_such_overload() };
    sorted(list, keys)
}

fn sorted<'a>(list: &List<'a>, keys: &List<'a>) -> Evaluated<'a> {
    if list.len() != keys.len() {
        return Err(EvalError::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} elements respectively",
            list.len(),
            keys.len()
        )));
    }
    let mut pairs: Vec<(Val<'a>, Val<'a>)> = items(keys)?.into_iter().zip(items(list)?).collect();
    if let Some((first, _)) = pairs.first() {
        if first.compare(first).is_err() {
            return Err(EvalError::new("list elements must be comparable"));
        }
        if pairs.iter().any(|(key, _)| std::mem::discriminant(key) != std::mem::discriminant(first)) {
            return Err(EvalError::new("list elements must have the same type"));
        }
    }
    pairs.sort_by(|(one, _), (two, _)| one.compare(two).ok().flatten().unwrap_or(Ordering::Equal));
    Ok(Val::from(pairs.into_iter().map(|(_, item)| item).collect::<Vec<_>>()))
}

pub(super) fn range<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        // What is longer could not be paid for anyway.
        [Val::Int(count)] => Ok(Val::from((0..(*count).min(2_000_000)).map(Val::Int).collect::<Vec<_>>())),
        _ => no_such_overload(),
    }
}

pub(super) fn reverse<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    let [Val::List(list)] = args else { return no_such_overload() };
    let mut items = items(list)?;
    items.reverse();
    Ok(Val::from(items))
}

pub(super) fn distinct<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    let [Val::List(list)] = args else { return no_such_overload() };
    let mut unique: Vec<Val<'a>> = Vec::new();
    for item in list.iter() {
        let item = item?;
        if !unique.iter().any(|seen| item.equal(seen).unwrap_or(false)) {
            unique.push(item);
        }
    }
    Ok(Val::from(unique))
}

fn contains_all<'a>(list: &List<'a>, sublist: &List<'a>) -> Result<bool, EvalError> {
    for item in sublist.iter() {
        if !list.contains(&item?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(super) fn sets_contains<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::List(list), Val::List(sublist)] => contains_all(list, sublist).map(Val::Bool),
        _ => no_such_overload(),
    }
}

pub(super) fn sets_equivalent<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::List(one), Val::List(two)] => Ok(Val::Bool(contains_all(one, two)? && contains_all(two, one)?)),
        _ => no_such_overload(),
    }
}

pub(super) fn sets_intersects<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    let [Val::List(one), Val::List(two)] = args else { return no_such_overload() };
    for item in one.iter() {
        if two.contains(&item?).unwrap_or(false) {
            return Ok(Val::Bool(true));
        }
    }
    Ok(Val::Bool(false))
}

pub(super) fn map_insert<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    let (target, additions) = match args {
        [Val::Map(target), key, value] => (target, vec![(key.clone(), value.clone())]),
        [Val::Map(target), Val::Map(update)] => {
            let mut additions = Vec::with_capacity(update.len());
            for key in update.keys() {
                if let Some(value) = update.get(&key)? {
                    additions.push((key, value));
                }
            }
            (target, additions)
        }
        _ => return no_such_overload(),
    };
    let mut entries = match target {
        Map::Entries(entries) => entries.clone(),
        Map::Json { .. } => {
            let mut entries = BTreeMap::new();
            for key in target.keys() {
                if let Some(value) = target.get(&key)? {
                    entries.insert(Key::from_val(&key)?, value);
                }
            }
            Arc::new(entries)
        }
    };
    for (key, value) in additions {
        let inserted = Arc::make_mut(&mut entries).insert(Key::from_val(&key)?, value);
        if inserted.is_some() {
            return Err(EvalError::new(format!("insert failed: key {} already exists", key.shown())));
        }
    }
    Ok(Val::Map(Map::Entries(entries)))
}

pub(super) fn optional_of<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    Ok(Val::optional(args[0].clone()))
}

pub(super) fn optional_of_non_zero<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    Ok(if args[0].is_zero() { Val::Optional(None) } else { Val::optional(args[0].clone()) })
}

pub(super) fn optional_none<'a>(_: &[Val<'a>]) -> Evaluated<'a> {
    Ok(Val::Optional(None))
}

pub(super) fn optional_value<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::Optional(Some(value))] => Ok(value.as_ref().clone()),
        [Val::Optional(None)] => Err(EvalError::new("optional.none() dereference")),
        _ => no_such_overload(),
    }
}

pub(super) fn optional_has_value<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::Optional(value)] => Ok(Val::Bool(value.is_some())),
        _ => no_such_overload(),
    }
}

pub(super) fn first<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::List(list)] if list.len() == 0 => Ok(Val::Optional(None)),
        [Val::List(list)] => list.get(0).map(Val::optional),
        _ => no_such_overload(),
    }
}

pub(super) fn last<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [Val::List(list)] if list.len() == 0 => Ok(Val::Optional(None)),
        [Val::List(list)] => list.get(list.len() - 1).map(Val::optional),
        _ => no_such_overload(),
    }
}

pub(super) fn optional_unwrap<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    let [Val::List(list)] = args else { return no_such_overload() };
    let mut values = Vec::new();
    for item in list.iter() {
        match item? {
            Val::Optional(Some(value)) => values.push(value.as_ref().clone()),
            Val::Optional(None) => {}
            other => return Err(EvalError::new(format!("value {} is not optional", other.shown()))),
        }
    }
    Ok(Val::from(values))
}
