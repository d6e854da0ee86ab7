//! Chooses the format of the metrics from the `Accept` header. Pure.

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
    pub(crate) fn choose<'h>(accept: impl Iterator<Item = &'h str>) -> Self {
        let (mut open, mut plain) = (0.0, 0.0);
        for range in accept.flat_map(|header| header.split(',')) {
            let Range { media, version, weight } = Range::read(range);
            match media {
                "application/openmetrics-text" if matches!(version, None | Some("1.0.0")) => open = weight.max(open),
                "text/plain" | "text/*" | "*/*" => plain = weight.max(plain),
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

/// One media range of an `Accept` header, such as `text/plain; version=0.0.4; q=0.5`.
struct Range<'h> {
    media: &'h str,
    version: Option<&'h str>,
    weight: f32,
}

impl<'h> Range<'h> {
    fn read(text: &'h str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let mut range = Self { media: parts.next().unwrap_or_default(), version: None, weight: 1.0 };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim() {
                "version" => range.version = Some(value.trim().trim_matches('"')),
                // An invalid weight excludes the range.
                "q" => range.weight = value.trim().parse().unwrap_or(0.0),
                _ => {}
            }
        }
        range
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(accept: &str) -> ExpositionFormat {
        ExpositionFormat::choose([accept].into_iter())
    }

    #[test]
    fn the_greater_weight_wins() {
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
        assert_eq!(ExpositionFormat::choose(std::iter::empty()), ExpositionFormat::Prometheus);
    }
}
