//! A watch whose events have the version that the caller named.

use std::sync::Arc;

use async_trait::async_trait;
use homeostat_store::{Changes, Event, Kind, Resource, Result, Revision, Watch};

use super::converter::KindConverter;
use super::converters::Converters;

/// A watch of one kind, in one of its versions.
pub(super) struct ConvertedWatch {
    inner: Watch,
    converters: Arc<Converters>,
    kind: Kind,
    /// The event that is being converted. A caller may drop [`Changes::next`] meanwhile.
    pending: Option<Event>,
}

impl ConvertedWatch {
    pub(super) fn new(inner: Watch, converters: Arc<Converters>, kind: Kind) -> Self {
        Self { inner, converters, kind, pending: None }
    }

    /// Returns the converter of an event that is in another version.
    fn converter(&self, event: &Event) -> Option<Arc<KindConverter>> {
        let version = &self.kind.version;
        let is_shown = |resource: &Arc<Resource>| resource.key().kind().version == *version;
        if is_shown(&event.resource) && event.previous.as_ref().is_none_or(is_shown) {
            return None;
        }
        self.converters.of(&self.kind).filter(|converter| converter.knows(version))
    }
}

#[async_trait]
impl Changes for ConvertedWatch {
    async fn next(&mut self) -> Result<Event> {
        let event = match self.pending.take() {
            Some(event) => event,
            None => self.inner.next().await?,
        };
        let Some(converter) = self.converter(&event) else { return Ok(event) };
        let Event { kind, resource, previous, revision } = event.clone();
        self.pending = Some(event);
        let both = std::iter::once(Arc::clone(&resource)).chain(previous).collect();
        let mut converted = converter.convert(&self.kind.version, both).await?.into_iter();
        self.pending = None;
        let resource = converted.next().unwrap_or(resource);
        Ok(Event { kind, resource, previous: converted.next(), revision })
    }

    fn position(&self) -> Option<Revision> {
        if self.pending.is_some() { None } else { self.inner.position() }
    }
}
