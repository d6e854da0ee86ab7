//! Checks what a guest asks for against the grants of its controller.
//!
//! An answer tells no more than the grants do: a list is as if there were nothing else, and a write shows what is there to one who may `get` it.
//! Free for everyone: the own settings, the log, events about what is granted, clocks and randomness. For nobody: files and sockets. Deliberately absent: how much of anything.

use std::sync::Arc;

use async_trait::async_trait;
use homeostat_store::{PAGE_BYTES_MAX, Query, View, Write, continue_after};

use crate::effect::{Answer, Call, Effect, Effects, HttpError, PageData, ResourceData, StoreError};
use crate::grants::{AccessRequest, Attempt, Disclosure, Grants, Verb, missing_http};
use crate::limits::contract::EVENT_MESSAGE_BYTES_MAX;
use crate::limits::cut;

mod withheld;

use withheld::WrittenDocument;

/// Lets through what is granted, and answers `forbidden` to the rest, naming the grant that is missing.
pub struct Granted<E> {
    grants: Arc<Grants>,
    inner: E,
}

impl<E: Effects> Granted<E> {
    /// Puts the check of `grants` before `inner`.
    pub fn new(grants: Arc<Grants>, inner: E) -> Self {
        Self { grants, inner }
    }

    /// Lets a list through as far as it is granted.
    async fn list(&self, call: &Call, effect: Effect, ask: &AccessRequest<'_>) -> Answer {
        let Effect::List { query, view } = effect else { return self.inner.perform(call, effect).await };
        if self.grants.allows(ask) {
            return self.inner.perform(call, Effect::List { query, view }).await;
        }
        if !self.grants.allows_some(ask) {
            return Answer::Page(Err(StoreError::Forbidden(ask.missing())));
        }
        self.list_granted(call, query, view, ask).await
    }

    /// Returns a page of those resources that may be seen. It is as full as if there were no others: neither its length, nor where it ends,
    /// nor whether more follows tells of them.
    async fn list_granted(&self, call: &Call, mut query: Query, view: View, ask: &AccessRequest<'_>) -> Answer {
        let items_max = query.limit.unwrap_or(usize::MAX);
        let (mut seen, mut bytes) = (Vec::<ResourceData>::new(), 0_u64);
        loop {
            let answer = self.inner.perform(call, Effect::List { query: query.clone(), view }).await;
            let Answer::Page(Ok(PageData { items, revision, next })) = answer else { return answer };
            for item in items {
                let (namespace, name) = (Some(item.key.namespace()), Some(item.key.name()));
                if !self.grants.allows(&AccessRequest { namespace, name, ..*ask }) {
                    continue;
                }
                bytes += item.json.len() as u64;
                // The first page of the store is never too long, so there is a mark to go on from.
                if let (Some(mark), Some(last)) = (&query.from, seen.last())
                    && (seen.len() >= items_max || bytes > PAGE_BYTES_MAX)
                {
                    return match continue_after(mark, &last.key) {
                        Ok(next) => Answer::Page(Ok(PageData { items: seen, revision, next: Some(next) })),
                        Err(error) => Answer::Page(Err(error.into())),
                    };
                }
                seen.push(item);
            }
            if next.is_none() {
                return Answer::Page(Ok(PageData { items: seen, revision, next }));
            }
            query.from = next;
        }
    }

    /// Performs a write. The answer has what the controller may read.
    async fn write(&self, call: &Call, write: Write, ask: &AccessRequest<'_>) -> Answer {
        let get = AccessRequest { verb: Verb::Get, ..*ask };
        if self.grants.allows(&get) || self.grants.allows(&AccessRequest { verb: Verb::List, ..*ask }) {
            return self.inner.perform(call, Effect::Write(write)).await;
        }
        if withheld::reads(&write) {
            let text = AccessRequest { name: None, ..get }.missing();
            let text = format!("a JSON patch with `test`, `copy` or `move` reads as well: {text}");
            return Answer::Written(Err(StoreError::Forbidden(text)));
        }
        let said = WrittenDocument::of(&write);
        said.redact(self.inner.perform(call, Effect::Write(write)).await)
    }

    /// Returns an event about a resource of which the controller may do nothing as one about the key of the call, which says whom it meant. It
    /// would stand among the events of a resource that is nothing to the controller.
    fn redirect_foreign_event(&self, call: &Call, effect: Effect) -> Effect {
        let Effect::Emit { severity, reason, message, regarding: Some(about) } = effect else { return effect };
        let is_own = call.key.as_ref() == Some(&about);
        if is_own || self.grants.allows_any(&about) {
            return Effect::Emit { severity, reason, message, regarding: Some(about) };
        }
        let message = cut(format!("about {about}: {message}"), EVENT_MESSAGE_BYTES_MAX);
        Effect::Emit { severity, reason, message, regarding: None }
    }

    /// Lets a selection be followed as far as its kind may be watched: what changes elsewhere is not told. Which resources have a label, a
    /// field or an owner stands in their documents, so whoever selects by one must be granted to read some of them.
    fn refuse_follow_all(&self, ask: &AccessRequest<'_>, reveals: Disclosure) -> Option<Answer> {
        let lacks = |verb| !self.grants.allows_some(&AccessRequest { verb, ..*ask });
        let missing = match reveals {
            _ if lacks(Verb::Watch) => Verb::Watch,
            Disclosure::Content if lacks(Verb::List) && lacks(Verb::Get) => Verb::List,
            Disclosure::Key | Disclosure::Content => return None,
        };
        Some(Answer::Done(Err(StoreError::Forbidden(AccessRequest { verb: missing, ..*ask }.missing()))))
    }

    fn refuse_http(&self, method: &str, url: &str) -> Option<Answer> {
        let granted = self.grants.http_grant(method, url).is_some();
        (!granted).then(|| Answer::Http(Err(HttpError::Forbidden(missing_http(method, url)))))
    }
}

/// Returns an error as the answer to what asks the store for something; `None` where nobody asked.
fn refused(effect: &Effect, error: StoreError) -> Option<Answer> {
    Some(match effect {
        Effect::Get { .. } => Answer::Resource(Err(error)),
        Effect::List { .. } => Answer::Page(Err(error)),
        Effect::Write(_) => Answer::Written(Err(error)),
        Effect::Follow { .. } | Effect::FollowAll { .. } => Answer::Done(Err(error)),
        Effect::Http(_) | Effect::Emit { .. } | Effect::Log { .. } | Effect::Config { .. } => return None,
        Effect::WallClock | Effect::MonotonicClock | Effect::Random { .. } | Effect::Reach(_) => return None,
    })
}

#[async_trait]
impl<E: Effects> Effects for Granted<E> {
    async fn perform(&self, call: &Call, effect: Effect) -> Answer {
        let refusal = match Attempt::of(&effect) {
            Err(error) => refused(&effect, error),
            Ok(Attempt::Http { method, url }) => self.refuse_http(&method, &url),
            Ok(Attempt::Absent(absent)) => Some(Answer::Done(Err(StoreError::Forbidden(absent.denial())))),
            Ok(ask) => match ask.request() {
                Some(request) if request.verb == Verb::List => return self.list(call, effect, &request).await,
                Some(request) => match effect {
                    Effect::FollowAll { ref selector, .. } => {
                        self.refuse_follow_all(&request, Disclosure::of(selector))
                    }
                    _ if !self.grants.allows(&request) => refused(&effect, StoreError::Forbidden(request.missing())),
                    Effect::Write(write) => return self.write(call, write, &request).await,
                    _ => None,
                },
                None => None,
            },
        };
        match refusal {
            Some(answer) => answer,
            None => self.inner.perform(call, self.redirect_foreign_event(call, effect)).await,
        }
    }
}

#[cfg(test)]
mod tests;
