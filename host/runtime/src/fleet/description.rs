//! What a host tells the others: about itself in the record of its own lease, and about the load in the record of each
//! lease of a controller.

use std::num::NonZeroU32;

use homeostat_fleet::MILLICORES_MAX;
use serde::{Deserialize, Serialize};

/// Bytes of a version or an address at most.
const TEXT_BYTES_MAX: usize = 255;
/// Processors that count at most.
const PROCESSORS_MAX: u32 = 4096;

/// The properties of a host that the others see.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostDescription {
    /// The version of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where it serves the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The processors that it may use. Hosts get shards in this proportion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processors: Option<NonZeroU32>,
}

impl HostDescription {
    /// Returns the description of this process, which does not serve yet.
    pub fn of_this() -> Self {
        let processors = std::thread::available_parallelism().ok();
        Self {
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            address: None,
            processors: processors.and_then(|count| NonZeroU32::new(u32::try_from(count.get()).ok()?)),
        }
    }

    /// Replaces the address. One that is too long for the others is none.
    pub(super) fn set_address(&mut self, address: &str) {
        self.address = Some(address.to_owned()).filter(|address| address.len() <= TEXT_BYTES_MAX);
    }

    /// Reads the description in a record. One that cannot be read, or has a text that is too long, says nothing.
    pub(super) fn read(text: Option<&str>) -> Self {
        let read: Self = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let is_short = |text: &Option<String>| text.as_ref().is_none_or(|text| text.len() <= TEXT_BYTES_MAX);
        if is_short(&read.version) && is_short(&read.address) { read } else { Self::default() }
    }

    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the share of the host in the placement of shards: 1000 for each processor.
    pub(super) fn weight(&self) -> u32 {
        1000 * self.processors.map_or(1, NonZeroU32::get).min(PROCESSORS_MAX)
    }
}

/// The load of a lease of a controller, as its holder tells it. The text travels with each renewal.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct LeaseDescription {
    /// The processor time of its keys over about the last minute: thousandths of a core. `None` while nobody has measured
    /// it, and in the records of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu_millicores: Option<u32>,
}

impl LeaseDescription {
    /// Reads the description in a record. One that cannot be read says nothing, and a figure has a bound.
    pub(super) fn read(text: Option<&str>) -> Self {
        let read: Self = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        Self { cpu_millicores: read.cpu_millicores.map(|millicores| millicores.min(MILLICORES_MAX)) }
    }

    pub(super) fn text(self) -> String {
        serde_json::to_string(&self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use homeostat_fleet::{DESCRIPTION_BYTES_MAX, MILLICORES_MAX};

    use super::{HostDescription, LeaseDescription, TEXT_BYTES_MAX};

    #[test]
    fn the_load_of_a_lease_is_read_as_it_was_written() {
        for cpu_millicores in [None, Some(0), Some(350), Some(MILLICORES_MAX)] {
            let told = LeaseDescription { cpu_millicores };
            assert_eq!(LeaseDescription::read(Some(&told.text())), told);
            assert!(told.text().len() < DESCRIPTION_BYTES_MAX);
        }
    }

    #[test]
    fn a_load_that_cannot_be_read_says_nothing_and_no_load_is_above_the_bound() {
        let read = |text: &str| LeaseDescription::read(Some(text)).cpu_millicores;
        assert_eq!(LeaseDescription::read(None).cpu_millicores, None);
        for text in
            ["", "{", "[]", "{}", r#"{"cpuMillicores": -1}"#, r#"{"cpuMillicores": "7"}"#, r#"{"cpuMillicores": 1e99}"#]
        {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(read(r#"{"cpuMillicores": 4294967295}"#), Some(MILLICORES_MAX));
        assert_eq!(read(r#"{"cpuMillicores": 20, "more": 1}"#), Some(20));
    }

    #[test]
    fn a_description_is_read_as_it_was_written() {
        let mut this = HostDescription::of_this();
        this.set_address("http://127.0.0.1:8081");
        assert!(this.version.is_some() && this.processors.is_some());
        assert_eq!(HostDescription::read(Some(&this.text())), this);
    }

    #[test]
    fn a_description_that_cannot_be_read_says_nothing() {
        let long = format!("{{\"version\": \"{}\"}}", "x".repeat(TEXT_BYTES_MAX + 1));
        for text in ["", "{", "[]", r#"{"processors": 0}"#, r#"{"version": 7}"#, &long] {
            assert_eq!(HostDescription::read(Some(text)), HostDescription::default(), "{text:.40}");
        }
        assert_eq!(HostDescription::read(Some(r#"{"version": "2.0.0", "more": 1}"#)).version.as_deref(), Some("2.0.0"));
    }

    #[test]
    fn the_weight_of_a_host_grows_with_its_processors_within_a_bound() {
        let weight = |text: &str| HostDescription::read(Some(text)).weight();
        assert_eq!((weight("{}"), weight(r#"{"processors": 8}"#)), (1000, 8000));
        assert_eq!(weight(r#"{"processors": 4294967295}"#), 4_096_000);
    }
}
