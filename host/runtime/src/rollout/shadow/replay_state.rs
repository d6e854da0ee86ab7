//! The state that the stable version found, reconstructed from its answers, with the candidate's own changes
//! on top. Pure.
//!
//! When the candidate runs, the stable version's writes are already in the store. The state before them comes
//! from its reads, from the answers of its writes, or from the store's history. The candidate's writes are
//! decided on this state by the same function that decides writes to a store, and are kept here.

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat_component::{Answer, Effect, Exchange, PageData, ResourceData, StoreError, WriteData};
use homeostat_store::schema::Schemas;
use homeostat_store::semantics::Validation;
use homeostat_store::{
    EventType, Key, Kind, Query, Request, Resource, Revision, SystemClockAndIds, View, Write, semantics,
};

use super::UnfitReason;

/// The stable version's exchanges, for lookup, and the resources in them.
pub(super) struct ReplayState {
    exchanges: Vec<Exchange>,
    /// For each exchange: the number of earlier changing writes to the same resource or kind.
    steps: Vec<usize>,
    /// Exchanges already replayed to the candidate.
    used: Vec<bool>,
    /// By key without the version.
    places: BTreeMap<Key, ResourceState>,
    /// Nanoseconds added to the clocks since the stable version's last reading.
    late: u64,
}

/// The state of one resource.
#[derive(Default)]
struct ResourceState {
    /// The resource as the candidate sees it; `None` if it does not exist.
    now: Option<Arc<Resource>>,
    /// The number of the stable version's changing writes that the candidate has repeated.
    steps: usize,
    /// The candidate has changed it differently.
    diverged: bool,
}

/// Resources before the stable version's first write, by the revision of that write.
pub(super) type Before = BTreeMap<Revision, Option<Arc<Resource>>>;

/// The answer to a read.
pub(super) enum ReplayAnswer {
    /// An answer from the replay state.
    Answer(Answer),
    /// The store has the answer.
    ReadStore,
}

impl ReplayState {
    /// Returns the kinds and revisions of the stable version's changes whose previous state it did not read.
    pub(super) fn unobserved_changes(exchanges: &[Exchange]) -> Vec<(Kind, Revision)> {
        let mut seen = BTreeMap::new();
        let mut unseen = Vec::new();
        for exchange in exchanges {
            for (key, sight) in before_images(exchange) {
                let is_new = seen.insert(key.clone(), ()).is_none();
                if let (BeforeImage::Preceding(revision), true) = (sight, is_new) {
                    unseen.push((key.kind().clone(), revision));
                }
            }
        }
        unseen
    }

    /// Builds the state from the stable version's exchanges. `before` has the
    /// [unobserved](ReplayState::unobserved_changes) previous states.
    ///
    /// # Errors
    /// Why it cannot be built.
    pub(super) fn set(exchanges: Vec<Exchange>, before: &Before) -> Result<Self, UnfitReason> {
        let mut places: BTreeMap<Key, ResourceState> = BTreeMap::new();
        let mut changes: Vec<Key> = Vec::new();
        let mut steps = Vec::with_capacity(exchanges.len());
        for exchange in &exchanges {
            steps.push(match about(exchange) {
                Some(ExchangeSubject::Resource(key)) => changes.iter().filter(|changed| **changed == key).count(),
                Some(ExchangeSubject::Kind(kind)) => {
                    changes.iter().filter(|changed| changed.kind().same_type(&kind)).count()
                }
                None => 0,
            });
            for (key, sight) in before_images(exchange) {
                if places.contains_key(&key) {
                    continue;
                }
                let now = match sight {
                    BeforeImage::Absent => None,
                    BeforeImage::Present(data) => Some(resource(data).ok_or(UnfitReason::PastIsGone)?),
                    BeforeImage::Preceding(revision) => before.get(&revision).ok_or(UnfitReason::PastIsGone)?.clone(),
                };
                places.insert(key, ResourceState { now, ..ResourceState::default() });
            }
            changes.extend(changed(exchange));
        }
        let used = vec![false; exchanges.len()];
        let exchanges =
            exchanges.into_iter().map(|Exchange { effect, answer }| Exchange { effect: not_live(effect), answer });
        let exchanges = exchanges.collect();
        Ok(Self { exchanges, steps, used, places, late: 0 })
    }

    /// Answers a read of one resource.
    pub(super) fn get(&mut self, key: &Key, view: View) -> ReplayAnswer {
        let effect = Effect::Get { key: key.clone(), view, live: false };
        let place = self.places.get(&bare(key));
        let (parted, steps) = place.map_or((false, 0), |place| (place.diverged, place.steps));
        if !parted && let Some(answer) = self.lookup(&effect, Some(steps), true) {
            return ReplayAnswer::Answer(answer);
        }
        match self.places.get(&bare(key)) {
            Some(ResourceState { now: Some(resource), .. }) => {
                ReplayAnswer::Answer(Answer::Resource(Ok(ResourceData::new(resource, view))))
            }
            Some(ResourceState { now: None, .. }) => {
                ReplayAnswer::Answer(Answer::Resource(Err(StoreError::NotFound(key.to_string()))))
            }
            None => ReplayAnswer::ReadStore,
        }
    }

    /// Replays a list that the stable version made too.
    pub(super) fn list(&mut self, query: &Query, view: View) -> ReplayAnswer {
        let of_kind =
            || self.places.iter().filter(|(key, _)| key.kind().same_type(&query.kind)).map(|(_, place)| place);
        let (parted, steps) = (of_kind().any(|place| place.diverged), of_kind().map(|place| place.steps).sum());
        let effect = not_live(Effect::List { query: query.clone(), view });
        match self.lookup(&effect, Some(steps), true).filter(|_| !parted) {
            Some(answer) => ReplayAnswer::Answer(answer),
            None => ReplayAnswer::ReadStore,
        }
    }

    /// Merges the known resources into a page of the store.
    ///
    /// # Errors
    /// The list has several pages, and a resource of its kind was written.
    pub(super) fn overlay(&self, query: &Query, view: View, page: PageData) -> Result<PageData, UnfitReason> {
        let known = || self.places.iter().filter(|(key, _)| key.kind().same_type(&query.kind));
        if known().next().is_none() {
            return Ok(page);
        }
        if query.from.is_some() || page.next.is_some() {
            let was_written = |key: &Key| self.exchanges.iter().filter_map(changed).any(|changed| changed == *key);
            let is_other = known().any(|(key, place)| place.diverged || was_written(key));
            return if is_other { Err(UnfitReason::ListOfChanged) } else { Ok(page) };
        }
        let PageData { items, revision, next } = page;
        let order = |item: &ResourceData| (item.key.namespace().to_owned(), item.key.name().to_owned());
        let mut items: BTreeMap<_, _> = items.into_iter().map(|item| (order(&item), item)).collect();
        for (key, place) in known() {
            let at = (key.namespace().to_owned(), key.name().to_owned());
            match place.now.as_deref().filter(|resource| query.selector.matches(resource)) {
                Some(resource) => drop(items.insert(at, ResourceData::new(resource, view))),
                None => drop(items.remove(&at)),
            }
        }
        Ok(PageData { items: items.into_values().collect(), revision, next })
    }

    /// Replays the answer of a write that the stable version made too.
    pub(super) fn rewrite(&mut self, write: &Write) -> Option<Result<WriteData, StoreError>> {
        let target = write.target().ok();
        let key = target.and_then(|target| Some(bare(&Key::new(target.kind, &target.namespace, &target.name?))));
        let place = key.as_ref().and_then(|key| self.places.get(key));
        if place.is_some_and(|place| place.diverged) {
            return None;
        }
        let steps = key.is_some().then(|| place.map_or(0, |place| place.steps));
        let effect = Effect::Write(write.clone());
        let Some(Answer::Written(answer)) = self.lookup(&effect, steps, false) else { return None };
        if let Ok(WriteData { resource: data, change }) = &answer {
            let place = self.places.entry(bare(&data.key)).or_default();
            place.now = if *change == Some(EventType::Deleted) { None } else { resource(data) };
            place.steps += usize::from(change.is_some());
        }
        Some(answer)
    }

    /// Returns the known state of a resource; `None` if it is unknown whether it exists.
    pub(super) fn current(&self, key: &Key) -> Option<Option<Arc<Resource>>> {
        self.places.get(&bare(key)).map(|place| place.now.clone())
    }

    /// Decides a write of the candidate on `current`, and keeps the result.
    pub(super) fn write(
        &mut self,
        write: Write,
        manager: &str,
        schemas: &Schemas,
        revision: Revision,
        current: Option<Arc<Resource>>,
    ) -> Result<WriteData, StoreError> {
        let request = Request { manager: manager.to_owned(), ..write.into() };
        let performed =
            semantics::plan_write(&SystemClockAndIds, schemas, request, revision, Validation::Complete, |_| {
                Ok(current.clone())
            })?;
        let (resource, change) = (performed.decision.resource().clone(), performed.event());
        let place = self.places.entry(bare(&performed.key)).or_default();
        place.diverged |= change.is_some();
        place.now = (change != Some(EventType::Deleted)).then(|| resource.clone());
        Ok(WriteData { resource: ResourceData::new(&resource, View::Whole), change })
    }

    /// Replays the answer of an HTTP request that the stable version sent too; each answer once.
    pub(super) fn resend(&mut self, effect: &Effect) -> Option<Answer> {
        self.lookup(effect, None, false)
    }

    /// Replays the stable version's random bytes, in order.
    pub(super) fn random(&mut self, bytes: u32) -> Option<Answer> {
        self.lookup(&Effect::Random { bytes }, None, false)
    }

    /// Replays the stable version's clock readings, in order. Each further reading adds a millisecond.
    pub(super) fn clock(&mut self, effect: &Effect) -> Option<Answer> {
        const MILLISECOND: u64 = 1_000_000;
        if let Some(answer) = self.lookup(effect, None, false) {
            return Some(answer);
        }
        let last = self.exchanges.iter().rfind(|exchange| exchange.effect == *effect)?;
        let Answer::Nanoseconds(time) = last.answer else { return None };
        self.late += MILLISECOND;
        Some(Answer::Nanoseconds(time.saturating_add(self.late)))
    }

    /// Returns the next answer to an effect after this number of steps. With `again`, repeats the last answer
    /// when all are used.
    fn lookup(&mut self, effect: &Effect, steps: Option<usize>, again: bool) -> Option<Answer> {
        let fits =
            |at: &usize| self.exchanges[*at].effect == *effect && steps.is_none_or(|steps| self.steps[*at] == steps);
        let mut fitting = (0..self.exchanges.len()).filter(fits);
        let at = match fitting.clone().find(|at| !self.used[*at]) {
            Some(at) => at,
            None => fitting.next_back().filter(|_| again)?,
        };
        self.used[at] = true;
        Some(self.exchanges[at].answer.clone())
    }
}

/// Returns the same read without [`Query::live`]. What the stable version read answers both forms of the same
/// read: no time passes in a replay.
fn not_live(effect: Effect) -> Effect {
    match effect {
        Effect::Get { key, view, live: _ } => Effect::Get { key, view, live: false },
        Effect::List { query, view } => Effect::List { query: Query { live: false, ..query }, view },
        other => other,
    }
}

/// The subject of an exchange.
enum ExchangeSubject {
    Resource(Key),
    Kind(Kind),
}

fn about(exchange: &Exchange) -> Option<ExchangeSubject> {
    match &exchange.effect {
        Effect::Get { key, .. } => Some(ExchangeSubject::Resource(bare(key))),
        Effect::List { query, .. } => Some(ExchangeSubject::Kind(query.kind.clone())),
        Effect::Write(_) => written(exchange).map(ExchangeSubject::Resource),
        _ => None,
    }
}

/// Returns the key of a write.
fn written(exchange: &Exchange) -> Option<Key> {
    let Effect::Write(write) = &exchange.effect else { return None };
    if let Answer::Written(Ok(written)) = &exchange.answer {
        return Some(bare(&written.resource.key));
    }
    let target = write.target().ok()?;
    Some(bare(&Key::new(target.kind, &target.namespace, &target.name?)))
}

/// Returns the key that a write changed.
fn changed(exchange: &Exchange) -> Option<Key> {
    match &exchange.answer {
        Answer::Written(Ok(WriteData { resource, change: Some(_) })) => Some(bare(&resource.key)),
        _ => None,
    }
}

/// The state of a resource before an exchange, as its answer shows it.
enum BeforeImage<'e> {
    Absent,
    Present(&'e ResourceData),
    /// The state before this revision.
    Preceding(Revision),
}

fn before_images(exchange: &Exchange) -> Vec<(Key, BeforeImage<'_>)> {
    match (&exchange.effect, &exchange.answer) {
        (Effect::Get { view: View::Whole, .. }, Answer::Resource(Ok(data))) => {
            vec![(bare(&data.key), BeforeImage::Present(data))]
        }
        (Effect::Get { key, .. }, Answer::Resource(Err(StoreError::NotFound(_)))) => {
            vec![(bare(key), BeforeImage::Absent)]
        }
        (Effect::List { view: View::Whole, .. }, Answer::Page(Ok(page))) => {
            page.items.iter().map(|item| (bare(&item.key), BeforeImage::Present(item))).collect()
        }
        (Effect::Write(_), Answer::Written(Ok(WriteData { resource: data, change }))) => {
            let sight = match change {
                None => BeforeImage::Present(data),
                Some(EventType::Added) => BeforeImage::Absent,
                Some(EventType::Modified | EventType::Deleted) => match data.revision.parse() {
                    Ok(revision) => BeforeImage::Preceding(revision),
                    Err(_) => BeforeImage::Preceding(Revision::ZERO),
                },
            };
            vec![(bare(&data.key), sight)]
        }
        _ => Vec::new(),
    }
}

/// Returns a key without the version: the same resource in any version.
fn bare(key: &Key) -> Key {
    let Kind { group, name, .. } = key.kind();
    Key::new(Kind::new(group, "", name), key.namespace(), key.name())
}

/// Parses the resource of a whole view.
fn resource(data: &ResourceData) -> Option<Arc<Resource>> {
    Resource::from_document(serde_json::from_str(&data.json).ok()?).ok().map(Arc::new)
}

#[cfg(test)]
mod tests;
