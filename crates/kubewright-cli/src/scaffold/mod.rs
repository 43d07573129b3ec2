//! Changing a project, wholly or not at all: everything is rendered and checked in memory before the first file is
//! written, and what was written is taken back if a later file can't be. No file of the author's is ever overwritten.

mod markers;
mod rustfmt;
mod templates;

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::Serialize;

pub(crate) use self::templates::{Rendering, Templates};
use crate::{
    project::{self, Project, checksum},
    terminal::{Output, line},
};

/// What is about to become of the files of a project.
pub(crate) struct Change {
    root: PathBuf,
    files: BTreeMap<String, File>,
    /// New files whose place is taken by another one.
    in_the_way: Vec<String>,
}

struct File {
    text: String,
    /// What is there now; nothing if it is new.
    before: Option<String>,
}

/// What has become of them.
#[derive(Serialize)]
pub(crate) struct Outcome {
    created: Vec<String>,
    changed: Vec<String>,
    /// Files that were there, and stay as they are.
    kept: Vec<String>,
}

impl Change {
    pub(crate) fn of(root: &Path) -> Self {
        Self { root: root.to_owned(), files: BTreeMap::new(), in_the_way: Vec::new() }
    }

    /// Adds a file. A text of nothing but white space makes none.
    pub(crate) fn create(&mut self, path: &str, text: String) {
        if text.trim().is_empty() {
            return;
        }
        // A link that leads nowhere is in the way, too.
        match self.root.join(path).symlink_metadata() {
            Ok(_) => self.in_the_way.push(path.to_owned()),
            Err(_) => drop(self.files.insert(path.to_owned(), File { text, before: None })),
        }
    }

    /// Adds a file, unless it is there already or about to be.
    pub(crate) fn ensure(&mut self, path: &str, text: String) {
        if !self.has(path) {
            self.create(path, text);
        }
    }

    /// Whether a file is there, or is about to be.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.files.contains_key(path) || self.root.join(path).exists()
    }

    /// Adds lines to a file, where it has a marker for that.
    pub(crate) fn insert(&mut self, path: &str, marker: &str, lines: &[String]) -> Result<(), String> {
        let (text, before) = match self.files.remove(path) {
            Some(file) => (file.text, file.before),
            None => {
                let text = self.read(path)?;
                (text.clone(), Some(text))
            }
        };
        let text = markers::insert(&text, marker, lines).map_err(|why| format!("{path} {why}"))?;
        self.files.insert(path.to_owned(), File { text, before });
        Ok(())
    }

    /// What a file of the project says now.
    pub(crate) fn read(&self, path: &str) -> Result<String, String> {
        fs::read_to_string(self.root.join(path)).map_err(|why| match why.kind() {
            io::ErrorKind::NotFound => format!("{path} is missing: the project was scaffolded with it"),
            _ => format!("can't read {path}: {why}"),
        })
    }

    /// Leaves files alone that are in the way, rather than to refuse.
    pub(crate) async fn write_around(mut self, project: &mut Project) -> Result<Outcome, String> {
        let kept = std::mem::take(&mut self.in_the_way);
        Ok(Outcome { kept, ..self.write(project).await? })
    }

    /// Writes all of it, and the project last.
    pub(crate) async fn write(mut self, project: &mut Project) -> Result<Outcome, String> {
        if let [first, others @ ..] = self.in_the_way.as_slice() {
            let files: String = others.iter().map(|path| format!(", {path}")).collect();
            return Err(format!("{first}{files} would be overwritten: move what is there away first"));
        }
        for (path, file) in self.files.iter_mut().filter(|(path, _)| path.ends_with(".rs")) {
            let formatted = rustfmt::formatted(&self.root, &file.text).await;
            file.text = formatted.map_err(|why| format!("{path} {why}"))?;
        }
        self.files.retain(|_, file| file.before.as_ref() != Some(&file.text));
        for (path, file) in &self.files {
            // What the author has changed stays known as changed.
            let is_ours = file.before.as_ref().is_none_or(|before| project.is_untouched(path, before));
            if is_ours && !is_generated(path) {
                project.files.insert(path.clone(), checksum(&file.text));
            }
        }
        let names = |is_new: bool| {
            let files = self.files.iter().filter(|(_, file)| file.before.is_none() == is_new);
            files.map(|(path, _)| path.clone()).collect()
        };
        let outcome = Outcome { created: names(true), changed: names(false), kept: Vec::new() };
        let before = fs::read_to_string(self.root.join(project::FILE)).ok();
        let mut files: Vec<(String, File)> = self.files.into_iter().collect();
        files.push((project::FILE.to_owned(), File { text: project.text()?, before }));
        commit(&self.root, &files)?;
        Ok(outcome)
    }
}

impl Outcome {
    /// Says what was done, and what comes next.
    pub(crate) fn show(&self, output: Output, next: &[&str]) {
        if output == Output::Json {
            line(&serde_json::json!(self).to_string());
            return;
        }
        for (what, paths) in [("created", &self.created), ("changed", &self.changed), ("kept", &self.kept)] {
            for path in paths {
                line(&format!("{what:8} {path}"));
            }
        }
        if !self.kept.is_empty() {
            line("");
            line("What was kept is as it was: see that it says what the project needs.");
        }
        if !next.is_empty() {
            line("");
            line("Next:");
            next.iter().for_each(|step| line(&format!("  {step}")));
        }
    }
}

/// Whether a file is written anew whenever the code has changed, so that it is no news that it differs.
fn is_generated(path: &str) -> bool {
    path.starts_with("config/") && !path.starts_with("config/samples/")
}

/// Writes files, or none of them. All texts are on the disk before the first file that is there is replaced.
fn commit(root: &Path, files: &[(String, File)]) -> Result<(), String> {
    let mut undo = Vec::new();
    let mut each = |step: fn(&Path, &File, &mut Vec<Undo>) -> io::Result<()>| {
        files.iter().try_for_each(|(path, file)| {
            step(&root.join(path), file, &mut undo).map_err(|why| format!("can't write {path}: {why}"))
        })
    };
    let written = each(write).and_then(|()| each(replace));
    if written.is_err() {
        // The reason is told; whatever else fails here has the same one.
        undo.into_iter().rev().for_each(|step: Undo| drop(step.take_back()));
    }
    written
}

enum Undo {
    Directory(PathBuf),
    New(PathBuf),
    Replaced(PathBuf, String),
}

impl Undo {
    fn take_back(self) -> io::Result<()> {
        match self {
            Self::Directory(path) => fs::remove_dir(path),
            Self::New(path) => fs::remove_file(path),
            Self::Replaced(path, before) => fs::write(path, before),
        }
    }
}

/// Where the new text of a file waits: beside the file itself, not beside a link to it, so that the link stays one.
fn beside(path: &Path) -> io::Result<PathBuf> {
    Ok(path.canonicalize()?.with_added_extension("kubewright-new"))
}

/// Writes a file that is new, or the new text of one beside it.
fn write(path: &Path, file: &File, undo: &mut Vec<Undo>) -> io::Result<()> {
    let path = if file.before.is_some() { beside(path)? } else { path.to_owned() };
    create_directory(path.parent(), undo)?;
    // What waits beside a file may be there from a time when this was killed.
    let mut options = fs::OpenOptions::new();
    let mut new =
        options.write(true).create(true).truncate(true).create_new(file.before.is_none()).open(&path)?;
    undo.push(Undo::New(path));
    io::Write::write_all(&mut new, file.text.as_bytes())
}

/// Puts the new text of a file in its place, which is whole at any time.
fn replace(path: &Path, file: &File, undo: &mut Vec<Undo>) -> io::Result<()> {
    let Some(before) = &file.before else { return Ok(()) };
    let (new, path) = (beside(path)?, path.canonicalize()?);
    fs::set_permissions(&new, fs::metadata(&path)?.permissions())?;
    fs::rename(new, &path)?;
    undo.push(Undo::Replaced(path, before.clone()));
    Ok(())
}

fn create_directory(directory: Option<&Path>, undo: &mut Vec<Undo>) -> io::Result<()> {
    let Some(directory) = directory.filter(|one| !one.as_os_str().is_empty() && !one.exists()) else {
        return Ok(());
    };
    create_directory(directory.parent(), undo)?;
    fs::create_dir(directory)?;
    undo.push(Undo::Directory(directory.to_owned()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn file(text: &str, before: Option<&str>) -> File {
        File { text: text.to_owned(), before: before.map(str::to_owned) }
    }

    #[test]
    fn what_can_not_be_written_whole_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("old"), "old").unwrap();
        fs::write(dir.path().join("taken"), "taken").unwrap();
        let number = |name: &str| fs::metadata(dir.path().join(name)).unwrap().ino();
        let old = number("old");
        let files = [
            ("old".to_owned(), file("new", Some("old"))),
            ("a/b/c".to_owned(), file("new", None)),
            ("taken/below".to_owned(), file("new", None)),
        ];
        let why = commit(dir.path(), &files).unwrap_err();
        assert!(why.starts_with("can't write taken/below: "), "{why}");
        assert_eq!(fs::read_to_string(dir.path().join("old")).unwrap(), "old");
        assert_eq!(number("old"), old, "it was not even touched");
        let mut names: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|one| one.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["old", "taken"]);
    }
}
