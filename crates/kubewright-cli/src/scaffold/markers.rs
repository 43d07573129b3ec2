//! Markers: comments in scaffolded files that show where more goes. Nothing else of a file is looked at, so that authors
//! may write around them as they like.

/// What all markers begin with, behind the sign of a comment.
const PREFIX: &str = "+kubewright:scaffold:";

/// Puts lines above a marker, indented as it is. Lines that are there already are left out.
pub(super) fn insert(text: &str, marker: &str, lines: &[String]) -> Result<String, String> {
    let marker = format!("{PREFIX}{marker}");
    let has = |line: &String| text.lines().any(|present| present.trim() == line.trim());
    let missing: Vec<&str> = lines.iter().filter(|line| !has(line)).map(String::as_str).collect();
    if missing.is_empty() {
        return Ok(text.to_owned());
    }
    let is_marker = |line: &str| line.trim().trim_start_matches(['/', '#']).trim() == marker;
    let Some(place) = text.lines().find(|line| is_marker(line)) else {
        let lines: String = missing.iter().map(|line| format!("\n    {line}")).collect();
        return Err(format!(
            "has no comment \"{marker}\" any more, so it is not known where this goes; write it there by hand, and try \
             again:\n{lines}"
        ));
    };
    let indent = &place[..place.len() - place.trim_start().len()];
    let mut inserted = String::with_capacity(text.len());
    for line in text.lines() {
        if std::ptr::eq(line, place) {
            missing.iter().for_each(|line| inserted.extend([indent, line, "\n"]));
        }
        inserted.extend([line, "\n"]);
    }
    Ok(inserted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "fn all() {\n    one();\n    // +kubewright:scaffold:all\n}\n";

    fn lines(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn lines_go_above_the_marker_and_only_once() {
        let text = insert(TEXT, "all", &lines(&["one();", "two();"])).unwrap();
        assert_eq!(text, "fn all() {\n    one();\n    two();\n    // +kubewright:scaffold:all\n}\n");
        assert_eq!(insert(&text, "all", &lines(&["two();"])).unwrap(), text);
    }

    #[test]
    fn without_a_marker_it_is_said_what_to_write() {
        let why = insert(TEXT, "others", &lines(&["one();", "two();"])).unwrap_err();
        assert!(why.starts_with("has no comment \"+kubewright:scaffold:others\" any more"), "{why}");
        assert!(why.ends_with(":\n\n    two();"), "{why}");
        let by_hand = TEXT.replace("one();", "one();\n    two();");
        assert_eq!(insert(&by_hand, "others", &lines(&["two();"])).unwrap(), by_hand);
    }
}
