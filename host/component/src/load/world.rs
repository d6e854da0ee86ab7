//! Checks a component's imports and exports against those of the contract.
//!
//! Missing grants refuse no component, because language bindings import functions that the component never
//! calls. Each call is checked instead.

use wasmtime::component::Component;

use crate::contract::{CONTRACT, LIFECYCLE, MAPPER, POLLER, RECONCILER};
use crate::imports::OFFERED;
use crate::interface_name::InterfaceName;
use crate::load_error::Reason;

/// The names of all imports and exports of a component, each list sorted.
pub(super) struct InterfaceNames {
    pub(super) imports: Vec<String>,
    pub(super) exports: Vec<String>,
}

impl InterfaceNames {
    pub(super) fn of(component: &Component, engine: &wasmtime::Engine) -> Self {
        let component = component.component_type();
        let mut imports: Vec<String> = component.imports(engine).map(|(name, _)| name.to_owned()).collect();
        let mut exports: Vec<String> = component.exports(engine).map(|(name, _)| name.to_owned()).collect();
        imports.sort_unstable();
        exports.sort_unstable();
        Self { imports, exports }
    }

    pub(super) fn exports_interface(&self, interface: &str) -> bool {
        let wanted = InterfaceName::parse(interface);
        self.exports.iter().any(|name| InterfaceName::parse(name).is_compatible(wanted))
    }
}

/// Returns all reasons to refuse that the names alone give.
pub(super) fn check(names: &InterfaceNames) -> Vec<Reason> {
    let exports = check_exports(names);
    let unknown = names.imports.iter().filter_map(|name| check_import(name));
    exports.into_iter().chain(unknown).collect()
}

/// Returns whether this host supports an interface of the contract, in a compatible version.
pub(super) fn is_known(name: InterfaceName<'_>) -> bool {
    let exported = [RECONCILER, MAPPER, POLLER, LIFECYCLE];
    exported.into_iter().chain(OFFERED).any(|known| InterfaceName::parse(known).is_compatible(name))
}

fn check_exports(names: &InterfaceNames) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = Vec::new();
    for found in &names.exports {
        let name = InterfaceName::parse(found);
        let known = [RECONCILER, MAPPER, POLLER, LIFECYCLE]
            .map(InterfaceName::parse)
            .into_iter()
            .find(|known| known.interface == name.interface && !known.is_compatible(name));
        if let Some(known) = known {
            let known = format!("{}@{}", known.interface, known.version);
            reasons.push(Reason::ExportVersion { found: found.clone(), known });
        }
    }
    let said =
        reasons.iter().any(|reason| matches!(reason, Reason::ExportVersion { known, .. } if known == RECONCILER));
    if !said && !names.exports_interface(RECONCILER) {
        reasons.push(Reason::MissingExport { name: RECONCILER.to_owned() });
    }
    reasons
}

fn check_import(import: &str) -> Option<Reason> {
    let name = InterfaceName::parse(import);
    let offered = OFFERED.into_iter().any(|offered| InterfaceName::parse(offered).is_compatible(name));
    (!offered).then(|| Reason::UnknownImport { name: import.to_owned(), reason: why_not(name) })
}

/// Returns the reason why an import is not offered, and a remedy.
fn why_not(name: InterfaceName<'_>) -> String {
    let same = OFFERED.into_iter().map(InterfaceName::parse).find(|offered| offered.interface == name.interface);
    if let Some(offered) = same {
        return format!("this host offers version {} of it", offered.version);
    }
    match name.package() {
        "wasi:http" => "a controller serves no requests; it sends them through wasi:http/outgoing-handler".to_owned(),
        CONTRACT => "this contract has no such interface".to_owned(),
        package if OFFERED.into_iter().any(|offered| InterfaceName::parse(offered).package() == package) => {
            "only a part of this package is offered".to_owned()
        }
        _ => "this host offers nothing of this package".to_owned(),
    }
}

#[cfg(test)]
mod tests;
