//! A run that goes two ways: at the point where a fault may strike, the process is forked. One goes on undisturbed to
//! the next point, the other with the fault to its end, where it tells what it came to. Nothing is done twice, and
//! nothing is left over.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    io,
    os::unix::net::UnixDatagram,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{
    Settings,
    known::Known,
    oracle::{Oracle, Violation},
    plan::{Fault, Planned},
};

/// How long a run may take in real time, until it counts as hung.
const HUNG: u32 = 60;
/// How long is waited for a report before it is looked whether there will be one.
const MOMENT: Duration = Duration::from_millis(50);
/// How long a process may take to its beginning, each time that one is tried.
const PATIENCES: [Duration; 4] =
    [Duration::from_secs(10), Duration::from_secs(30), Duration::from_secs(60), Duration::from_secs(120)];
/// How long what was seen may be in a report, so that it fits into one message.
const LONGEST: usize = 4 << 10;

/// What a run with faults came to.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) faults: Vec<Planned>,
    pub(crate) violations: Vec<Violation>,
    /// What an author wants to be so at some time, and was: their places.
    pub(crate) sometimes: Vec<usize>,
    /// Stands for everything that happened; 0 if that is not known.
    pub(crate) digest: u64,
    /// How many things happened, and whether it ended there because it was known how it goes on.
    pub(crate) happened: usize,
    pub(crate) is_known: bool,
    /// Whether replicas elected a leader.
    pub(crate) elects: bool,
}

/// What is said by the processes of runs.
#[derive(Serialize, Deserialize)]
enum Message {
    /// The first of them has come as far as to make others.
    Began,
    Told(Told),
    /// All are made.
    Ended,
}

/// Processes that make runs, and where their reports arrive.
pub(crate) struct Crew {
    desk: UnixDatagram,
    first: Apart,
    buffer: Vec<u8>,
}

impl Crew {
    /// Has a process of its own make runs.
    ///
    /// Other threads of this process, of which the new one has only the memory, may hold a lock just then. If it does not
    /// come to its beginning, another one is tried.
    pub(crate) fn set_out(settings: &Settings, run: impl Fn(UnixDatagram) + Sync) -> io::Result<Self> {
        for patience in PATIENCES {
            let (desk, way) = UnixDatagram::pair()?;
            desk.set_read_timeout(Some(MOMENT))?;
            let first = Apart::run(|| {
                let (own, end) = (std::process::id(), way.try_clone());
                run(way);
                // The runs that have branched off come out here, too.
                if own == std::process::id()
                    && let Ok(end) = end
                {
                    say(&end, &Message::Ended);
                }
            })?;
            let mut crew = Self { desk, first, buffer: vec![0; 16 * LONGEST] };
            #[allow(clippy::disallowed_methods, reason = "how long people wait is real time")]
            let began = Instant::now();
            while began.elapsed() < patience {
                match crew.take() {
                    Some(_) => return Ok(crew),
                    None if (settings.stop)() || crew.first.has_ended() => return Ok(crew),
                    None => {}
                }
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "no process has come to its beginning"))
    }

    /// Takes reports until all runs are made, or nobody wants any more of them.
    pub(crate) fn gather(mut self, settings: &Settings, mut take: impl FnMut(Told)) {
        loop {
            match self.take() {
                Some(Message::Told(told)) => take(told),
                Some(Message::Began) => {}
                Some(Message::Ended) => return,
                None if (settings.stop)() => return,
                None if self.first.has_ended() => break,
                None => {}
            }
        }
        while let Some(message) = self.take() {
            if let Message::Told(told) = message {
                take(told);
            }
        }
    }

    /// The next report, if there is one within a moment.
    fn take(&mut self) -> Option<Message> {
        let length = self.desk.recv(&mut self.buffer).ok()?;
        serde_json::from_slice(&self.buffer[..length]).ok()
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
    /// Whether replicas elect a leader.
    pub(crate) elects: bool,
}

impl Choice {
    /// About how many runs that is, if there are so many with one fault.
    pub(crate) fn about(&self, singles: usize) -> usize {
        let runs = match self.chances[..] {
            [chance] => (singles as f64 * chance) as usize,
            _ => usize::MAX,
        };
        runs.min(self.most)
    }

    /// None.
    pub(crate) fn none() -> Self {
        Self {
            faults: Vec::new(),
            chances: Vec::new(),
            random: None,
            most: usize::MAX,
            deadline: None,
            elects: false,
        }
    }
}

/// Makes a process of each run that branches off.
pub(crate) struct Brancher {
    choice: Choice,
    random: fastrand::Rng,
    /// How many may run at a time.
    slots: usize,
    running: BTreeMap<i32, Vec<Planned>>,
    way: UnixDatagram,
    /// The moments of the undisturbed run, and all from which on it is known that all goes well.
    undisturbed: BTreeSet<u64>,
    known: Known,
    /// The moments at which an operator has died of a fault.
    died: BTreeSet<u64>,
    lot: Lot,
    /// How many faults have struck.
    depth: usize,
    is_closed: bool,
}

impl Brancher {
    pub(crate) fn new(
        choice: Choice,
        seed: u64,
        slots: usize,
        way: UnixDatagram,
        undisturbed: &[u64],
        known: Known,
    ) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self {
            choice,
            random,
            slots,
            running: BTreeMap::new(),
            way,
            undisturbed: undisturbed.iter().copied().collect(),
            known,
            died: BTreeSet::new(),
            lot: Lot::default(),
            depth: 0,
            is_closed: false,
        }
    }

    /// Says that runs are about to be made.
    pub(crate) fn begin(&self) {
        self.say(&Message::Began);
    }

    /// Has another process make other runs at the same time, one after the other.
    pub(crate) fn accompanied(mut self, by: &Choice, run: impl FnOnce(Self)) -> Self {
        if self.make_process(&[]) {
            alarm(0);
            (self.choice, self.slots) = (by.clone(), 1);
            run(self);
            exit(0);
        }
        self
    }

    /// Goes two ways, for a run of its own with these faults: true in the new process.
    pub(crate) fn split(&mut self, faults: &[Planned]) -> bool {
        self.fork(faults)
    }

    /// Goes two ways with faults that begin alike: in the process that they strike, those of them that are to be tried. If
    /// the operator dies of one, what follows depends only on the moment of its death: each is tried once.
    pub(crate) fn branch(
        &mut self,
        faults: Vec<Planned>,
        mut death: impl FnMut(Fault) -> Option<u64>,
    ) -> Vec<Planned> {
        let mut drawn = Vec::new();
        for planned in faults {
            if !self.draws(&planned) {
                continue;
            }
            self.choice.most -= 1;
            match self.depth == 0 && death(planned.fault).is_some_and(|moment| !self.died.insert(moment)) {
                true => self.tell_known(&planned),
                false => drawn.push(planned),
            }
        }
        // The last is the one that the new process goes on with in the end.
        let is_struck = drawn.last().cloned().is_some_and(|last| self.fork(&[last]));
        if is_struck { drawn } else { Vec::new() }
    }

    /// Goes two ways where faults that began alike differ: true in the process of this one.
    pub(crate) fn go_apart(&mut self, planned: &Planned) -> bool {
        while !self.running.is_empty() {
            self.await_one();
        }
        alarm(2 * HUNG);
        self.make_process(std::slice::from_ref(planned))
    }

    /// Whether more than one fault may strike a run.
    pub(crate) fn makes_pairs(&self) -> bool {
        self.choice.chances.len() > 1
    }

    /// Whether a fault is to be tried here.
    fn draws(&mut self, planned: &Planned) -> bool {
        let Some(chance) = self.choice.chances.get(self.depth).copied() else { return false };
        if self.is_closed
            || self.choice.most == 0
            || !self.choice.faults.contains(&planned.fault)
            || is_late(self.choice.deadline)
        {
            return false;
        }
        match self.depth {
            0 => self.lot.draws(chance, &mut self.random),
            _ => self.random.f64() < chance,
        }
    }

    /// Makes runs that choose their faults by chance: which one this is, in the process of each.
    pub(crate) fn sow(&mut self) -> Option<Dice> {
        let (chance, seed) = (self.choice.random?, self.random.u64(..));
        for run in 0..self.choice.most as u64 {
            if is_late(self.choice.deadline) {
                break;
            }
            if self.split(&[]) {
                let random = fastrand::Rng::with_seed(seed.wrapping_add(run));
                return Some(Dice { random, chance, faults: self.choice.faults.clone() });
            }
        }
        None
    }

    fn fork(&mut self, faults: &[Planned]) -> bool {
        while self.running.len() >= self.slots {
            self.await_one();
        }
        if self.depth > 0 {
            alarm(2 * HUNG);
        }
        let is_new = self.make_process(faults);
        if is_new {
            // What branches off from here waits for its own branches, one at a time.
            (self.slots, self.depth) = (1, self.depth + 1);
        }
        is_new
    }

    fn make_process(&mut self, faults: &[Planned]) -> bool {
        match fork() {
            Ok(Some(child)) => {
                self.running.insert(child, faults.to_vec());
                false
            }
            Ok(None) => {
                self.running.clear();
                true
            }
            // There is no room for another process: this one is left out, and told of.
            Err(why) => {
                self.give_up(faults, format!("the run could not be made: {why}"));
                false
            }
        }
    }

    /// Whether it is known that all goes well from a moment on, and nothing branches off before. Where something may, the
    /// run goes on until it is where the undisturbed one was: till then it recovers.
    pub(crate) fn knows(&self, moment: u64) -> bool {
        let may_branch = !self.is_closed && self.depth < self.choice.chances.len();
        self.undisturbed.contains(&moment) || !may_branch && self.known.has(moment)
    }

    /// Tells from which moments on all goes well.
    pub(crate) fn teach(&self, passed: &[u64]) {
        self.known.add(passed);
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
        if let Some(faults) = self.running.remove(&child)
            && !is_well
        {
            self.give_up(&faults, format!("the run died, or did not end within {HUNG} s of real time"));
        }
    }

    /// Tells what a run came to.
    pub(crate) fn tell(&self, mut told: Told) {
        for violation in &mut told.violations {
            let end = violation.seen.floor_char_boundary(LONGEST);
            violation.seen.truncate(end);
        }
        told.elects = self.choice.elects;
        self.say(&Message::Told(told));
    }

    /// Tells that it is known what a run with a fault comes to.
    pub(crate) fn tell_known(&self, planned: &Planned) {
        self.tell(Told { faults: vec![planned.clone()], is_known: true, ..Told::default() });
    }

    /// Tells that a run came to nothing.
    fn give_up(&self, faults: &[Planned], seen: String) {
        let faults = faults.to_vec();
        let violations = vec![Violation::new(Oracle::Budget, seen)];
        self.tell(Told { faults, violations, ..Told::default() });
    }

    fn say(&self, message: &Message) {
        say(&self.way, message);
    }
}

fn say(way: &UnixDatagram, message: &Message) {
    if let Ok(text) = serde_json::to_vec(message) {
        // If nobody listens any more, nobody misses it.
        let _ = way.send(&text);
    }
}

/// Draws one of so many, by chance, but never two of the same many: all parts of a run get their share.
#[derive(Default)]
struct Lot {
    /// How many were asked for, and which of them is drawn next.
    asked: f64,
    next: Option<f64>,
    /// Where the many end of which that is one.
    end: f64,
}

impl Lot {
    fn draws(&mut self, chance: f64, random: &mut fastrand::Rng) -> bool {
        let many = 1.0 / chance;
        let next = *self.next.get_or_insert_with(|| random.f64() * many);
        if self.end == 0.0 {
            self.end = many;
        }
        let is_drawn = next < self.asked + 1.0;
        self.asked += 1.0;
        if is_drawn {
            self.next = Some(self.end + random.f64() * many);
            self.end += many;
        }
        is_drawn
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

/// A process of its own, with all that it makes. They end when this is dropped.
struct Apart {
    child: i32,
    has_ended: Cell<bool>,
}

impl Apart {
    /// Runs something in a process of its own; what it finds out it has to tell.
    fn run(run: impl FnOnce() + Send) -> io::Result<Self> {
        match fork()? {
            Some(child) => Ok(Self { child, has_ended: Cell::new(false) }),
            None => {
                alarm(0);
                lead_group();
                let run = || {
                    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
                    exit(ended.is_err().into())
                };
                // A thread has memory of its own, without the gaps of what was before: less of it is copied for each
                // run that branches off.
                let Err(never) = std::thread::scope(|scope| scope.spawn(run).join());
                std::panic::resume_unwind(never)
            }
        }
    }

    /// Whether it has ended.
    fn has_ended(&self) -> bool {
        if !self.has_ended.get() {
            #[allow(unsafe_code, reason = "asks for a child of this process, and not for its status")]
            let ended = unsafe { libc::waitpid(self.child, std::ptr::null_mut(), libc::WNOHANG) };
            self.has_ended.set(ended != 0);
        }
        self.has_ended.get()
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        // Its number may be another's by now.
        if self.has_ended() {
            return;
        }
        #[allow(
            unsafe_code,
            reason = "ends processes that this one has made, and waits for the first of them"
        )]
        unsafe {
            libc::kill(-self.child, libc::SIGKILL);
            libc::waitpid(self.child, std::ptr::null_mut(), 0);
        }
    }
}

/// Makes this process and its children a group of their own: what a terminal says to its parent does not concern it.
fn lead_group() {
    #[allow(unsafe_code, reason = "is about this process, and can't fail for one that has just begun")]
    unsafe {
        libc::setpgid(0, 0);
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
            end_with_parent();
            std::panic::set_hook(Box::new(|_| {}));
            Ok(None)
        }
        child => Ok(Some(child)),
    }
}

/// Has this process ended with the one that made it: nobody would take its reports.
fn end_with_parent() {
    #[cfg(target_os = "linux")]
    #[allow(unsafe_code, reason = "is about this process, and a signal that there is")]
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_before_about_how_many_runs_there_will_be() {
        let about = |chances: &[f64], most: usize| {
            Choice { chances: chances.to_vec(), most, ..Choice::none() }.about(1_000)
        };
        assert_eq!(about(&[0.05], usize::MAX), 50, "some of the single ones");
        assert_eq!(about(&[1.0], 60), 60, "no more than are wanted");
        assert_eq!(about(&[0.05, 0.05], 2_000), 2_000, "nobody knows how many pairs there are");
    }

    #[test]
    fn a_run_that_more_may_befall_goes_on_until_it_has_recovered() {
        let (way, _) = UnixDatagram::pair().unwrap();
        let choice = Choice { chances: vec![1.0, 1.0], ..Choice::none() };
        let mut brancher = Brancher::new(choice, 1, 1, way, &[1], Known::of(&[1, 2]));
        let knows = |brancher: &Brancher| [1, 2, 3].map(|moment| brancher.knows(moment));
        brancher.depth = 1;
        assert_eq!(
            knows(&brancher),
            [true, false, false],
            "only the undisturbed run has nothing to recover from"
        );
        brancher.depth = 2;
        assert_eq!(knows(&brancher), [true, true, false], "nothing more befalls it");
        brancher.depth = 1;
        brancher.close();
        assert_eq!(knows(&brancher), [true, true, false], "nothing more does now");
    }

    #[test]
    fn every_part_gets_its_share() {
        let mut random = fastrand::Rng::with_seed(1);
        for (chance, of) in [(0.1, 1_000), (0.03, 1_000), (1.0, 50), (0.7, 1_000), (0.0101, 99)] {
            let mut lot = Lot::default();
            let drawn: Vec<usize> = (0..of).filter(|_| lot.draws(chance, &mut random)).collect();
            let expected = chance * of as f64;
            assert!(
                (drawn.len() as f64 - expected).abs() < 1.5 + 0.1 * expected,
                "{chance}: {}",
                drawn.len()
            );
            let longest = drawn.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
            assert!((longest as f64) < 2.0 / chance + 1.0, "{chance}: {longest}");
        }
    }
}
