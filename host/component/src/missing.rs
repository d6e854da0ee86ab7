//! Finds verbs that a component uses without a grant. The host reports all of them when the component is
//! loaded, before the first call is denied.
//!
//! The imports show the used verbs if the toolchain dropped unused functions. Bindings for languages that
//! call by name import the whole interface, used or not; then missing grants show only at the call.
//!
//! Missing grants refuse no component: a manifest may withhold a verb on purpose, and the guest gets an error
//! at the call.

use homeostat_store::Kind;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

use crate::contract::CONTRACT;
use crate::grants::{Grants, Verb, resource_lines};
use crate::interface_name::InterfaceName;

/// The verb that each function of the contract needs, by interface and name.
const FIRST_VERBS: [(&str, &str, Verb); 11] = [
    ("store", "get", Verb::Get),
    ("store", "list", Verb::List),
    ("watches", "follow", Verb::Watch),
    ("watches", "follow-all", Verb::Watch),
    ("store", "create", Verb::Create),
    ("store", "update", Verb::Update),
    ("store", "update-status", Verb::UpdateStatus),
    ("store", "patch", Verb::Patch),
    ("store", "apply", Verb::Apply),
    ("store", "delete", Verb::Delete),
    ("queue", "enqueue", Verb::Enqueue),
];

/// The functions that the interface `store` got after the first hosts: an import of the whole interface may lack
/// them.
const LATER_VERBS: [(&str, &str, Verb); 3] =
    [("store", "get-live", Verb::Get), ("store", "list-live", Verb::List), ("store", "delete-after", Verb::Delete)];

/// Returns the verbs that a component is known to use, in the order of grants.
pub(crate) fn verbs(component: &Component, engine: &wasmtime::Engine) -> Vec<Verb> {
    let component = component.component_type();
    let mut functions = Vec::new();
    for (name, item) in component.imports(engine) {
        let name = InterfaceName::parse(name);
        let interface = name.interface.rsplit('/').next().unwrap_or_default();
        let ComponentItem::ComponentInstance(instance) = item.ty else { continue };
        if name.package() == CONTRACT {
            functions.extend(instance.exports(engine).map(|(function, _)| (interface.to_owned(), function.to_owned())));
        }
    }
    used(&functions)
}

/// Returns the verbs that these functions need; none if the whole interface `store` is imported.
fn used(functions: &[(String, String)]) -> Vec<Verb> {
    let has = |known: &&(&str, &str, Verb)| {
        functions.iter().any(|(interface, function)| (known.0, known.1) == (interface, function))
    };
    if FIRST_VERBS.iter().filter(|known| known.0 == "store").all(|known| has(&known)) {
        return Vec::new();
    }
    let mut verbs: Vec<Verb> = FIRST_VERBS.iter().chain(&LATER_VERBS).filter(has).map(|known| known.2).collect();
    verbs.sort_unstable();
    verbs.dedup();
    verbs
}

/// Describes the `verbs` that no grant has for any kind, with the lines that would grant them for `kind`;
/// `None` if none is missing.
pub(crate) fn missing(verbs: &[Verb], grants: &Grants, kind: &Kind) -> Option<String> {
    let has = |verb: &Verb| {
        grants.resources.iter().any(|grant| grant.verbs.contains(verb) || grant.verbs.contains(&Verb::Any))
    };
    let missing: Vec<&str> = verbs.iter().filter(|verb| !has(verb)).map(|verb| verb.as_str()).collect();
    if missing.is_empty() {
        return None;
    }
    let missing = missing.join(", ");
    Some(format!(
        "no grant for {missing}, which the component uses, of any kind: every such call will be denied; the manifest would grant it for its own kind with\n{}",
        resource_lines(kind, &missing, "*")
    ))
}

#[cfg(test)]
mod tests;
