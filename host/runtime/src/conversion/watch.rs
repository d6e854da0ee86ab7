//! A watch whose events have the version that the caller named.

use std::sync::Arc;

use async_trait::async_trait;
use homeostat_store::{Changes, Event, Kind, Resource, Result, Revision, Watch};

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

    async fn converted(converters: &Converters, kind: &Kind, event: Event) -> Result<Event> {
        let version = &kind.version;
        let is_shown = |resource: &Arc<Resource>| resource.key().kind().version == *version;
        if is_shown(&event.resource) && event.previous.as_ref().is_none_or(is_shown) {
            return Ok(event);
        }
        let converter = converters.of(kind).filter(|converter| converter.knows(version));
        let Some(converter) = converter else { return Ok(event) };
        let Event { kind, resource, previous, revision } = event;
        let both = std::iter::once(Arc::clone(&resource)).chain(previous).collect();
        let mut converted = converter.convert(version, both).await?.into_iter();
        let resource = converted.next().unwrap_or(resource);
        Ok(Event { kind, resource, previous: converted.next(), revision })
    }
}

#[async_trait]
impl Changes for ConvertedWatch {
    async fn next(&mut self) -> Result<Event> {
        let event = match &self.pending {
            Some(event) => event.clone(),
            None => self.inner.next().await?,
        };
        self.pending = Some(event.clone());
        let converted = Self::converted(&self.converters, &self.kind, event).await?;
        self.pending = None;
        Ok(converted)
    }

    fn position(&self) -> Option<Revision> {
        if self.pending.is_some() { None } else { self.inner.position() }
    }
}
