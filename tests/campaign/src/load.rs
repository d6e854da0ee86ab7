//! The writes of a campaign: several tasks, each with its own documents and one write at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use homeostat_store::embedded::EmbeddedStore;
use homeostat_store::{Error, Precondition, Propagation, Query, Revision, Store, Write};
use homeostat_testing::Dice;

use crate::document::{self, State};

/// Concurrent tasks.
pub(crate) const TASKS: u64 = 6;
/// Documents of each task.
const DOCUMENTS: u64 = 6;

/// An acknowledged write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AcknowledgedWrite {
    /// The document's name.
    pub(crate) name: String,
    /// The revision of the write.
    pub(crate) revision: u64,
    /// The number of the write in its task.
    pub(crate) counter: u64,
    /// The document after the write; `None` if it was deleted.
    pub(crate) state: Option<State>,
}

impl AcknowledgedWrite {
    /// Formats the write as one line, for a pipe.
    pub(crate) fn line(&self) -> String {
        let Self { name, revision, counter, state } = self;
        let word = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
        let (spec, status) = (word(state.map(|state| state.spec)), word(state.and_then(|state| state.status)));
        format!("{name} {revision} {counter} {spec} {status}")
    }

    /// Parses the output of [`AcknowledgedWrite::line`].
    pub(crate) fn read(line: &str) -> Result<Self> {
        let words: Vec<_> = line.split(' ').collect();
        let [name, revision, counter, spec, status] = words[..] else {
            return Err(anyhow!("`{line}` has another number of words"));
        };
        let word = |word: &str| if word == "-" { Ok(None) } else { word.parse().map(Some) };
        let state = word(spec)?.map(|spec| Ok::<_, std::num::ParseIntError>(State { spec, status: word(status)? }));
        Ok(Self {
            name: name.to_owned(),
            revision: revision.parse()?,
            counter: counter.parse()?,
            state: state.transpose()?,
        })
    }
}

/// The work of the tasks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Workload {
    /// Determines the writes.
    pub(crate) seed: u64,
    /// Counters are above this.
    pub(crate) base: u64,
    /// Writes of each task.
    pub(crate) writes: u64,
}

impl Workload {
    /// Runs all tasks until each has made its writes or failed. A task passes each acknowledged write to
    /// `told` before it makes the next one. Returns the errors.
    pub(crate) async fn run(
        self,
        store: &Arc<EmbeddedStore>,
        told: impl Fn(AcknowledgedWrite) + Clone + Send + Sync + 'static,
    ) -> Result<Vec<Error>> {
        let there = match store.list(&Query::all(document::kind())).await {
            Ok(page) => page.items,
            Err(error) => return Ok(vec![error]),
        };
        let mut found = BTreeMap::new();
        for resource in there {
            let state = document::state(&resource).map_err(|half| anyhow!(half))?;
            found.insert(resource.key().name().to_owned(), (resource.revision(), state));
        }
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let mut mine = found.clone();
                mine.retain(|name, _| document::task(name) == Some(task));
                tokio::spawn(self.task(Arc::clone(store), task, mine, told.clone()))
            })
            .collect();
        let mut errors = Vec::new();
        for task in tasks {
            errors.extend(task.await.context("a task panicked")?.err());
        }
        Ok(errors)
    }

    async fn task(
        self,
        store: Arc<EmbeddedStore>,
        task: u64,
        mut mine: BTreeMap<String, (Revision, State)>,
        told: impl Fn(AcknowledgedWrite) + Send,
    ) -> Result<(), Error> {
        let mut dice = Dice::stream(self.seed, self.base + task);
        let mut counter = self.base;
        while counter < self.base + self.writes {
            counter += 1;
            let name = document::name(task, dice.below(DOCUMENTS));
            let (write, state) = next(&mut dice, &name, counter, mine.get(&name));
            let revision = store.write(write).await?.resource.revision();
            match state {
                Some(state) => mine.insert(name.clone(), (revision, state)),
                None => mine.remove(&name),
            };
            told(AcknowledgedWrite { name, revision: revision.0, counter, state });
        }
        Ok(())
    }
}

/// Chooses the next write to a document, and returns it with the resulting state.
fn next(dice: &mut Dice, name: &str, counter: u64, now: Option<&(Revision, State)>) -> (Write, Option<State>) {
    let Some((revision, state)) = now else {
        let create = Write::Create { document: document::document(name, counter) };
        return (create, Some(State { spec: counter, status: None }));
    };
    let precondition = Precondition { revision: dice.percent(50).then_some(*revision), ..Precondition::default() };
    match dice.below(10) {
        0..6 => {
            let update = Write::Update { document: document::document(name, counter), precondition };
            (update, Some(State { spec: counter, ..*state }))
        }
        6..8 => {
            let status = document::status(name, counter);
            let update = Write::UpdateStatus { key: document::key(name), status, precondition };
            (update, Some(State { status: Some(counter), ..*state }))
        }
        _ => (
            Write::Delete {
                key: document::key(name),
                precondition,
                propagation: Propagation::Background,
                grace_seconds: None,
            },
            None,
        ),
    }
}
