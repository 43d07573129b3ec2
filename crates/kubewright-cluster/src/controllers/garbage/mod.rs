//! The garbage collector: what is owned goes when the last of its owners has gone.
//!
//! Watches tell of every change of every object, of which only what matters here is kept in memory. The watches'
//! own indexes are the graph: who is owned by whom is never written down a second time. What memory says is
//! enough to see that nothing is to be done; before anything is deleted, the server is asked.

mod collector;
mod objects;
mod sight;

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use kubewright::{
    Result, TaskContext,
    entropy::Entropy,
    queue::{Options, Outcome, Priority, Queue},
};

use self::{
    collector::Collector,
    sight::{Sight, Work},
};

/// How many objects are worked on at once.
const WORKERS: usize = 20;
/// How long to wait for other changes of definitions before kinds are looked for.
const SETTLING: Duration = Duration::from_millis(100);

/// How long everything else has before the watches of all kinds begin, which are half the work of a start: what is gone by
/// then is found missing.
const HEAD_START: Duration = Duration::from_secs(1);

/// Collects until the operator ends.
pub(crate) async fn run(cx: TaskContext) -> Result<()> {
    let sight = Arc::new(Sight::new(Queue::new(Options::default(), Entropy::seeded(0))));
    let collector = Collector::new(cx.clone(), sight.clone());
    let queue = sight.queue();
    queue.add_after(Work::Discover, HEAD_START, Priority::High);
    let ended = async {
        cx.shutdown.requested().await;
        queue.shut_down();
    };
    tokio::join!(ended, join_all((0..WORKERS).map(|_| work(&collector, queue))));
    Ok(())
}

async fn work(collector: &Collector, queue: &Queue<Work>) {
    while let Some(taken) = queue.get().await {
        let outcome = match collector.work(taken.key()).await {
            Ok(()) => Outcome::Success,
            Err(error) => {
                tracing::debug!(%error, work = ?taken.key(), "tried again later");
                Outcome::Retry { after: None }
            }
        };
        taken.done(outcome);
    }
}
