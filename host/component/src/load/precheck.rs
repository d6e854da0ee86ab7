//! Checks a component's own types, to refuse it before it is compiled if possible.
//!
//! Code is not checked here. The types, imports, exports and memories are parsed as by the compiler, in time
//! and memory proportional to the size of the component.

use wasmparser::component_types::{ComponentAnyTypeId, ComponentDefinedType, ComponentEntityType, ComponentItem};
use wasmparser::types::Types;
use wasmparser::{
    BinaryReaderError, ComponentAlias, ComponentExternalKind, ComponentOuterAliasKind, ComponentTypeRef, Encoding,
    Instance, Parser, Payload, ValidPayload, Validator, WasmFeatures,
};

use super::world::{self, InterfaceNames};
use super::{describe, members};
use crate::contract::CONTRACT;
use crate::interface_name::InterfaceName;
use crate::limits::LimitName;
use crate::limits::Limits;
use crate::load_error::Reason;

const WASM_PAGE_BYTES: u64 = 64 << 10;

/// Features of the component model that controllers cannot use, even though the compiler supports them.
const NOT_OFFERED: WasmFeatures = WasmFeatures::CM_ASYNC
    .union(WasmFeatures::CM_ASYNC_STACKFUL)
    .union(WasmFeatures::CM_MORE_ASYNC_BUILTINS)
    .union(WasmFeatures::CM_THREADING)
    .union(WasmFeatures::CM_ERROR_CONTEXT);

/// Returns all reasons to refuse a component that are known without compiling it. `limits` are those of
/// `describe`.
pub(super) fn check(bytes: &[u8], limits: &Limits) -> Vec<Reason> {
    let outline = match read(bytes, WasmFeatures::all().difference(NOT_OFFERED)) {
        Ok(outline) => outline,
        Err(error) if read(bytes, WasmFeatures::all()).is_ok() => return vec![Reason::unsupported(error.message())],
        Err(error) => return vec![Reason::Malformed { reason: error.to_string() }],
    };
    let mut reasons = world::check(&outline.names);
    reasons.extend(outline.differences());
    reasons.extend(outline.total().exceeded_limits(limits));
    reasons
}

/// The parsed structure of a component.
struct Outline {
    names: InterfaceNames,
    types: Option<Types>,
    /// The sizes of the component's own core modules, by index.
    modules: Vec<Sizes>,
    /// The modules that the component itself instantiates, once per instance.
    instances: Vec<u32>,
}

/// The initial resources of an instance of a core module.
#[derive(Clone, Copy, Default)]
struct Sizes {
    memory_bytes: u64,
    memories: u64,
    table_elements: u64,
}

fn read(bytes: &[u8], features: WasmFeatures) -> Result<Outline, BinaryReaderError> {
    let mut validator = Validator::new_with_features(features);
    let names = InterfaceNames { imports: Vec::new(), exports: Vec::new() };
    let mut outline = Outline { names, types: None, modules: Vec::new(), instances: Vec::new() };
    let mut parser = Parser::new(0);
    parser.set_features(features);
    let mut within = Vec::new();
    for payload in parser.parse_all(bytes) {
        let payload = payload?;
        // Validation comes first, so the code below can rely on valid input.
        let valid = validator.payload(&payload)?;
        if let Payload::Version { encoding, .. } = &payload {
            within.push(*encoding);
            if matches!(within.as_slice(), [Encoding::Component, Encoding::Module]) {
                outline.modules.push(Sizes::default());
            }
        }
        match within.as_slice() {
            [Encoding::Component] => outline.read_section(&payload)?,
            [Encoding::Component, Encoding::Module] => outline.read_module_section(&payload)?,
            _ => {}
        }
        if let ValidPayload::End(types) = valid {
            within.pop();
            outline.types = Some(types);
        }
    }
    outline.names.imports.sort_unstable();
    outline.names.exports.sort_unstable();
    Ok(outline)
}

impl Outline {
    /// Reads a section of the component itself.
    fn read_section(&mut self, payload: &Payload<'_>) -> Result<(), BinaryReaderError> {
        match payload {
            Payload::ComponentImportSection(section) => {
                for import in section.clone() {
                    let import = import?;
                    if matches!(import.ty, ComponentTypeRef::Module(_)) {
                        self.modules.push(Sizes::default());
                    }
                    self.names.imports.push(import.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) => {
                for export in section.clone() {
                    let export = export?;
                    if export.kind == ComponentExternalKind::Module {
                        self.modules.push(Sizes::default());
                    }
                    self.names.exports.push(export.name.name.to_owned());
                }
            }
            Payload::ComponentAliasSection(section) => {
                for alias in section.clone() {
                    let is_module = match alias? {
                        ComponentAlias::InstanceExport { kind, .. } => kind == ComponentExternalKind::Module,
                        ComponentAlias::Outer { kind, .. } => kind == ComponentOuterAliasKind::CoreModule,
                        ComponentAlias::CoreInstanceExport { .. } => false,
                    };
                    if is_module {
                        self.modules.push(Sizes::default());
                    }
                }
            }
            Payload::InstanceSection(section) => {
                for instance in section.clone() {
                    if let Instance::Instantiate { module_index, .. } = instance? {
                        self.instances.push(module_index);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads a section of the last core module.
    fn read_module_section(&mut self, payload: &Payload<'_>) -> Result<(), BinaryReaderError> {
        let Some(sizes) = self.modules.last_mut() else { return Ok(()) };
        match payload {
            Payload::MemorySection(section) => {
                for memory in section.clone() {
                    sizes.memories += 1;
                    sizes.memory_bytes += memory?.initial.saturating_mul(WASM_PAGE_BYTES);
                }
            }
            Payload::TableSection(section) => {
                for table in section.clone() {
                    sizes.table_elements = sizes.table_elements.saturating_add(table?.ty.initial);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the minimal resources of the component. Nested components are not counted.
    fn total(&self) -> Sizes {
        let of = |index: &u32| self.modules.get(*index as usize).copied().unwrap_or_default();
        self.instances.iter().map(of).fold(Sizes::default(), |sum, one| Sizes {
            memory_bytes: sum.memory_bytes.saturating_add(one.memory_bytes),
            memories: sum.memories + one.memories,
            table_elements: sum.table_elements.saturating_add(one.table_elements),
        })
    }

    /// Returns a reason for each contract type with other members.
    fn differences(&self) -> Vec<Reason> {
        let Some(types) = &self.types else { return Vec::new() };
        let known = |name: &&String| {
            let name = InterfaceName::parse(name);
            name.package() == CONTRACT && world::is_known(name)
        };
        let mut reasons = Vec::new();
        for name in self.names.imports.iter().filter(known) {
            let item = types.component_item_for_import(name);
            let found = item.map(|item| type_differences(types, &item.ty)).unwrap_or_default();
            let unknown = item.and_then(|item| function_difference(types, name, &item.ty).unknown());
            let found = found.into_iter().chain(unknown);
            reasons.extend(found.map(|found| Reason::Link { reason: format!("{name}: {found}") }));
        }
        for name in self.names.exports.iter().filter(known) {
            let item = types.component_item_for_export(name);
            let found = item.map(|item| type_differences(types, &item.ty)).unwrap_or_default();
            let missing = item.and_then(|item| function_difference(types, name, &item.ty).missing());
            let found = found.into_iter().chain(missing);
            reasons.extend(found.map(|reason| Reason::ExportType { name: name.clone(), reason }));
        }
        reasons
    }
}

/// The functions that exist either in an interface or in the contract, but not in both.
#[derive(Default)]
struct FunctionDifference {
    /// Functions that only the contract has.
    missing: Vec<&'static str>,
    /// Functions that only the component has.
    unknown: Vec<String>,
}

impl FunctionDifference {
    fn missing(&self) -> Option<String> {
        (!self.missing.is_empty()).then(|| format!("it lacks the function {}", self.missing.join(", ")))
    }

    fn unknown(&self) -> Option<String> {
        let unknown = self.unknown.join(", ");
        (!unknown.is_empty()).then(|| {
            format!("this host has no function {unknown}: it was built against another version of the contract")
        })
    }
}

fn function_difference(types: &Types, name: &str, item: &ComponentEntityType) -> FunctionDifference {
    let interface = InterfaceName::parse(name).interface.rsplit('/').next().unwrap_or_default();
    let (ComponentEntityType::Instance(instance), Some(wanted)) = (item, members::functions_of(interface)) else {
        return FunctionDifference::default();
    };
    let is_function = |item: &ComponentItem| matches!(item.ty, ComponentEntityType::Func(_));
    let exports = types[*instance].exports.iter();
    let found: Vec<&str> = exports.filter(|(_, item)| is_function(item)).map(|(name, _)| name.as_str()).collect();
    let missing = wanted.iter().filter(|name| !found.contains(name)).copied().collect();
    let unknown = found.into_iter().filter(|name| !wanted.contains(name)).map(str::to_owned).collect();
    FunctionDifference { missing, unknown }
}

/// Returns a message for each type of an interface whose members differ from the contract's.
fn type_differences(types: &Types, item: &ComponentEntityType) -> Vec<String> {
    let ComponentEntityType::Instance(instance) = item else { return Vec::new() };
    let exports = types[*instance].exports.iter();
    let difference = |(name, item): (&String, &ComponentItem)| {
        let ComponentEntityType::Type { referenced: ComponentAnyTypeId::Defined(id), .. } = &item.ty else {
            return None;
        };
        let (what, found): (&str, Vec<&str>) = match &types[*id] {
            ComponentDefinedType::Record(record) => {
                ("record", record.fields.keys().map(|name| name.as_str()).collect())
            }
            ComponentDefinedType::Variant(variant) => {
                ("variant", variant.cases.keys().map(|name| name.as_str()).collect())
            }
            ComponentDefinedType::Enum(names) => ("enum", names.iter().map(|name| name.as_str()).collect()),
            _ => return None,
        };
        let wanted = members::of(name)?;
        (found != wanted).then(|| {
            let (found, wanted) = (found.join(", "), wanted.join(", "));
            format!(
                "its {what} {name} has ({found}) where the contract of this host has ({wanted}): \
                 it was built against another version of the contract; build it against {CONTRACT} of this host"
            )
        })
    };
    exports.filter_map(difference).collect()
}

impl Sizes {
    /// Returns a reason for each limit that the initial resources exceed.
    fn exceeded_limits(&self, limits: &Limits) -> Vec<Reason> {
        let Self { memory_bytes, memories, table_elements } = *self;
        let checks = [
            (LimitName::Memory, memory_bytes, limits.memory_bytes_max, "bytes of memory"),
            (LimitName::Memories, memories, limits.memories_max.into(), "memories"),
            (LimitName::Tables, table_elements, limits.table_elements_max, "elements of tables"),
        ];
        let over = checks.into_iter().filter(|(_, needs, most, _)| needs > most);
        over.map(|(limit, needs, most, what)| {
            let message =
                format!("{needs} {what} from its first moment, {most} allowed{}", describe::where_more(limit));
            Reason::Limit { limit, message }
        })
        .collect()
    }
}

#[cfg(test)]
mod tests;
