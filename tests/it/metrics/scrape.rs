//! Scrapes a host as Prometheus does, and parses the response.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use homeostat_testing::BOUND;

/// A response.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// Gets a path from the host whose socket is in this folder.
pub(crate) fn get(scratch: &Path, path: &str, accept: &str) -> Answer {
    let mut stream = UnixStream::connect(scratch.join("host.sock")).unwrap();
    stream.set_read_timeout(Some(BOUND)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { code, head: head.to_lowercase(), body: body.to_owned() }
}

/// The parsed result of one scrape.
pub(crate) struct Scrape {
    pub(crate) text: String,
    pub(crate) samples: Vec<Sample>,
    /// Type and help by name, as in the text.
    pub(crate) families: BTreeMap<String, (String, String)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

impl Scrape {
    pub(crate) fn of(scratch: &Path) -> Self {
        let answer = get(scratch, "/metrics", "text/plain");
        assert_eq!(answer.code, 200, "{}", answer.body);
        assert!(answer.head.contains("content-type: text/plain; version=0.0.4"), "{}", answer.head);
        Self::read(answer.body)
    }

    pub(crate) fn read(text: String) -> Self {
        let mut families = BTreeMap::<String, (String, String)>::new();
        let mut samples = Vec::new();
        for line in text.lines() {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            match words[..] {
                ["#", "TYPE", name, word] => families.entry(name.into()).or_default().0 = word.into(),
                ["#", "HELP", name, _] => families.entry(name.into()).or_default().1 = words[3].into(),
                ["#", ..] => {}
                _ => samples.push(sample(line)),
            }
        }
        Self { text, samples, families }
    }

    /// Returns the sum of all samples with this name and these labels. `None` if there is none.
    pub(crate) fn find(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let has =
            |sample: &Sample| labels.iter().all(|(name, value)| sample.labels.get(*name).is_some_and(|v| v == value));
        let found = self.samples.iter().filter(|sample| sample.name == name && has(sample)).map(|sample| sample.value);
        found.reduce(|sum, value| sum + value)
    }

    /// Returns the same sum, and panics if there is no such sample.
    pub(crate) fn get(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.find(name, labels).unwrap_or_else(|| panic!("no {name} with {labels:?} in\n{}", self.text))
    }

    /// Returns the names of the labels of all samples with this name, `le` of buckets included.
    pub(crate) fn labels(&self, name: &str) -> BTreeSet<&str> {
        let of = self.samples.iter().filter(|sample| sample.name == name);
        of.flat_map(|sample| sample.labels.keys().map(String::as_str)).collect()
    }
}

/// Reads a line like `name{label="value",other="v"} 1.5`.
fn sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let (name, rest) = series.split_once('{').unwrap_or((series, ""));
    let mut labels = BTreeMap::new();
    let mut rest = rest.trim_end_matches('}');
    while let Some((label, more)) = rest.split_once("=\"") {
        let (value, more) = more.split_once('"').unwrap();
        labels.insert(label.to_owned(), value.to_owned());
        rest = more.trim_start_matches(',');
    }
    Sample { name: name.to_owned(), labels, value: value.parse().unwrap() }
}
