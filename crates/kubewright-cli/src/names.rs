//! Names that people choose, checked before anything is made of them. Each refusal says what would do instead.

use heck::{ToKebabCase as _, ToSnakeCase as _, ToUpperCamelCase as _};
use kube::core::{ApiResource, GroupVersionKind};

/// The longest DNS label.
const LONGEST_LABEL: usize = 63;
/// The longest DNS name, and so the longest name of a definition.
const LONGEST_NAME: usize = 253;
/// What is put behind the name of a project to name its namespace.
const NAMESPACE_SUFFIX: &str = "-system";

/// What the language keeps for itself, as far as it can be the name of a module.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static",
    "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual",
    "where", "while", "yield",
];

/// Names that scaffolded code uses, or that code derived from it does.
const TAKEN_KINDS: &[&str] = &[
    "Box",
    "Clone",
    "Condition",
    "ConfigMap",
    "Container",
    "Context",
    "Controller",
    "CustomResource",
    "Debug",
    "Default",
    "Deployment",
    "Deserialize",
    "Err",
    "Iterator",
    "JsonSchema",
    "KubeSchema",
    "Main",
    "Next",
    "None",
    "ObjectMeta",
    "Ok",
    "Operator",
    "Option",
    "PodSpec",
    "Reconcile",
    "Reconciler",
    "Resource",
    "ResourceExt",
    "Result",
    "Self",
    "Serialize",
    "Some",
    "String",
    "ToString",
    "Vec",
];

/// Crates that a project depends on, and those that come with the language.
const TAKEN_CRATES: &[&str] = &[
    "alloc",
    "core",
    "deps",
    "examples",
    "k8s-openapi",
    "kube",
    "kubewright",
    "kubewright-cluster",
    "proc-macro",
    "schemars",
    "serde",
    "serde-json",
    "std",
    "test",
    "tokio",
];

/// Domains whose groups need the approval of the Kubernetes project.
const PROTECTED: &[&str] = &["k8s.io", "kubernetes.io"];

/// The name of a project: of its crate, its Deployment, and its namespace.
pub(crate) fn check_project(name: &str) -> Result<(), String> {
    let longest = LONGEST_LABEL - NAMESPACE_SUFFIX.len();
    let is_usable = is_label(name)
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.len() <= longest
        && !KEYWORDS.contains(&name);
    if !is_usable {
        return refuse(
            &format!(
                "{name:?} can't name a project: it takes up to {longest} small letters, digits and \"-\", and begins with a letter"
            ),
            "--project-name",
            &project_from(name),
        );
    }
    if TAKEN_CRATES.contains(&name) {
        let why = format!("{name:?} can't name a project: there is a crate of that name");
        return refuse(&why, "--project-name", &format!("{name}-operator"));
    }
    Ok(())
}

/// A name of a project that is close to a text, such as the name of a directory.
fn project_from(text: &str) -> String {
    let longest = LONGEST_LABEL - NAMESPACE_SUFFIX.len();
    let mut name = label_from(text);
    name = name.trim_start_matches(|first: char| !first.is_ascii_lowercase()).to_owned();
    name.truncate(longest);
    let name = name.trim_end_matches('-');
    match name {
        "" => "my-operator".to_owned(),
        name if KEYWORDS.contains(&name) || TAKEN_CRATES.contains(&name) => format!("{name}-operator"),
        name => name.to_owned(),
    }
}

/// The domain behind the groups of a project.
pub(crate) fn check_domain(domain: &str) -> Result<(), String> {
    check_dns_name(domain, "the domain", "--domain")?;
    match PROTECTED.iter().find(|protected| is_below(domain, protected)) {
        None => Ok(()),
        Some(protected) => refuse(
            &format!(
                "groups of {protected} need the approval of the Kubernetes project: take a domain of your own"
            ),
            "--domain",
            "example.com",
        ),
    }
}

/// The group of a kind: below the domain, or the whole of it.
pub(crate) fn check_group(group: &str) -> Result<(), String> {
    check_dns_name(group, "the group", "--group")?;
    let module = module(group);
    if KEYWORDS.contains(&module.as_str()) {
        let why = format!("the group {group:?} would be a module of that name, which Rust keeps for itself");
        return refuse(&why, "--group", &format!("{group}s"));
    }
    Ok(())
}

fn check_dns_name(name: &str, what: &str, flag: &str) -> Result<(), String> {
    if name.len() <= LONGEST_NAME && name.split('.').all(is_label) {
        return Ok(());
    }
    let labels: Vec<String> = name.split('.').map(label_from).filter(|label| !label.is_empty()).collect();
    let close = labels.join(".");
    let is_usable = !close.is_empty() && close.len() <= LONGEST_NAME;
    refuse(
        &format!(
            "{what} {name:?} is no DNS name: it takes small letters, digits and \"-\", up to {LONGEST_LABEL} between dots"
        ),
        flag,
        if is_usable { &close } else { "example.com" },
    )
}

/// The version of a kind, as Kubernetes orders them.
pub(crate) fn check_version(version: &str) -> Result<(), String> {
    let number = |text: &str| !text.starts_with('0') && text.parse::<u32>().is_ok();
    let stages = ["alpha", "beta"];
    let is_version = version.strip_prefix('v').is_some_and(|rest| {
        let staged = stages.iter().find_map(|stage| rest.split_once(stage));
        staged.map_or_else(|| number(rest), |(major, minor)| number(major) && number(minor))
    });
    if is_version {
        return Ok(());
    }
    let lower = version.to_ascii_lowercase();
    let digits = |text: &str| {
        let from = text.find(|one: char| one.is_ascii_digit()).unwrap_or(text.len());
        let rest = text[from..].trim_start_matches('0');
        let to = rest.find(|one: char| !one.is_ascii_digit()).unwrap_or(rest.len());
        rest[..to].parse().unwrap_or(1_u32)
    };
    let suggestion = match stages.iter().find_map(|stage| Some((stage, lower.split_once(stage)?))) {
        Some((stage, (major, minor))) => format!("v{}{stage}{}", digits(major), digits(minor)),
        None => format!("v{}", digits(&lower)),
    };
    refuse(
        &format!("{version:?} is no version of a kind: they look like v1, v1beta1 or v1alpha1"),
        "--version",
        &suggestion,
    )
}

/// A kind that is about to be made.
pub(crate) fn check_kind(kind: &str, group: &str) -> Result<(), String> {
    let is_pascal = kind.starts_with(|first: char| first.is_ascii_uppercase())
        && kind.len() <= LONGEST_LABEL
        && kind.chars().all(|one| one.is_ascii_alphanumeric());
    let grouped = |kind: &str| group.split('.').next().unwrap_or_default().to_upper_camel_case() + kind;
    if !is_pascal {
        let letters = kind.trim_start_matches(|first: char| !first.is_ascii_alphabetic());
        let mut close = letters.to_upper_camel_case();
        close.retain(|one| one.is_ascii_alphanumeric());
        close.truncate(LONGEST_LABEL);
        if close.is_empty() || is_taken(&close) || is_keyword(&close) {
            close = grouped(&close);
        }
        let why = format!(
            "{kind:?} is no kind: it takes up to {LONGEST_LABEL} letters and digits, with a capital at the beginning of \
             each word"
        );
        return refuse(&why, "--kind", &close);
    }
    if is_taken(kind) {
        let why = format!("{kind} is a name that the code of an operator uses for something else");
        return refuse(&why, "--kind", &grouped(kind));
    }
    if is_keyword(kind) {
        let why = format!("{kind} would be in a module {}, and that is a word of Rust", kind.to_snake_case());
        return refuse(&why, "--kind", &grouped(kind));
    }
    Ok(())
}

fn is_taken(kind: &str) -> bool {
    TAKEN_KINDS.contains(&kind)
}

/// Whether the module of a kind would be called as something of the language is.
fn is_keyword(kind: &str) -> bool {
    KEYWORDS.contains(&kind.to_snake_case().as_str())
}

/// A kind of somebody else's, which can't be called otherwise.
pub(crate) fn check_foreign_kind(kind: &str) -> Result<(), String> {
    match is_taken(kind) {
        true => Err(format!(
            "{kind} is a name that the code of an operator uses for something else: its types must be written by hand"
        )),
        false => Ok(()),
    }
}

/// The plural of a kind, or one of its short names.
pub(crate) fn check_resource(name: &str, flag: &str) -> Result<(), String> {
    let begins = name.starts_with(|first: char| first.is_ascii_lowercase());
    if is_label(name) && begins {
        return Ok(());
    }
    let suggestion = label_from(name);
    let suggestion = suggestion.trim_start_matches(|first: char| !first.is_ascii_lowercase());
    refuse(
        &format!(
            "{name:?} can't name a resource: it takes small letters, digits and \"-\", and begins with a letter"
        ),
        flag,
        if suggestion.is_empty() { "things" } else { suggestion },
    )
}

/// The plural that a kind has if nothing else is said.
pub(crate) fn plural(kind: &str) -> String {
    // The rules of kube's derive, so that both mean the same.
    ApiResource::from_gvk(&GroupVersionKind::gvk("", "", kind)).plural
}

/// A group or a kind as the name of a module.
pub(crate) fn module(name: &str) -> String {
    let module = name.to_snake_case();
    if module.starts_with(|first: char| first.is_ascii_digit()) { format!("_{module}") } else { module }
}

/// A word as an identifier of Rust, if it is one of the language.
pub(crate) fn identifier(word: String) -> String {
    if KEYWORDS.contains(&word.as_str()) { format!("{word}_") } else { word }
}

fn is_label(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= LONGEST_LABEL
        && !text.starts_with('-')
        && !text.ends_with('-')
        && text.chars().all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-')
}

fn label_from(text: &str) -> String {
    let mut label = text.to_kebab_case();
    label.retain(|one| one.is_ascii_alphanumeric() || one == '-');
    label.truncate(LONGEST_LABEL);
    label.trim_matches('-').to_owned()
}

fn is_below(domain: &str, parent: &str) -> bool {
    domain == parent || domain.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'))
}

fn refuse(why: &str, flag: &str, suggestion: &str) -> Result<(), String> {
    Err(format!("{why}. Try {flag} {suggestion}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is suggested instead of a name, or nothing if it will do. A suggestion must itself do.
    fn instead(check: impl Fn(&str) -> Result<(), String>, name: &str) -> String {
        let Err(why) = check(name) else { return String::new() };
        let suggestion = why.rsplit(' ').next().unwrap_or_default().to_owned();
        check(&suggestion).unwrap_or_else(|why| panic!("{name:?} gives no good advice: {why}"));
        suggestion
    }

    #[test]
    fn projects() {
        for (name, expected) in [
            ("memcached-operator", ""),
            ("Memcached_Operator", "memcached-operator"),
            ("9lives", "lives"),
            ("type", "type-operator"),
            ("kube", "kube-operator"),
            ("", "my-operator"),
            ("übung", "bung"),
        ] {
            assert_eq!(instead(check_project, name), expected, "{name}");
        }
        assert_eq!(instead(check_project, &"x".repeat(60)).len(), 56, "the namespace must be a label");
    }

    #[test]
    fn domains_and_groups() {
        for (name, expected) in [
            ("example.com", ""),
            ("Example.com", "example.com"),
            ("example..com", "example.com"),
            ("ex_ample.com", "ex-ample.com"),
            ("batch.k8s.io", "example.com"),
            (&"a.".repeat(200), "example.com"),
        ] {
            assert_eq!(instead(check_domain, name), expected, "{name}");
        }
        for (name, expected) in [
            ("cache", ""),
            ("Foo!", "foo"),
            ("my_group", "my-group"),
            ("type", "types"),
            ("!", "example.com"),
        ] {
            assert_eq!(instead(check_group, name), expected, "{name}");
        }
    }

    #[test]
    fn versions() {
        for (name, expected) in [
            ("v1", ""),
            ("v2beta10", ""),
            ("1", "v1"),
            ("V1", "v1"),
            ("v1.0", "v1"),
            ("v1alpha", "v1alpha1"),
            ("v0", "v1"),
            ("alpha2", "v1alpha2"),
            ("", "v1"),
            ("v99999999999", "v1"),
        ] {
            assert_eq!(instead(check_version, name), expected, "{name}");
        }
    }

    #[test]
    fn kinds() {
        for (name, expected) in [
            ("Memcached", ""),
            ("HTTPRoute", ""),
            ("memcached-server", "MemcachedServer"),
            ("Foo!", "Foo"),
            ("Type", "CacheType"),
            ("Self", "CacheSelf"),
            ("Deployment", "CacheDeployment"),
            ("7Zip", "Zip"),
            ("fn", "CacheFn"),
            ("vec", "CacheVec"),
            ("!", "Cache"),
            (&"A".repeat(70), &format!("A{}", "a".repeat(62))),
        ] {
            assert_eq!(instead(|kind| check_kind(kind, "cache"), name), expected, "{name}");
        }
    }

    #[test]
    fn plurals() {
        for (kind, expected) in
            [("Memcached", "memcacheds"), ("Policy", "policies"), ("Box", "boxes"), ("Gateway", "gateways")]
        {
            assert_eq!(plural(kind), expected);
        }
        for (name, expected) in [("memcacheds", ""), ("My_Things", "my-things"), ("1s", "s"), ("", "things")]
        {
            assert_eq!(instead(|name| check_resource(name, "--plural"), name), expected, "{name}");
        }
    }
}
