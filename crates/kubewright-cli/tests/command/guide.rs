//! Pages that are followed as a reader does: in one terminal, with programs that go on in others.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{BufRead as _, BufReader, Lines, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
};

use tempfile::TempDir;

/// What a page has its reader do. In what is printed, `...` stands for anything.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// A block `sh`: commands, and what they print if a block `text` follows.
    Run { commands: String, printed: Option<String> },
    /// A block `console`: a program in a terminal of its own, and what it has printed when it can be used; it goes on,
    /// unless its last line is `^C`.
    Start { command: String, printed: String, is_ended: bool },
    /// A block `diff` that begins with a path: these lines of a file become those.
    Edit { path: String, before: String, after: String },
    /// A block `sh not run: it needs a registry`: commands that are left out, and why.
    Leave { commands: String, why: String },
}

/// The steps of a page.
pub fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```") else { continue };
        let block: Vec<&str> = lines.by_ref().take_while(|line| line.trim() != "```").collect();
        if let Some(why) = language.strip_prefix("sh not run: ") {
            steps.push(Step::Leave { commands: block.join("\n"), why: why.to_owned() });
            continue;
        }
        match language {
            "sh" => steps.push(Step::Run { commands: block.join("\n"), printed: None }),
            "text" => match steps.last_mut() {
                Some(Step::Run { printed: printed @ None, .. }) => *printed = Some(block.join("\n")),
                Some(Step::Leave { .. }) => {}
                _ => panic!("what prints this? {block:#?}"),
            },
            "console" => {
                let command = block[0].strip_prefix("$ ").unwrap_or_else(|| panic!("no prompt: {block:#?}"));
                let is_ended = block.last() == Some(&"^C");
                let printed = block[1..block.len() - usize::from(is_ended)].join("\n");
                steps.push(Step::Start { command: command.to_owned(), printed, is_ended });
            }
            "diff" => {
                let path = block[0].strip_prefix("# ").unwrap_or_else(|| panic!("of what? {block:#?}"));
                let without = |sign: char| {
                    let lines = block[1..].iter().filter(|line| !line.starts_with(sign));
                    lines.map(|line| line.get(1..).unwrap_or_default().to_owned() + "\n").collect()
                };
                steps.push(Step::Edit { path: path.to_owned(), before: without('+'), after: without('-') });
            }
            _ => {}
        }
    }
    steps
}

/// Whether a text is what was expected, with anything in place of each `...`.
fn is_as_expected(text: &str, expected: &str) -> bool {
    let mut parts = expected.trim().split("...");
    let mut rest = text.trim();
    let Some(stripped) = parts.next().and_then(|first| rest.strip_prefix(first)) else { return false };
    rest = stripped;
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Whether a variable says how the command behaves, or what cargo tells tests: build scripts would hear that, too, and
/// run again.
fn is_setting(variable: &OsStr) -> bool {
    let name = variable.to_string_lossy();
    name.starts_with("KUBEWRIGHT_") || (name.starts_with("CARGO_") && name != "CARGO_HOME")
}

/// The line that ends what the commands of a step print.
const END: &str = "--- that was it: ";

/// A reader at a shell. What was started ends with this.
pub struct Reader {
    shell: Child,
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
    /// Where programs in other terminals print to.
    terminals: TempDir,
    started: usize,
}

impl Reader {
    /// A reader in a directory, with these programs at hand besides those on the path.
    pub fn new(directory: &Path, programs: &[&Path], environment: &[(&str, OsString)]) -> Self {
        let on_path = env::var_os("PATH").unwrap_or_default();
        let at_hand = programs.iter().map(|program| program.parent().unwrap().to_owned());
        let path = env::join_paths(at_hand.chain(env::split_paths(&on_path))).unwrap();
        let mut shell = Command::new("bash");
        shell
            .args(["-e", "-o", "pipefail"])
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        // What is set for the tests is not set for readers.
        env::vars_os().map(|(name, _)| name).filter(|name| is_setting(name)).for_each(|name| {
            shell.env_remove(name);
        });
        let mut shell = shell.env("PATH", path).envs(environment.iter().cloned()).spawn().unwrap();
        let stdin = shell.stdin.take();
        let stdout = BufReader::new(shell.stdout.take().unwrap()).lines();
        let mut reader = Self { shell, stdin, stdout, terminals: tempfile::tempdir().unwrap(), started: 0 };
        reader.types("trap 'kill $(jobs -p) 2> /dev/null; wait' EXIT");
        reader
    }

    fn types(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Takes a step; `page` is said if it fails.
    pub fn follow(&mut self, page: &str, step: Step) {
        match step {
            Step::Run { commands, printed } => {
                let text = self.run(&commands).unwrap_or_else(|text| {
                    panic!("{page}: these failed:\n{commands}\n\nThey printed:\n{text}")
                });
                let printed = printed.unwrap_or_else(|| "...".to_owned());
                assert!(
                    is_as_expected(&text, &printed),
                    "{page}: these\n\n{commands}\n\nprinted\n\n{text}\n\ninstead of\n\n{printed}"
                );
            }
            Step::Start { command, printed, is_ended } => {
                if let Err(text) = self.start(&command, &printed) {
                    panic!("{page}: {command:?} ended, and printed\n\n{text}\n\ninstead of\n\n{printed}");
                }
                if is_ended {
                    // What a shell has put into the background does not hear of an interrupt.
                    let ended = self.run("kill $! && wait $!");
                    ended.unwrap_or_else(|text| panic!("{page}: {command:?} does not end well: {text}"));
                }
            }
            Step::Edit { path, before, after } => {
                let file = self.place().join(&path);
                let text = fs::read_to_string(&file).unwrap_or_else(|why| panic!("{page}: {path}: {why}"));
                let times = text.matches(&before).count();
                assert_eq!(times, 1, "{page}: {path} has these lines {times} times:\n{before}\n\n{text}");
                fs::write(file, text.replace(&before, &after)).unwrap();
            }
            Step::Leave { commands, why } => println!("{page}: not run: {why}:\n{commands}"),
        }
    }

    /// Runs commands, and gives what they print; as an error if they fail.
    fn run(&mut self, commands: &str) -> Result<String, String> {
        self.types(&format!("{{ {commands}\n}} 2>&1 < /dev/null\nprintf '\\n{END}\\n'"));
        let mut text = String::new();
        for line in self.stdout.by_ref() {
            let line = line.unwrap();
            if line == END {
                return Ok(text);
            }
            text += &(line + "\n");
        }
        Err(text)
    }

    /// Starts a program, and waits until it has printed this; what it has printed instead if it ends before.
    fn start(&mut self, command: &str, printed: &str) -> Result<(), String> {
        let terminal = self.terminals.path().join(self.started.to_string());
        self.started += 1;
        let terminal_name = terminal.display();
        self.run(&format!("mkfifo {terminal_name}")).unwrap();
        self.types(&format!("{command} > {terminal_name} 2>&1 < /dev/null &"));
        let mut lines = BufReader::new(File::open(&terminal).unwrap()).lines();
        let mut text = String::new();
        for line in lines.by_ref() {
            text += &(line.unwrap() + "\n");
            if is_as_expected(&text, &format!("{printed}...")) {
                // It may go on printing.
                thread::spawn(move || lines.for_each(drop));
                return Ok(());
            }
        }
        Err(text)
    }

    pub fn place(&mut self) -> PathBuf {
        PathBuf::from(self.run("pwd").unwrap().trim())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.shell.wait();
    }
}

#[test]
fn what_differs_every_time_may_be_anything_and_nothing_else() {
    for (text, expected, holds) in [
        ("a b c\n", "a b c", true),
        ("a b c", "a ... c", true),
        ("a c", "a ... c", false),
        ("a 1\nb 2\nc", "a ...\nc", true),
        ("x a b", "a b", false),
        ("a b x", "a b", false),
        ("a b x", "a b...", true),
    ] {
        assert_eq!(is_as_expected(text, expected), holds, "{text:?} and {expected:?}");
    }
}

const PAGE: &str = "\
Make a place, and go there:
```sh
mkdir here
cd here
export WHO=me
echo a > file
```
In a terminal of its own:
```console
$ sh -c 'echo ready; exec sleep 600'
ready
```
In a third one, for a while:
```console
$ sh -c 'sleep 600 & trap \"kill $!; echo bye > farewell; exit 0\" TERM; echo on; wait'
on
^C
```
And in the first one:
```sh
echo $WHO
jobs -p > ../started
```
```text
m...
```
Then change the file:
```diff
# file
-a
+b
```
And for all to see:
```sh not run: it needs a registry
false
```
";

#[test]
fn a_page_is_commands_programs_and_edits() {
    let run = |commands: &str, printed: Option<&str>| Step::Run {
        commands: commands.to_owned(),
        printed: printed.map(str::to_owned),
    };
    let command = "sh -c 'echo ready; exec sleep 600'".to_owned();
    let passing =
        "sh -c 'sleep 600 & trap \"kill $!; echo bye > farewell; exit 0\" TERM; echo on; wait'".to_owned();
    assert_eq!(
        steps(PAGE),
        [
            run("mkdir here\ncd here\nexport WHO=me\necho a > file", None),
            Step::Start { command, printed: "ready".to_owned(), is_ended: false },
            Step::Start { command: passing, printed: "on".to_owned(), is_ended: true },
            run("echo $WHO\njobs -p > ../started", Some("m...")),
            Step::Edit { path: "file".to_owned(), before: "a\n".to_owned(), after: "b\n".to_owned() },
            Step::Leave { commands: "false".to_owned(), why: "it needs a registry".to_owned() },
        ]
    );
}

#[test]
fn a_reader_keeps_the_place_and_ends_what_was_started() {
    let place = tempfile::tempdir().unwrap();
    let mut reader = Reader::new(place.path(), &[], &[]);
    steps(PAGE).into_iter().for_each(|step| reader.follow("a page", step));
    assert_eq!(fs::read_to_string(place.path().join("here/file")).unwrap(), "b\n");
    assert_eq!(fs::read_to_string(place.path().join("here/farewell")).unwrap(), "bye\n");
    let started = fs::read_to_string(place.path().join("started")).unwrap();
    let is_there =
        || Command::new("kill").args(["-0", started.trim()]).stderr(Stdio::null()).status().unwrap();
    assert!(is_there().success());
    drop(reader);
    assert!(!is_there().success());
}

#[test]
#[should_panic(expected = "these failed:\necho before; false\n\nThey printed:\nbefore")]
fn a_command_that_fails_is_told() {
    let place = tempfile::tempdir().unwrap();
    let mut steps = steps("```sh\necho before; false\n```\n");
    Reader::new(place.path(), &[], &[]).follow("a page", steps.remove(0));
}
