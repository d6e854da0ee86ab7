//! The unverified statements of a component about itself: its imports, exports, tools and dependencies.

use std::collections::BTreeMap;

use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;
use serde::{Deserialize, Serialize};
use wasmparser::{KnownCustom, Parser, Payload, ProducersSectionReader};

use crate::error::Error;

/// The section in which `cargo auditable` stores the dependencies. Source: its documentation.
const DEPENDENCIES: &str = ".dep-v0";
/// Maximum size of the unpacked list of dependencies, in bytes. Source: the limit of the tools that read it.
const DEPENDENCIES_BYTES_MAX: usize = 8 << 20;

/// The statements of a component about its origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The names of its imports.
    pub imports: Vec<String>,
    /// The names of its exports.
    pub exports: Vec<String>,
    /// By field (`language`, `sdk`, `processed-by`): tools and their versions, of the component and its
    /// modules.
    pub producers: BTreeMap<String, BTreeMap<String, String>>,
    /// The packages it was built from, if its build recorded them.
    pub dependencies: Vec<Package>,
}

/// A package that a component was built from.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its source, such as `crates.io` or `local`.
    pub source: String,
    /// `build` for a build dependency; absent for one that is part of the component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

#[derive(Deserialize)]
struct Packages {
    packages: Vec<Package>,
}

impl Origin {
    /// Reads the sections of a component. Missing sections give empty fields.
    ///
    /// # Errors
    /// [`Error::NotAComponent`] if a section cannot be read.
    pub fn of(component: &[u8]) -> Result<Self, Error> {
        crate::wasm::sections(component)?;
        let mut origin = Self::default();
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(component) {
            match payload.map_err(not_one)? {
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::ComponentImportSection(section) if depth == 0 => {
                    for import in section {
                        origin.imports.push(import.map_err(not_one)?.name.name.to_owned());
                    }
                }
                Payload::ComponentExportSection(section) if depth == 0 => {
                    for export in section {
                        origin.exports.push(export.map_err(not_one)?.name.name.to_owned());
                    }
                }
                Payload::CustomSection(section) if section.name() == DEPENDENCIES => {
                    origin.dependencies.extend(packages(section.data())?);
                }
                Payload::CustomSection(section) => {
                    if let KnownCustom::Producers(producers) = section.as_known() {
                        origin.add(producers)?;
                    }
                }
                _ => {}
            }
        }
        origin.dependencies.sort();
        origin.dependencies.dedup();
        Ok(origin)
    }

    fn add(&mut self, producers: ProducersSectionReader<'_>) -> Result<(), Error> {
        for field in producers {
            let field = field.map_err(not_one)?;
            let tools = self.producers.entry(field.name.to_owned()).or_default();
            for tool in field.values {
                let tool = tool.map_err(not_one)?;
                tools.insert(tool.name.to_owned(), tool.version.to_owned());
            }
        }
        Ok(())
    }
}

fn not_one(error: wasmparser::BinaryReaderError) -> Error {
    Error::NotAComponent(error.to_string())
}

fn packages(packed: &[u8]) -> Result<Vec<Package>, Error> {
    let wrong = |reason: String| Error::NotAComponent(format!("their list of dependencies: {reason}"));
    let json = decompress_to_vec_zlib_with_limit(packed, DEPENDENCIES_BYTES_MAX);
    let json = json.map_err(|error| wrong(format!("it cannot be decompressed: {:?}", error.status)))?;
    let read: Packages = serde_json::from_slice(&json).map_err(|error| wrong(error.to_string()))?;
    Ok(read.packages)
}

#[cfg(test)]
mod tests;
