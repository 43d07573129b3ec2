//! Base64 as Go's decoder reads it: line breaks are skipped, and an error names the byte.

use std::borrow::Cow;

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose::STANDARD},
};

/// Go does not look at the bits that the last character has too many.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// The text that the same bytes are written as.
pub(super) fn canonical(text: &str) -> Result<Cow<'_, str>, String> {
    let broken = text.bytes().any(|byte| matches!(byte, b'\r' | b'\n'));
    let joined: Cow<'_, str> = if broken { text.replace(['\r', '\n'], "").into() } else { text.into() };
    let bytes = LENIENT
        .decode(joined.as_bytes())
        .map_err(|_| format!("illegal base64 data at input byte {}", illegal_byte(text.as_bytes())))?;
    let written = STANDARD.encode(bytes);
    Ok(if written == text { text.into() } else { written.into() })
}

/// Where Go's decoder stops: it takes four characters at a time.
fn illegal_byte(text: &[u8]) -> usize {
    let digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let mut characters = text.iter().copied().enumerate().filter(|(_, byte)| !matches!(byte, b'\r' | b'\n'));
    loop {
        for place in 0..4 {
            match characters.next() {
                None => return text.len().saturating_sub(place),
                Some((_, byte)) if digit(byte) => {}
                Some((at, b'=')) if place < 2 => return at,
                Some((_, b'=')) if place == 2 => {
                    return match characters.next() {
                        None => text.len(),
                        Some((at, b'=')) => characters.next().map_or(at, |(next, _)| next),
                        Some((at, _)) => at - 1,
                    };
                }
                Some((at, b'=')) => return characters.next().map_or(at, |(next, _)| next),
                Some((at, _)) => return at,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_written_canonically_or_refused_at_a_byte() {
        assert_eq!(canonical("aGk=").as_deref(), Ok("aGk="));
        assert_eq!(canonical("aG\nk=\n").as_deref(), Ok("aGk="));
        assert_eq!(canonical("aGl=").as_deref(), Ok("aGk="));
        assert_eq!(canonical("").as_deref(), Ok(""));
        for (text, byte) in
            [("***", 0), ("aG*=", 2), ("aGk", 0), ("aGk=x", 4), ("a===", 1), ("aGkaG", 4), ("aG=x", 2)]
        {
            let why = format!("illegal base64 data at input byte {byte}");
            assert_eq!(canonical(text).unwrap_err(), why, "{text}");
        }
    }
}
