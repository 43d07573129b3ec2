//! What literals in the text stand for: escapes in strings and bytes, and floating point numbers.

/// The content of a quoted string (its raw mark included, its bytes mark not), as UTF-8 or plain bytes.
pub(crate) fn unescape(quoted: &str, bytes: bool) -> Result<Vec<u8>, &'static str> {
    let normalized = quoted.replace("\r\n", "\n").replace('\r', "\n");
    let (raw, text) = match normalized.strip_prefix(['r', 'R']) {
        Some(rest) => (true, rest),
        None => (false, normalized.as_str()),
    };
    let width =
        if text.len() >= 6 && (text.starts_with("'''") || text.starts_with("\"\"\"")) { 3 } else { 1 };
    let text = text.get(width..text.len() - width).ok_or("unable to unescape string")?;
    if raw || !text.contains('\\') {
        return Ok(text.as_bytes().to_vec());
    }
    let mut out = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let escape = chars.next().ok_or("unable to unescape string, found '\\' as last character")?;
        let simple = match escape {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\\' | '\'' | '"' | '`' | '?' => escape as u8,
            _ => 0,
        };
        if simple != 0 {
            out.push(simple);
            continue;
        }
        let (mut value, digits, radix) = match escape {
            'x' | 'X' => (0, 2, 16),
            'u' if !bytes => (0, 4, 16),
            'U' if !bytes => (0, 8, 16),
            '0'..='3' => (escape as u32 - '0' as u32, 2, 8),
            _ => return Err("unable to unescape string"),
        };
        for _ in 0..digits {
            let digit = chars.next().and_then(|c| c.to_digit(radix)).ok_or("unable to unescape string")?;
            value = value * radix + digit;
        }
        if bytes {
            out.push(value as u8);
        } else {
            let c = char::from_u32(value).ok_or("invalid unicode code point")?;
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    Ok(out)
}

/// A number as Go's `ParseFloat` reads it; one that is too large is none.
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|number| number.is_finite())
}
