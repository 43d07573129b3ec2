//! That nothing is left of an exploration, however it ends.

use std::{
    env,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Command, Stdio},
    sync::{OnceLock, mpsc},
    thread,
    time::Duration,
};

use kubewright_explore::explore;

use crate::gadget::{SAMPLE, operator};

/// Says to the test below that it is the process that explores.
const EXPLORES: &str = "KUBEWRIGHT_TEST_EXPLORES";
/// The number of the process that explores; those that it makes have others.
static EXPLORER: OnceLock<u32> = OnceLock::new();
const UNDER_WAY: &str = "a run is under way";
/// How long is waited for what should be so at once.
const PATIENCE: Duration = Duration::from_secs(60);

/// Explores an operator that never comes back, once it is in a process other than the one that explores.
fn explore_without_end() {
    EXPLORER.set(std::process::id()).unwrap();
    explore(|| {
        operator(|_, _| {
            if EXPLORER.get() != Some(&std::process::id()) {
                std::io::stdout().write_all(format!("{UNDER_WAY}\n").as_bytes()).unwrap();
                loop {
                    thread::park();
                }
            }
            Box::pin(async { Ok(kubewright::Next::on_change()) })
        })
    })
    .sample(SAMPLE)
    .run();
}

#[test]
fn runs_end_with_the_process_that_made_them() {
    if env::var_os(EXPLORES).is_some() {
        return explore_without_end();
    }
    let mut exploring = Command::new(env::current_exe().unwrap())
        .args(["--exact", "ending::runs_end_with_the_process_that_made_them", "--nocapture"])
        .env(EXPLORES, "")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(exploring.stdout.take().unwrap());
    let mut line = String::new();
    while line.trim_end() != UNDER_WAY {
        line.clear();
        assert!(told.read_line(&mut line).unwrap() > 0, "it ends before a run is under way");
    }
    exploring.kill().unwrap();
    exploring.wait().unwrap();
    let (ended, has_ended) = mpsc::channel();
    thread::spawn(move || {
        // Its end is told when nobody can say anything any more.
        told.read_to_end(&mut Vec::new()).unwrap();
        ended.send(()).unwrap();
    });
    has_ended.recv_timeout(PATIENCE).expect("a run outlives the process that made it");
}
