//! Just enough DER to write the certificates of a cluster and to read whom one speaks of.
//!
//! Bytes that are read may come from anyone: every length is checked, nothing recurses.

/// A DER value: tag, length, content.
pub(super) fn value(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    if content.len() < 128 {
        bytes.push(content.len() as u8);
    } else {
        let length = content.len().to_be_bytes();
        let significant = &length[length.iter().take_while(|byte| **byte == 0).count()..];
        bytes.push(0x80 | significant.len() as u8);
        bytes.extend_from_slice(significant);
    }
    bytes.extend_from_slice(content);
    bytes
}

/// A value made of others.
pub(super) fn nested(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    value(tag, &parts.concat())
}

/// Tags in use.
pub(super) mod tag {
    pub(in super::super) const BOOLEAN: u8 = 0x01;
    pub(in super::super) const INTEGER: u8 = 0x02;
    pub(in super::super) const BIT_STRING: u8 = 0x03;
    pub(in super::super) const OCTET_STRING: u8 = 0x04;
    pub(in super::super) const OID: u8 = 0x06;
    pub(in super::super) const UTF8_STRING: u8 = 0x0c;
    pub(in super::super) const PRINTABLE_STRING: u8 = 0x13;
    pub(in super::super) const IA5_STRING: u8 = 0x16;
    pub(in super::super) const UTC_TIME: u8 = 0x17;
    pub(in super::super) const GENERALIZED_TIME: u8 = 0x18;
    pub(in super::super) const SEQUENCE: u8 = 0x30;
    pub(in super::super) const SET: u8 = 0x31;
    /// `[0]`, holding a value.
    pub(in super::super) const EXPLICIT_0: u8 = 0xa0;
    /// `[3]`, holding a value.
    pub(in super::super) const EXPLICIT_3: u8 = 0xa3;
}

/// Reads values one after another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next value: tag, content, and all its bytes.
    fn next(&mut self) -> Option<(u8, &'a [u8], &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, mut rest) = rest.split_first()?;
        let mut length = usize::from(first);
        if first >= 0x80 {
            let count = usize::from(first & 0x7f);
            if !(1..=4).contains(&count) {
                return None;
            }
            let digits;
            (digits, rest) = rest.split_at_checked(count)?;
            length = digits.iter().fold(0, |sum, byte| (sum << 8) | usize::from(*byte));
        }
        let (content, after) = rest.split_at_checked(length)?;
        let whole = &self.0[..self.0.len() - after.len()];
        self.0 = after;
        Some((tag, content, whole))
    }

    /// The next value, which must have this tag; all its bytes.
    pub(super) fn whole(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, ..)| *found == tag).map(|(.., whole)| whole)
    }

    /// The content of the next value, which must have this tag.
    pub(super) fn content(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, ..)| *found == tag).map(|(_, content, _)| content)
    }

    /// What is inside the next value, which must have this tag.
    pub(super) fn inside(&mut self, tag: u8) -> Option<Reader<'a>> {
        self.content(tag).map(Reader)
    }

    /// The next value if it has this tag; otherwise nothing is read.
    pub(super) fn optional(&mut self, tag: u8) -> Option<&'a [u8]> {
        if self.0.first() == Some(&tag) { self.content(tag) } else { None }
    }

    /// Tag and content of the next value.
    pub(super) fn any(&mut self) -> Option<(u8, &'a [u8])> {
        self.next().map(|(tag, content, _)| (tag, content))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut reader = Reader::new(&bytes);
            while reader.any().is_some() {}
        }
    }

    #[test]
    fn what_was_written_is_read_back() {
        for length in [0, 1, 127, 128, 255, 256, 65_535, 65_536] {
            let content = vec![7; length];
            let bytes = [value(tag::OCTET_STRING, &content), vec![1, 2, 3]].concat();
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.content(tag::OCTET_STRING), Some(content.as_slice()), "{length}");
            assert_eq!(reader.0, [1, 2, 3], "{length}");
        }
    }

    #[test]
    fn a_length_past_the_end_is_no_value() {
        for bytes in [
            &[4][..],
            &[4, 2, 0],
            &[4, 0x80],
            &[4, 0x84, 0xff, 0xff, 0xff, 0xff, 0],
            &[4, 0x85, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(Reader::new(bytes).any(), None, "{bytes:?}");
        }
    }
}
