//! The pages of the book: all are in its summary, no link is dead, and whatever can be run is run.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on says so by panicking")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Component, Path, PathBuf},
};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Where readers of the book find what is not part of it.
const REPOSITORY: &str = "https://github.com/kubewright/kubewright/blob/main/";
/// What blocks may be that nobody runs.
const SHOWN: [&str; 4] = ["diff", "text", "toml", "yaml"];
/// How a block of commands is left out; the reason follows.
const LEFT_OUT: &str = "sh not run: ";

/// A page, by its path in `docs`.
struct Page {
    path: String,
    text: String,
}

fn docs() -> PathBuf {
    Path::new(ROOT).join("docs")
}

fn pages() -> Vec<Page> {
    let (mut pages, mut folders) = (Vec::new(), vec![docs()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                let text = fs::read_to_string(&path).unwrap();
                pages.push(Page {
                    path: path.strip_prefix(docs()).unwrap().to_str().unwrap().to_owned(),
                    text,
                });
            }
        }
    }
    pages
}

impl Page {
    /// The lines that are not part of a code block.
    fn prose(&self) -> impl Iterator<Item = &str> {
        let mut is_code = false;
        self.text.lines().filter(move |line| {
            let is_fence = line.trim_start().starts_with("```");
            is_code ^= is_fence;
            !is_code && !is_fence
        })
    }

    /// The languages of its code blocks, with what is said of them.
    fn languages(&self) -> impl Iterator<Item = &str> {
        let fences = self.text.lines().filter_map(|line| line.trim_start().strip_prefix("```"));
        fences.step_by(2)
    }

    /// Where its links lead.
    fn links(&self) -> Vec<&str> {
        let ends = self.prose().flat_map(|line| line.split("](").skip(1));
        ends.map(|end| end.split(')').next().unwrap()).collect()
    }

    /// What can be linked to in it.
    fn anchors(&self) -> BTreeSet<String> {
        let headings = self.prose().filter(|line| line.starts_with('#'));
        headings.map(|heading| anchor(heading.trim_start_matches('#').trim())).collect()
    }

    /// The page that a relative link leads to, which need not exist.
    fn target(&self, link: &str) -> String {
        let mut parts: Vec<&str> = self.path.split('/').collect();
        parts.pop();
        for part in Path::new(link).components() {
            match part {
                Component::ParentDir => {
                    parts.pop().unwrap_or_else(|| panic!("{}: {link} leads out of the book", self.path));
                }
                part => parts.push(part.as_os_str().to_str().unwrap()),
            }
        }
        parts.join("/")
    }

    /// What is wrong with a link, if something is.
    fn fault(&self, link: &str, pages: &[Self]) -> Option<String> {
        let (path, wanted) = link.split_once('#').map_or((link, None), |(path, wanted)| (path, Some(wanted)));
        if let Some(file) = path.strip_prefix(REPOSITORY) {
            return (!Path::new(ROOT).join(file).exists())
                .then(|| format!("{file} is not in the repository"));
        }
        if path.starts_with("https://") || path.starts_with("http://") {
            return None;
        }
        let target = if path.is_empty() { self.path.clone() } else { self.target(path) };
        let Some(page) = pages.iter().find(|page| page.path == target) else {
            return (!docs().join(&target).is_file()).then(|| format!("there is no {target}"));
        };
        if target.ends_with("README.md") && self.path != "SUMMARY.md" {
            return Some(format!("{target} becomes index.html, and links to it do not follow"));
        }
        let wanted = wanted?;
        (!page.anchors().contains(wanted)).then(|| format!("{target} has no heading {wanted}"))
    }
}

/// A heading as links name it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn every_page_is_in_the_summary() {
    let (summary, pages): (Vec<Page>, Vec<Page>) =
        pages().into_iter().partition(|page| page.path == "SUMMARY.md");
    let named: BTreeSet<&str> = summary[0].links().into_iter().collect();
    let there: BTreeSet<&str> = pages.iter().map(|page| page.path.as_str()).collect();
    assert_eq!(named, there, "named in the summary, and there");
}

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    let faults = pages.iter().flat_map(|page| {
        let fault = |link| Some(format!("{}: {}", page.path, page.fault(link, &pages)?));
        page.links().into_iter().filter_map(fault).collect::<Vec<String>>()
    });
    assert_eq!(faults.collect::<Vec<String>>(), [""; 0]);
}

#[test]
fn every_block_that_can_be_run_is_run() {
    let read = |path: &str| fs::read_to_string(Path::new(ROOT).join(path)).unwrap();
    let snippets = read("crates/kubewright-book/src/lib.rs");
    let commands = read("crates/kubewright-cli/tests/command/book.rs");
    for page in pages() {
        let name = format!("\"{}\"", page.path);
        for language in page.languages() {
            let is_run = match language {
                "sh" | "console" => commands.contains(&name),
                _ if language.starts_with("rust") => snippets.contains(&name) && !language.contains("ignore"),
                _ => {
                    SHOWN.contains(&language)
                        || language.strip_prefix(LEFT_OUT).is_some_and(|why| !why.is_empty())
                }
            };
            assert!(is_run, "{name}: nothing runs the block {language:?}, and it does not say why");
        }
    }
}

#[test]
fn what_the_front_page_shows_is_not_run_for_a_reason() {
    let text = fs::read_to_string(Path::new(ROOT).join("README.md")).unwrap();
    let page = Page { path: "README.md".to_owned(), text };
    let mut commands = page.languages().filter(|language| ["sh", "console"].contains(language));
    assert_eq!(commands.next(), None, "its commands are in pages that are followed");
}

#[test]
fn the_kind_in_the_book_is_the_one_that_its_snippets_use() {
    let shown = include_str!("../../../docs/concepts/flow.md")
        .split("```")
        .find(|block| block.contains("pub struct SiteSpec"));
    let (_, shown) = shown.unwrap().split_once("prelude::*;\n").unwrap();
    assert!(include_str!("../src/lib.rs").contains(shown), "{shown}");
}

#[test]
fn headings_are_named_as_links_name_them() {
    assert_eq!(anchor("What's `Next`, and when?"), "whats-next-and-when");
}
