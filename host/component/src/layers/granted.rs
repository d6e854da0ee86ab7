//! Checks the effects of a guest against the rights of its controller, in three layers. [`Roles`] refuses
//! writes to kinds that are read-only, [`Observed`] records accesses and denials, and [`Granted`] checks the
//! grants.
//!
//! An answer discloses no more than the grants allow: a list omits all other resources without a trace, and a
//! write shows the stored document only with the grant `get` or `list`. Without any grant a guest may use its
//! own settings, the log, events about granted resources, clocks and randomness. Files and sockets are never
//! granted. Deliberately absent: quantities.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use homeostat_store::{Kind, PAGE_BYTES_MAX, Query, View, Write, continue_after};

use crate::effect::{Answer, Call, Effect, Effects, HttpError, PageData, ResourceData, StoreError};
use crate::grants::{AccessRequest, Attempt, Capability, Disclosure, Grants, Needs, Verb, missing_http};
use crate::limits::contract::EVENT_MESSAGE_BYTES_MAX;
use crate::limits::cut;
use crate::spec::{ControllerSpec, Role};

mod redaction;

use redaction::WrittenDocument;

/// Passes on everything except writes to the kinds that the component declares as read-only: watches with the
/// role `tertiary`.
///
/// Lies outside of [`Granted`], so that no grant overrides a role, and a refused write is not recorded as a
/// need. Deliberately absent: a role of the managed kind, which a controller may write as its grants allow.
pub struct Roles<E> {
    /// Read-only kinds, each with the name of the watch that declares it.
    read_only: Vec<(Kind, Arc<str>)>,
    witness: Arc<dyn DenialObserver>,
    inner: E,
}

impl<E: Effects> Roles<E> {
    /// Enforces the roles that `spec` declares before `inner`.
    pub fn new(spec: &ControllerSpec, witness: Arc<dyn DenialObserver>, inner: E) -> Self {
        let tertiary = spec.watches.iter().filter(|watch| watch.role == Role::Tertiary);
        let read_only = tertiary.map(|watch| (watch.of.kind.clone(), watch.name.as_str().into())).collect();
        Self { read_only, witness, inner }
    }

    /// Returns the reason why a write is refused, if it is. A document without a valid target is refused as
    /// invalid by inner layers.
    fn refusal(&self, write: &Write) -> Option<String> {
        if self.read_only.is_empty() {
            return None;
        }
        let target = write.target().ok()?;
        let (kind, watch) = self.read_only.iter().find(|(kind, _)| kind.same_type(&target.kind))?;
        Some(format!(
            "the component only reads {kind}: its watch {watch:?} has the role `tertiary`, and no grant lets it write that kind; \
             a component that writes it declares the watch `secondary`"
        ))
    }
}

#[async_trait]
impl<E: Effects> Effects for Roles<E> {
    async fn perform(&self, call: &Call, effect: Effect) -> Answer {
        let refusal = match &effect {
            Effect::Write(write) => self.refusal(write),
            _ => None,
        };
        let Some(refusal) = refusal else { return self.inner.perform(call, effect).await };
        if let Some(capability) = Attempt::of(&effect).ok().and_then(|ask| ask.capability()) {
            self.witness.denied(call, capability, &refusal);
        }
        Answer::Written(Err(StoreError::Forbidden(refusal)))
    }
}

/// Receives every denial, while the guest waits. Implementations must not block.
pub trait DenialObserver: Send + Sync + 'static {
    /// Receives one denial. `missing` names the missing grant, with the lines that would grant it. It names
    /// no resource, so that it is the same for all resources of a kind and a namespace.
    fn denied(&self, call: &Call, capability: Capability, missing: &str);
}

/// Records attempted accesses, and reports denials. Changes nothing.
///
/// Belongs directly around [`Granted`], to distinguish its refusals from other failures.
pub struct Observed<E> {
    needs: Arc<Needs>,
    witness: Arc<dyn DenialObserver>,
    inner: E,
}

impl<E: Effects> Observed<E> {
    /// Observes the effects that go to `inner`. Several layers may share one record: for example the layers
    /// of a controller's earlier versions.
    pub fn new(needs: Arc<Needs>, witness: Arc<dyn DenialObserver>, inner: E) -> Self {
        Self { needs, witness, inner }
    }
}

#[async_trait]
impl<E: Effects> Effects for Observed<E> {
    async fn perform(&self, call: &Call, effect: Effect) -> Answer {
        // A document without a valid target cannot be matched with a grant; it is refused as invalid.
        let Ok(ask) = Attempt::of(&effect) else { return self.inner.perform(call, effect).await };
        if ask == Attempt::Telemetry {
            return self.inner.perform(call, effect).await;
        }
        let beside = Attempt::beside(&effect);
        let answer = self.inner.perform(call, effect).await;
        let denial = denial(&answer);
        self.needs.record(&ask, denial.is_some());
        // If all alternatives are missing, one is proposed; if some are granted, they are kept.
        for other in beside.iter().take(if denial.is_some() { 1 } else { beside.len() }) {
            self.needs.record(other, denial.is_some());
        }
        if let (Some(text), Some(capability)) = (denial, ask.capability()) {
            self.witness.denied(call, capability, &without_name(&ask, text));
        }
        answer
    }
}

/// Returns a denial without the name of the resource, if it stems from the missing grant, so that equal
/// denials become one event.
fn without_name<'a>(ask: &Attempt, text: &'a str) -> Cow<'a, str> {
    match ask.request() {
        Some(request) if request.missing() == text => AccessRequest { name: None, ..request }.missing().into(),
        _ => text.into(),
    }
}

fn denial(answer: &Answer) -> Option<&str> {
    match answer {
        Answer::Resource(Err(StoreError::Forbidden(text)))
        | Answer::Page(Err(StoreError::Forbidden(text)))
        | Answer::Written(Err(StoreError::Forbidden(text)))
        | Answer::Done(Err(StoreError::Forbidden(text)))
        | Answer::Http(Err(HttpError::Forbidden(text))) => Some(text),
        _ => None,
    }
}

/// Passes on granted effects, and answers `forbidden` to all others, naming the missing grant.
pub struct Granted<E> {
    grants: Arc<Grants>,
    inner: E,
}

impl<E: Effects> Granted<E> {
    /// Checks `grants` before `inner`.
    pub fn new(grants: Arc<Grants>, inner: E) -> Self {
        Self { grants, inner }
    }

    /// Performs a list as far as it is granted.
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

    /// Returns a page of only the readable resources. It is as full as if there were no others: its length,
    /// its end and the existence of a next page disclose nothing about them.
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
                // The store's first page is never too long, so there is a continuation to resume from.
                if let (Some(mark), Some(last)) = (&query.from, seen.last())
                    && (seen.len() >= items_max || bytes > PAGE_BYTES_MAX)
                {
                    return match continue_after(mark, &last.key, query.limit) {
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

    /// Performs a write. The answer contains only content that the controller may read.
    async fn write(&self, call: &Call, write: Write, ask: &AccessRequest<'_>) -> Answer {
        let get = AccessRequest { verb: Verb::Get, ..*ask };
        if self.grants.allows(&get) || self.grants.allows(&AccessRequest { verb: Verb::List, ..*ask }) {
            return self.inner.perform(call, Effect::Write(write)).await;
        }
        if redaction::reads(&write) {
            let text = AccessRequest { name: None, ..get }.missing();
            let text = format!("a JSON patch with `test`, `copy` or `move` reads as well: {text}");
            return Answer::Written(Err(StoreError::Forbidden(text)));
        }
        let said = WrittenDocument::of(&write);
        said.redact(self.inner.perform(call, Effect::Write(write)).await)
    }

    /// Redirects an event about a resource without any grant to the key of the call, and names the intended
    /// resource in the message. Otherwise the event would be listed under a resource that the controller may
    /// not touch.
    fn redirect_foreign_event(&self, call: &Call, effect: Effect) -> Effect {
        let Effect::Emit { severity, reason, message, regarding: Some(about) } = effect else { return effect };
        let is_own = call.key.as_ref() == Some(&about);
        if is_own || self.grants.allows_any(&about) {
            return Effect::Emit { severity, reason, message, regarding: Some(about) };
        }
        let message = cut(format!("about {about}: {message}"), EVENT_MESSAGE_BYTES_MAX);
        Effect::Emit { severity, reason, message, regarding: None }
    }

    /// Checks a follow of a selection: it discloses only changes of resources with a `watch` grant. A
    /// selection by label, field or owner also depends on the content of documents, so it needs a grant to
    /// read some of them.
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

/// Returns an error as the answer of a store effect; `None` for other effects.
fn refused(effect: &Effect, error: StoreError) -> Option<Answer> {
    Some(match effect {
        Effect::Get { .. } => Answer::Resource(Err(error)),
        Effect::List { .. } => Answer::Page(Err(error)),
        Effect::Write(_) => Answer::Written(Err(error)),
        Effect::Follow { .. } | Effect::FollowAll { .. } | Effect::Enqueue { .. } => Answer::Done(Err(error)),
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
