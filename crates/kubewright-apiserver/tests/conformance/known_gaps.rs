//! What the embedded server does not do yet, though the reference does: tests that are expected to fail on it.
//! A test on this list that passes fails, so that the list stays true.

/// Test and what is missing.
pub(crate) const KNOWN_GAPS: &[(&str, &str)] = &[];
