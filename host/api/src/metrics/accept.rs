//! Chooses the format of the metrics from the `Accept` header. Pure.

use axum::http::HeaderMap;

use crate::media_range::MediaRange;

/// A format of metrics.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ExpositionFormat {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The older text format of Prometheus, which every client reads.
    Prometheus,
}

impl ExpositionFormat {
    /// Chooses the format by the `Accept` headers of a request. The default is the format of Prometheus.
    pub(crate) fn choose(headers: &HeaderMap) -> Self {
        let (mut open, mut plain) = (0.0, 0.0);
        for range in MediaRange::all(headers) {
            match range.media {
                "application/openmetrics-text" if matches!(range.parameter("version"), None | Some("1.0.0")) => {
                    open = range.weight().max(open);
                }
                "text/plain" | "text/*" | "*/*" => plain = range.weight().max(plain),
                _ => {}
            }
        }
        if open > 0.0 && open >= plain { Self::OpenMetrics } else { Self::Prometheus }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header;

    use super::*;

    fn choose(accept: &str) -> ExpositionFormat {
        ExpositionFormat::choose(&HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())]))
    }

    #[test]
    fn the_accept_entry_with_the_greater_weight_wins() {
        let prometheus = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,\
                          application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                          application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        assert_eq!(choose(prometheus), ExpositionFormat::OpenMetrics);
        assert_eq!(choose("application/openmetrics-text; q=0.2, text/plain; q=0.7"), ExpositionFormat::Prometheus);
        assert_eq!(choose("application/openmetrics-text"), ExpositionFormat::OpenMetrics);
    }

    #[test]
    fn other_accept_headers_get_the_prometheus_format() {
        for accept in [
            "",
            "*/*",
            "text/html",
            "text/plain",
            "application/openmetrics-text; version=0.0.1",
            "application/openmetrics-text; q=0",
        ] {
            assert_eq!(choose(accept), ExpositionFormat::Prometheus, "{accept}");
        }
        assert_eq!(ExpositionFormat::choose(&HeaderMap::new()), ExpositionFormat::Prometheus);
    }
}
