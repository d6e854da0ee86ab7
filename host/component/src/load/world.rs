//! Imports and exports: what a component needs and has, against what the host offers and wants.

use wasmtime::component::Component;

use super::Reason;
use super::names::Name;
use crate::grants::Grants;
use crate::imports::OFFERED;

pub(super) const RECONCILER: &str = "homeostat:reconciler/reconciler@0.1.0";
pub(super) const MAPPER: &str = "homeostat:reconciler/mapper@0.1.0";
pub(super) const POLLER: &str = "homeostat:reconciler/poller@0.1.0";
pub(super) const LIFECYCLE: &str = "homeostat:reconciler/lifecycle@0.1.0";

pub(super) const CONTRACT: &str = "homeostat:reconciler";

/// The names of everything that a component imports and exports, each list sorted.
pub(super) struct Names {
    pub(super) imports: Vec<String>,
    pub(super) exports: Vec<String>,
}

impl Names {
    pub(super) fn of(component: &Component, engine: &wasmtime::Engine) -> Self {
        let component = component.component_type();
        let mut imports: Vec<String> = component.imports(engine).map(|(name, _)| name.to_owned()).collect();
        let mut exports: Vec<String> = component.exports(engine).map(|(name, _)| name.to_owned()).collect();
        imports.sort_unstable();
        exports.sort_unstable();
        Self { imports, exports }
    }

    pub(super) fn exports_interface(&self, interface: &str) -> bool {
        let wanted = Name::parse(interface);
        self.exports.iter().any(|name| Name::parse(name).is_compatible(wanted))
    }
}

/// Returns every reason to refuse that the names alone give.
pub(super) fn check(names: &Names, grants: &Grants) -> Vec<Reason> {
    let exports = check_exports(names);
    let unknown = names.imports.iter().filter_map(|name| check_import(name));
    exports.into_iter().chain(unknown).chain(check_grants(names, grants)).collect()
}

fn check_exports(names: &Names) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = Vec::new();
    for found in &names.exports {
        let name = Name::parse(found);
        let known = [RECONCILER, MAPPER, POLLER, LIFECYCLE]
            .map(Name::parse)
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
    let name = Name::parse(import);
    let offered = OFFERED.into_iter().any(|offered| Name::parse(offered).is_compatible(name));
    (!offered).then(|| Reason::UnknownImport { name: import.to_owned(), reason: why_not(name) })
}

/// Returns a reason for each package that needs a grant and has none; one grant is enough for a package.
fn check_grants(names: &Names, grants: &Grants) -> Option<Reason> {
    if !grants.http.is_empty() {
        return None;
    }
    let needy = names.imports.iter().find(|name| Name::parse(name).package() == "wasi:http")?;
    let grant = "grants:\n  http:\n    - {urls: [\"https://HOST/*\"], methods: [GET]}".to_owned();
    Some(Reason::ImportWithoutGrant { name: needy.clone(), grant })
}

/// Says why an import is not offered, and what to do instead.
fn why_not(name: Name<'_>) -> String {
    let same = OFFERED.into_iter().map(Name::parse).find(|offered| offered.interface == name.interface);
    if let Some(offered) = same {
        return format!("this host offers version {} of it", offered.version);
    }
    match name.package() {
        "wasi:filesystem" => "a controller has no files; read settings through wasi:config/store".to_owned(),
        "wasi:sockets" => {
            "a controller has no sockets; send HTTP requests through wasi:http/outgoing-handler".to_owned()
        }
        "wasi:http" => "a controller answers no requests; it sends them through wasi:http/outgoing-handler".to_owned(),
        CONTRACT => "this contract has no such interface".to_owned(),
        package if OFFERED.into_iter().any(|offered| Name::parse(offered).package() == package) => {
            "only a part of this package is offered".to_owned()
        }
        _ => "nothing of this package is".to_owned(),
    }
}

#[cfg(test)]
mod tests;
