//! Walks over JSON without reading it: finds the fields of an object, and passes over what nobody wants. Much of what a
//! watch tells is passed over: managed fields, and whatever else is only read once somebody looks.
//!
//! What is passed over is not checked, but for its brackets and quotes; whoever reads it later sees whether it is JSON.

/// A place in a text.
pub(super) struct Scan<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Scan<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    /// Walks over an object: how it is written. `take` is given each name as that is written, and has to pass over the
    /// value.
    pub(super) fn object(
        &mut self,
        mut take: impl FnMut(&'t str, &mut Self) -> Option<()>,
    ) -> Option<&'t str> {
        self.pass(b'{')?;
        let begin = self.at - 1;
        let mut is_first = true;
        while self.peek()? != b'}' {
            if !std::mem::take(&mut is_first) {
                self.pass(b',')?;
            }
            let name = self.string()?;
            self.pass(b':')?;
            take(name, self)?;
        }
        self.pass(b'}')?;
        self.text.get(begin..self.at)
    }

    /// Passes over any value: how it is written.
    pub(super) fn value(&mut self) -> Option<&'t str> {
        let (first, begin) = (self.peek()?, self.at);
        match first {
            b'"' => self.at = end_of_string(self.text.as_bytes(), begin)?,
            b'{' | b'[' => self.at = end_of_nested(self.text.as_bytes(), begin)?,
            _ => {
                let rest = self.text.as_bytes()[begin..].iter();
                let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
                self.at += rest.take_while(|byte| is_plain(byte)).count();
            }
        }
        self.text.get(begin..self.at).filter(|value| !value.is_empty())
    }

    /// Passes over a string: what is between its quotes.
    fn string(&mut self) -> Option<&'t str> {
        self.pass(b'"')?;
        let begin = self.at;
        self.at = end_of_string(self.text.as_bytes(), begin - 1)?;
        self.text.get(begin..self.at - 1)
    }

    fn pass(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// The next byte that is no space.
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at)?.is_ascii_whitespace() {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }
}

/// Where a string ends that begins with the quote at `begin`.
fn end_of_string(text: &[u8], begin: usize) -> Option<usize> {
    let mut at = begin + 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Where an object or a list ends that begins with the bracket at `begin`.
fn end_of_nested(text: &[u8], begin: usize) -> Option<usize> {
    let (mut at, mut depth) = (begin, 0_usize);
    loop {
        match text.get(at)? {
            b'"' => {
                at = end_of_string(text, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// The fields of an object, as they are written.
    fn fields(text: &str) -> Option<Vec<(&str, &str)>> {
        let mut fields = Vec::new();
        let mut scan = Scan::new(text);
        scan.object(|name, scan| {
            fields.push((name, scan.value()?));
            Some(())
        })?;
        Some(fields)
    }

    #[test]
    fn values_are_found_as_they_are_written() {
        let text = r#" { "a" : "}\"\\" , "b":[ {"c": "]"} , 1 ],"d":-1.5e3 ,"e":null}"#;
        let expected = [("a", r#""}\"\\""#), ("b", r#"[ {"c": "]"} , 1 ]"#), ("d", "-1.5e3"), ("e", "null")];
        assert_eq!(fields(text), Some(expected.to_vec()));
        assert_eq!(fields("{}"), Some(Vec::new()));
    }

    #[test]
    fn what_breaks_off_is_no_object() {
        let whole = r#"{"a":"\"","b":[{"c":1}],"d":true}"#;
        assert!(fields(whole).is_some());
        let broken: Vec<&str> = (0..whole.len()).map(|end| &whole[..end]).collect();
        for text in
            broken.into_iter().chain(["[]", "1", "{a:1}", r#"{"a" 1}"#, r#"{"a":1;"b":2}"#, r#"{"a":}"#])
        {
            assert_eq!(fields(text), None, "{text}");
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..4).prop_map(|all| json!(all)),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_serde_json_writes_is_walked_over(
            all in prop::collection::btree_map(any::<String>(), any_value(), 0..6),
            is_pretty: bool,
        ) {
            let all = json!(all);
            let text = if is_pretty { format!("{all:#}") } else { all.to_string() };
            let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            let found: Vec<(Value, Value)> =
                fields(&text).unwrap().into_iter().map(|(name, value)| (read(&format!("\"{name}\"")), read(value))).collect();
            let expected: Vec<(Value, Value)> =
                all.as_object().unwrap().iter().map(|(name, value)| (json!(name), value.clone())).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
