//! A run that goes two ways: at the point where a fault may strike, the process is forked. One goes on undisturbed to
//! the next point, the other with the fault to its end, where it tells what it came to. Nothing is done twice, and
//! nothing is left over.

use std::{
    collections::BTreeMap,
    io,
    os::unix::net::UnixDatagram,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{
    oracle::{Oracle, Violation},
    plan::{Fault, Planned, Point},
};

/// How long a run may take in real time, until it counts as hung.
const HUNG: u32 = 60;
/// How long what was seen may be in a report, so that it fits into one message.
const LONGEST: usize = 4 << 10;

/// What a run with faults came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) faults: Vec<Planned>,
    pub(crate) violations: Vec<Violation>,
    /// What an author wants to be so at some time, and was: their places.
    pub(crate) sometimes: Vec<usize>,
    /// Stands for everything that happened.
    pub(crate) digest: u64,
}

/// Where the reports of all runs arrive.
pub(crate) struct Desk(UnixDatagram);

impl Desk {
    /// A desk, and a way to it.
    pub(crate) fn open() -> io::Result<(Self, UnixDatagram)> {
        let (desk, way) = UnixDatagram::pair()?;
        desk.set_read_timeout(Some(Duration::from_millis(50)))?;
        Ok((Self(desk), way))
    }

    /// The next report, if there is one within a moment.
    pub(crate) fn take(&self) -> Option<Told> {
        let mut buffer = vec![0; 16 * LONGEST];
        let length = self.0.recv(&mut buffer).ok()?;
        serde_json::from_slice(&buffer[..length]).ok()
    }
}

/// Which runs branch off.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pub(crate) faults: Vec<Fault>,
    /// How likely a run branches off with a fault, with another one after that, and so on.
    pub(crate) chances: Vec<f64>,
    /// How likely a fault strikes at each point in runs that choose by chance, if there are such runs.
    pub(crate) random: Option<f64>,
    /// No more than these, and not after this.
    pub(crate) most: usize,
    pub(crate) deadline: Option<Instant>,
}

/// Makes a process of each run that branches off.
pub(crate) struct Brancher {
    choice: Choice,
    random: fastrand::Rng,
    /// How many may run at a time.
    slots: usize,
    running: BTreeMap<i32, Planned>,
    way: UnixDatagram,
    /// How many faults have struck.
    depth: usize,
    is_closed: bool,
}

impl Brancher {
    pub(crate) fn new(choice: Choice, seed: u64, slots: usize, way: UnixDatagram) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self { choice, random, slots, running: BTreeMap::new(), way, depth: 0, is_closed: false }
    }

    /// Goes two ways: true in the process that the fault strikes.
    pub(crate) fn branch(&mut self, planned: &Planned) -> bool {
        let Some(chance) = self.choice.chances.get(self.depth).copied() else { return false };
        if self.is_closed
            || self.choice.most == 0
            || !self.choice.faults.contains(&planned.fault)
            || is_late(self.choice.deadline)
        {
            return false;
        }
        if chance < 1.0 && self.random.f64() >= chance {
            return false;
        }
        self.fork(planned)
    }

    /// Makes runs that choose their faults by chance: which one this is, in the process of each.
    pub(crate) fn sow(&mut self) -> Option<Dice> {
        let nothing = Planned { point: Point::default(), fault: Fault::CrashBefore };
        let (chance, seed) = (self.choice.random?, self.random.u64(..));
        for run in 0..self.choice.most as u64 {
            if is_late(self.choice.deadline) {
                break;
            }
            if self.fork(&nothing) {
                let random = fastrand::Rng::with_seed(seed.wrapping_add(run));
                return Some(Dice { random, chance, faults: self.choice.faults.clone() });
            }
        }
        None
    }

    fn fork(&mut self, planned: &Planned) -> bool {
        while self.running.len() >= self.slots {
            self.await_one();
        }
        if self.depth > 0 {
            alarm(2 * HUNG);
        }
        self.choice.most -= 1;
        match fork() {
            Ok(Some(child)) => {
                self.running.insert(child, planned.clone());
                false
            }
            Ok(None) => {
                // What branches off from here waits for its own branches, one at a time.
                self.running.clear();
                (self.slots, self.depth) = (1, self.depth + 1);
                true
            }
            // There is no room for another process: this one is left out, and told of.
            Err(why) => {
                let violation = Violation::new(Oracle::Budget, format!("the run could not be made: {why}"));
                self.tell(&[planned.clone()], vec![violation], Vec::new(), 0);
                false
            }
        }
    }

    /// Nothing branches off any more; those that did are waited for.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
        while !self.running.is_empty() {
            self.await_one();
        }
    }

    fn await_one(&mut self) {
        let Some((child, is_well)) = wait() else {
            return self.running.clear();
        };
        if let Some(planned) = self.running.remove(&child)
            && !is_well
        {
            let seen = format!("the run died, or did not end within {HUNG} s of real time");
            self.tell(&[planned], vec![Violation::new(Oracle::Budget, seen)], Vec::new(), 0);
        }
    }

    /// Tells what a run came to.
    pub(crate) fn tell(
        &self,
        faults: &[Planned],
        mut violations: Vec<Violation>,
        sometimes: Vec<usize>,
        digest: u64,
    ) {
        for violation in &mut violations {
            let end = violation.seen.floor_char_boundary(LONGEST);
            violation.seen.truncate(end);
        }
        let told = Told { faults: faults.to_vec(), violations, sometimes, digest };
        if let Ok(text) = serde_json::to_vec(&told) {
            // If nobody listens any more, nobody misses it.
            let _ = self.way.send(&text);
        }
    }
}

/// Whether a time has passed.
pub(crate) fn is_late(deadline: Option<Instant>) -> bool {
    #[allow(clippy::disallowed_methods, reason = "how long people wait is real time")]
    let now = Instant::now();
    deadline.is_some_and(|deadline| now >= deadline)
}

/// Chooses the faults of a run.
pub(crate) struct Dice {
    random: fastrand::Rng,
    chance: f64,
    faults: Vec<Fault>,
}

impl Dice {
    pub(crate) fn throw(&mut self, faults: &[Fault]) -> Option<Fault> {
        if self.random.f64() >= self.chance {
            return None;
        }
        let faults: Vec<Fault> = faults.iter().copied().filter(|fault| self.faults.contains(fault)).collect();
        self.random.choice(faults)
    }
}

/// A process of its own.
pub(crate) struct Apart(i32);

impl Apart {
    /// Runs something in a process of its own; what it finds out it has to tell.
    pub(crate) fn run(run: impl FnOnce()) -> io::Result<Self> {
        match fork()? {
            Some(child) => Ok(Self(child)),
            None => {
                alarm(0);
                let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
                exit(ended.is_err().into())
            }
        }
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        let mut status = 0;
        #[allow(unsafe_code, reason = "asks for a child of this process; the pointer is to a local")]
        let ended = unsafe { libc::waitpid(self.0, &raw mut status, libc::WNOHANG) };
        ended != 0
    }
}

/// Ends the process at once: nothing that it has copied from its parent is cleaned up twice.
fn exit(code: i32) -> ! {
    #[allow(unsafe_code, reason = "ends the process without running what its parent will run")]
    unsafe {
        libc::_exit(code)
    }
}

/// Has the process ended after so many seconds, or never for 0.
fn alarm(seconds: u32) {
    #[allow(unsafe_code, reason = "sets the alarm of this process")]
    unsafe {
        libc::alarm(seconds);
    }
}

/// The child's id in the parent, nothing in the child.
fn fork() -> io::Result<Option<i32>> {
    // Only the calling thread goes on in the child. It touches nothing that another thread may hold: its runtime, its
    // cluster and its operator are its own, it prints nothing, and the allocators of libc and mimalloc know of forks.
    // Should it hang all the same, the alarm ends it.
    #[allow(unsafe_code, reason = "the one call that makes a process of a run")]
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            alarm(HUNG);
            std::panic::set_hook(Box::new(|_| {}));
            Ok(None)
        }
        child => Ok(Some(child)),
    }
}

/// Waits for any child: which one it is, and whether it ended well.
fn wait() -> Option<(i32, bool)> {
    loop {
        let mut status = 0;
        #[allow(unsafe_code, reason = "waits for a child of this process; the pointer is to a local")]
        let child = unsafe { libc::waitpid(-1, &raw mut status, 0) };
        match child {
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            -1 => return None,
            child => return Some((child, status == 0)),
        }
    }
}
