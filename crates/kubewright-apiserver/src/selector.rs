//! Selectors: which objects a list or watch is about.
//!
//! A [`LabelSelector`] comes from a query (`a=b,c in (d,e),!f`) or from the object that many specs carry;
//! a [`FieldSelector`] only from a query (`metadata.name=x`). Both print themselves canonically. Which
//! fields a kind can be selected by is not known here.

mod field;
mod label;

use std::fmt;

pub(crate) use self::{
    field::{FieldRequirement, FieldSelector},
    label::{LabelSelector, validate_label_selector},
};

fn write_joined<T: fmt::Display>(f: &mut fmt::Formatter<'_>, items: &[T]) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(",")?;
        }
        item.fmt(f)?;
    }
    Ok(())
}
