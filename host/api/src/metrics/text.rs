//! Encodes metrics in the two formats that Prometheus reads.
//!
//! OpenMetrics differs in four points: it leaves `_total` out of a counter's metadata lines, states units,
//! writes whole bounds as `1.0`, and ends with a marker.

use std::fmt::{Display, Write};
use std::time::Duration;

use super::ExpositionFormat;
use super::families::{Family, Type};
use super::histogram::Histogram;

/// The units that names may end with.
const UNITS: [&str; 2] = ["seconds", "bytes"];

/// The metrics that are encoded so far.
pub(super) struct TextEncoder {
    form: ExpositionFormat,
    text: String,
    /// The current family.
    name: &'static str,
    suffix: &'static str,
}

impl TextEncoder {
    pub(super) fn new(form: ExpositionFormat) -> Self {
        Self { form, text: String::new(), name: "", suffix: "" }
    }

    /// Writes the metadata of a family. Its samples must follow.
    pub(super) fn start_family(&mut self, family: &Family) {
        let Family { name, r#type, help, .. } = family;
        (self.name, self.suffix) = (name, if *r#type == Type::Counter { "_total" } else { "" });
        let word = r#type.as_str();
        match self.form {
            ExpositionFormat::Prometheus => {
                let suffix = self.suffix;
                self.line(format_args!("# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {word}"));
            }
            ExpositionFormat::OpenMetrics => {
                self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {word}"));
                let unit = name.rsplit('_').next().filter(|unit| UNITS.contains(unit));
                if let Some(unit) = unit {
                    self.line(format_args!("# UNIT {name} {unit}"));
                }
            }
        }
    }

    /// Writes one sample.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        let (name, suffix) = (self.name, self.suffix);
        self.line(format_args!("{name}{suffix}{} {value}", Labels(labels, None)));
    }

    /// Writes one histogram.
    pub(super) fn histogram<const BUCKETS: usize>(&mut self, labels: &[(&str, &str)], histogram: &Histogram<BUCKETS>) {
        let name = self.name;
        for (bound, count) in histogram.cumulative() {
            let is_whole = !bound.contains(['.', 'e']);
            let rest = if is_whole && self.form == ExpositionFormat::OpenMetrics { ".0" } else { "" };
            self.line(format_args!("{name}_bucket{} {count}", Labels(labels, Some(&format!("{bound}{rest}")))));
        }
        let (count, sum) = (histogram.count(), seconds(histogram.sum()));
        self.line(format_args!("{name}_bucket{} {count}", Labels(labels, Some("+Inf"))));
        self.line(format_args!("{name}_sum{} {sum}", Labels(labels, None)));
        self.line(format_args!("{name}_count{} {count}", Labels(labels, None)));
    }

    /// Returns the whole text.
    pub(super) fn finish(mut self) -> String {
        if self.form == ExpositionFormat::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{line}").expect("a string takes whatever is written to it");
    }
}

/// Returns a duration in seconds, the unit of metrics.
pub(super) fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

/// The labels of one sample in braces, the bound last; empty if there are none.
struct Labels<'l>(&'l [(&'l str, &'l str)], Option<&'l str>);

impl Display for Labels<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(labels, bound) = self;
        let all = labels.iter().copied().chain(bound.map(|bound| ("le", bound)));
        let mut mark = '{';
        for (name, value) in all {
            write!(f, "{mark}{name}=\"")?;
            escape(f, value)?;
            f.write_char('"')?;
            mark = ',';
        }
        if mark == ',' { f.write_char('}') } else { Ok(()) }
    }
}

fn escape(f: &mut std::fmt::Formatter<'_>, value: &str) -> std::fmt::Result {
    for letter in value.chars() {
        match letter {
            '\\' => f.write_str("\\\\")?,
            '"' => f.write_str("\\\"")?,
            '\n' => f.write_str("\\n")?,
            letter => f.write_char(letter)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(name: &'static str, r#type: Type) -> Family {
        Family { name, r#type, help: "What it is.", samples: |_, _| {} }
    }

    fn written(form: ExpositionFormat, write: impl Fn(&mut TextEncoder)) -> String {
        let mut text = TextEncoder::new(form);
        write(&mut text);
        text.finish()
    }

    #[test]
    fn a_counter_has_the_name_that_each_format_requires() {
        let write = |text: &mut TextEncoder| {
            text.start_family(&family("cpu_seconds", Type::Counter));
            text.sample(&[("a", "one"), ("b", "two")], 1.5);
        };
        let plain = "# HELP cpu_seconds_total What it is.\n# TYPE cpu_seconds_total counter\ncpu_seconds_total{a=\"one\",b=\"two\"} 1.5\n";
        assert_eq!(written(ExpositionFormat::Prometheus, write), plain);
        let open = "# HELP cpu_seconds What it is.\n# TYPE cpu_seconds counter\n# UNIT cpu_seconds seconds\n\
                    cpu_seconds_total{a=\"one\",b=\"two\"} 1.5\n# EOF\n";
        assert_eq!(written(ExpositionFormat::OpenMetrics, write), open);
    }

    #[test]
    fn values_of_labels_are_escaped() {
        let write = |text: &mut TextEncoder| {
            text.start_family(&family("up", Type::Gauge));
            text.sample(&[("name", "a\"b\\c\nd")], 0);
            text.sample(&[], 1);
        };
        let text = written(ExpositionFormat::Prometheus, write);
        assert!(text.ends_with("up{name=\"a\\\"b\\\\c\\nd\"} 0\nup 1\n"), "{text}");
    }

    #[test]
    fn a_histogram_sums_up_to_infinity() {
        let mut histogram = Histogram::new(&super::super::histogram::QUEUE);
        histogram.observe(Duration::from_millis(500));
        histogram.observe(Duration::from_secs(5000));
        let write = |text: &mut TextEncoder| {
            text.start_family(&family("x_seconds", Type::Histogram));
            text.histogram(&[("name", "a")], &histogram);
        };
        let lines = |form, expected: &str| {
            let text = written(form, write);
            assert!(text.contains(expected), "{expected} is not in {text}");
        };
        for line in [
            "x_seconds_bucket{name=\"a\",le=\"1e-08\"} 0\n",
            "x_seconds_bucket{name=\"a\",le=\"0.1\"} 0\nx_seconds_bucket{name=\"a\",le=\"1\"} 1\n",
            "x_seconds_bucket{name=\"a\",le=\"+Inf\"} 2\nx_seconds_sum{name=\"a\"} 5000.5\nx_seconds_count{name=\"a\"} 2\n",
        ] {
            lines(ExpositionFormat::Prometheus, line);
        }
        lines(ExpositionFormat::OpenMetrics, "x_seconds_bucket{name=\"a\",le=\"1.0\"} 1\n");
    }
}
