//! A system outside of the cluster, over HTTP, which does what a test says.

#![allow(dead_code, unreachable_pub, reason = "not every test needs everything")]

#[path = "../../examples/system.rs"]
mod system;

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use foobar_operator::{Failure, Http, Record, Recorded, System, operator_with};
use kubewright::Operator;
use parking_lot::Mutex;
use tokio::{
    net::TcpSocket,
    task::{JoinHandle, spawn_blocking},
};

/// The system, and the only port at which it ever is.
pub struct Outside {
    socket: Option<TcpSocket>,
    address: SocketAddr,
    records: Recorded,
    mood: Mood,
    serving: Option<JoinHandle<std::io::Result<()>>>,
}

impl Outside {
    /// A system that is not there yet: whoever calls is refused.
    pub fn closed() -> Self {
        let socket = TcpSocket::new_v4().expect("there are sockets");
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("there is a free port");
        let address = socket.local_addr().expect("the socket is bound");
        let records = Recorded::default();
        let mood = Mood { choosy: system::Choosy(records.clone()), state: Arc::default() };
        Self { socket: Some(socket), address, records, mood, serving: None }
    }

    /// A system that answers.
    pub fn open() -> Self {
        let mut outside = Self::closed();
        outside.opens();
        outside
    }

    pub fn opens(&mut self) {
        let socket = self.socket.take().expect("it is closed");
        let listener = socket.listen(16).expect("the port is ours");
        let serving = system::serve(listener, self.mood.clone(), self.records.clone());
        self.serving = Some(tokio::spawn(serving));
    }

    /// From now on something goes wrong, or nothing any more.
    pub fn fails(&self, fault: Option<Fault>) {
        self.mood.state.lock().fault = fault;
    }

    pub fn records(&self) -> BTreeMap<String, Record> {
        self.records.records()
    }

    /// A record is lost.
    pub async fn loses(&self, id: &str) {
        self.records.delete(id).await.expect("memory does not fail");
    }

    /// What it was asked for since this was last called: `PUT ID`, `DELETE ID`.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.mood.state.lock().asked)
    }

    /// An operator that uses it.
    pub fn operator(&self) -> Operator {
        operator_with(Still(Http::new(&format!("http://{}", self.address))))
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        if let Some(serving) = &self.serving {
            serving.abort();
        }
    }
}

/// What goes wrong.
#[derive(Clone, Copy, PartialEq)]
pub enum Fault {
    /// Nothing is done.
    Down,
    /// It is done, but nobody hears of it.
    Forgetful,
}

#[derive(Clone)]
struct Mood {
    choosy: system::Choosy,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    fault: Option<Fault>,
    asked: Vec<String>,
}

impl Mood {
    async fn told(
        &self,
        what: String,
        done: impl Future<Output = Result<(), Failure>>,
    ) -> Result<(), Failure> {
        let fault = {
            let mut state = self.state.lock();
            state.asked.push(what);
            state.fault
        };
        if fault != Some(Fault::Down) {
            done.await?;
        }
        fault.map_or(Ok(()), |_| Err(Failure::Unavailable("come back later".to_owned())))
    }
}

impl System for Mood {
    async fn put(&self, id: &str, record: &Record) -> Result<(), Failure> {
        self.told(format!("PUT {id}"), self.choosy.put(id, record)).await
    }

    async fn delete(&self, id: &str) -> Result<(), Failure> {
        self.told(format!("DELETE {id}"), self.choosy.delete(id)).await
    }
}

/// Lets time stand still during calls: sockets know nothing of time that is paused, and all patience with them would be
/// over at once.
struct Still<S>(S);

impl<S: System> System for Still<S> {
    async fn put(&self, id: &str, record: &Record) -> Result<(), Failure> {
        let _still = still();
        self.0.put(id, record).await
    }

    async fn delete(&self, id: &str) -> Result<(), Failure> {
        let _still = still();
        self.0.delete(id).await
    }
}

/// Time does not jump while a blocking task runs, and this one does until the answer is dropped.
fn still() -> std::sync::mpsc::Sender<()> {
    let (still, dropped) = std::sync::mpsc::channel();
    spawn_blocking(move || dropped.recv());
    still
}
