//! The history of the file as a watch reads it: recent events from memory, older ones from the log.

use std::sync::Arc;

use async_trait::async_trait;

use super::Shared;
use crate::watch::{Batch, Log, Tip};
use crate::{Result, Revision, Scope};

pub(super) struct Feed(pub(super) Arc<Shared>);

#[async_trait]
impl Log for Feed {
    async fn read(&self, scope: &Scope, after: Revision) -> Result<Batch> {
        {
            let recent = self.0.recent.lock().expect("nobody panics while holding the events");
            if after >= recent.oldest() {
                return recent.read(scope, after);
            }
        }
        let scope = scope.clone();
        self.0.read(move |snapshot| snapshot.log(&scope, after)).await
    }

    async fn grown(&self, after: Revision) -> Result<()> {
        Tip::pass(&self.0.tip, after).await
    }
}
