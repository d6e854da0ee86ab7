//! Parses the media ranges of an `Accept` header. Pure.

use axum::http::{HeaderMap, header};

/// One media range, such as `text/plain; version=0.0.4; q=0.5`.
#[derive(Clone, Copy)]
pub(crate) struct MediaRange<'h> {
    /// The type and subtype, `*` included.
    pub(crate) media: &'h str,
    parameters: &'h str,
}

impl<'h> MediaRange<'h> {
    /// Returns the ranges of all `Accept` headers, in their order.
    pub(crate) fn all(headers: &'h HeaderMap) -> impl Iterator<Item = Self> {
        let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        accept.flat_map(|header| header.split(',')).map(|range| {
            let (media, parameters) = range.split_once(';').unwrap_or((range, ""));
            Self { media: media.trim(), parameters }
        })
    }

    /// Returns the value of a parameter, without quotes. The last one counts.
    pub(crate) fn parameter(self, name: &str) -> Option<&'h str> {
        let mut parameters = self.parameters.rsplit(';').filter_map(|part| part.split_once('='));
        parameters.find(|(found, _)| found.trim() == name).map(|(_, value)| value.trim().trim_matches('"'))
    }

    /// Returns the weight `q`, 1 by default. An invalid weight is 0, which excludes the range.
    pub(crate) fn weight(self) -> f32 {
        self.parameter("q").map_or(1.0, |weight| weight.parse().unwrap_or(0.0))
    }
}
