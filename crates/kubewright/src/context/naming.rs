//! Names and labels of children, such that those of two owners never meet.

use kube::Resource;

/// The longest name that is also a label value and a DNS label.
const LONGEST: usize = 63;

/// The name of a child: that of its owner and what it is for. Names that would be too long, or that could be
/// read in two ways, are cut and get a fingerprint of the whole, so that two owners never share a child.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kubewright::child_name;
///
/// let owner = |name: &str| {
///     let mut owner = ConfigMap::default();
///     owner.metadata.name = Some(name.to_owned());
///     owner
/// };
/// assert_eq!(child_name(&owner("shop"), "web"), "shop-web");
/// let long = child_name(&owner(&"x".repeat(80)), "web");
/// assert_eq!(long.len(), 63);
/// ```
pub fn child_name<K: Resource>(owner: &K, purpose: &str) -> String {
    joined(owner.meta().name.as_deref().unwrap_or_default(), purpose)
}

fn joined(owner: &str, purpose: &str) -> String {
    let plain = if purpose.is_empty() { owner.to_owned() } else { format!("{owner}-{purpose}") };
    if plain.len() <= LONGEST && !owner.contains('.') {
        return plain;
    }
    let print = fingerprint(&[owner, purpose]);
    let clean = plain.replace('.', "-");
    let cut = clean.floor_char_boundary(LONGEST - print.len() - 1);
    format!("{}-{print}", clean[..cut].trim_end_matches('-'))
}

/// Eight hexadecimal digits that tell texts apart.
fn fingerprint(parts: &[&str]) -> String {
    digest(&parts.join("/"))[..8].to_owned()
}

/// Sixteen hexadecimal digits that tell texts apart. They stay the same whatever this is compiled with: names depend on
/// them, and if those changed, so would what runs.
pub(crate) fn digest(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    digest.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A name as a label value: as it is if it fits, else cut and told apart.
pub(crate) fn label_value(name: &str) -> String {
    if name.len() <= LONGEST {
        return name.to_owned();
    }
    let print = fingerprint(&[name]);
    let cut = name.floor_char_boundary(LONGEST - print.len() - 1);
    format!("{}-{print}", name[..cut].trim_end_matches(['-', '.', '_']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_stay_apart_and_fit() {
        let (one, other) = ("x".repeat(70), format!("{}y", "x".repeat(69)));
        for (owner, purpose) in [(&one, "web"), (&other, "web"), (&one, "db")] {
            assert!(joined(owner, purpose).len() <= LONGEST);
        }
        assert_ne!(joined(&one, "web"), joined(&other, "web"));
        assert_ne!(joined(&one, "web"), joined(&one, "db"));
    }

    #[test]
    fn names_stay_what_they_are() {
        assert_eq!(joined("a.b", "web"), "a-b-web-6fd9522b");
        assert_eq!(label_value(&"x".repeat(64)), format!("{}-7ce10097", "x".repeat(54)));
    }

    #[test]
    fn a_dotted_owner_does_not_meet_one_with_a_dash() {
        assert_ne!(joined("a.b", "web"), joined("a-b", "web"));
    }
}
