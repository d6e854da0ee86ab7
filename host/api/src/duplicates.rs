//! Finds duplicate fields in a JSON body. The last one wins, which the writer may not have meant. Pure.

use std::collections::HashSet;
use std::fmt;

use homeostat_store::schema::VIOLATIONS_MAX;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Returns the paths of duplicate fields, such as `spec.ports[0].name`, at most [`VIOLATIONS_MAX`]; none if
/// the body is not JSON.
pub(crate) fn duplicates(body: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let mut json = serde_json::Deserializer::from_slice(body);
    // The caller parses the body again and reports the syntax error.
    if DuplicateFinder(&mut found).deserialize(&mut json).is_err() {
        return Vec::new();
    }
    found
}

/// Parses a value and collects the paths of duplicate fields in it.
struct DuplicateFinder<'f>(&'f mut Vec<String>);

impl DuplicateFinder<'_> {
    /// Parses the value of `name`, and prefixes the paths that were found in it.
    fn below<E>(&mut self, name: &str, read: impl FnOnce(DuplicateFinder<'_>) -> Result<(), E>) -> Result<(), E> {
        let before = self.0.len();
        read(DuplicateFinder(self.0))?;
        for path in &mut self.0[before..] {
            let dot = if path.starts_with('[') { "" } else { "." };
            *path = format!("{name}{dot}{path}");
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for DuplicateFinder<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DuplicateFinder<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<M: MapAccess<'de>>(mut self, mut map: M) -> Result<(), M::Error> {
        let mut names = HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            self.below(&name, |looking| map.next_value_seed(looking))?;
            if names.contains(&name) {
                if self.0.len() < VIOLATIONS_MAX && !self.0.contains(&name) {
                    self.0.push(name);
                }
            } else {
                names.insert(name);
            }
        }
        Ok(())
    }

    fn visit_seq<S: SeqAccess<'de>>(mut self, mut items: S) -> Result<(), S::Error> {
        let mut at = 0;
        let mut more = true;
        while more {
            self.below(&format!("[{at}]"), |looking| {
                more = items.next_element_seed(looking)?.is_some();
                Ok(())
            })?;
            at += 1;
        }
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
