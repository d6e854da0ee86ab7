//! The history of the file, as watches read it: recent events from memory, older ones from the change log.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;

use super::SharedStore;
use crate::revision_notifier::RevisionNotifier;
use crate::watch::{ChangeLog, LogBatch};
use crate::{Event, Result, Revision, Scope};

pub(super) struct FileChangeLog(pub(super) Arc<SharedStore>);

#[async_trait]
impl ChangeLog for FileChangeLog {
    fn recall(&self, scope: &Scope, after: Revision, events: &mut VecDeque<Event>) -> Option<Revision> {
        self.0.recent.read().expect("no thread panics while holding the events").read(scope, after, events).ok()
    }

    async fn read(&self, scope: &Scope, after: Revision) -> Result<LogBatch> {
        let scope = scope.clone();
        self.0.read(move |snapshot| snapshot.log(&scope, after)).await
    }

    fn tip(&self) -> &RevisionNotifier {
        &self.0.tip
    }
}
