//! Short names for contents: the same content gives the same name, and only letters and digits that form no words.

use serde::Serialize;

/// What a name is made of, as in the names that the API server generates.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// The name of a content. Contents that happen to share one are told apart by `collisions`.
pub(super) fn hash(content: &impl Serialize, collisions: Option<i32>) -> String {
    let text = serde_json::to_vec(content).unwrap_or_default();
    let salt = collisions.map(i32::to_le_bytes);
    let sum = text.iter().chain(salt.iter().flatten()).fold(0x811c_9dc5_u32, |sum, byte| {
        (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193) // FNV-1a
    });
    let digits = sum.to_string().into_bytes();
    digits.iter().map(|digit| char::from(ALPHABET[usize::from(*digit) % ALPHABET.len()])).collect()
}
