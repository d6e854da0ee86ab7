//! Which verbs a component uses and no grant has: told when it is loaded, all at once, and before the first call is denied.
//!
//! What a component uses is known by its imports where whatever built it left out those that the code never calls. Bindings that are
//! generated for a language which calls by name import the whole interface instead, whatever is called: then nothing is told before the call.
//!
//! A component is not refused for them: a person may withhold what the code would like to do, and the guest is told at the call.

use homeostat_store::Kind;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

use crate::contract::CONTRACT;
use crate::grants::{Grants, Verb, resource_lines};
use crate::names::InterfaceName;

/// What each function of the contract needs a verb for, by its interface and name.
const VERBS: [(&str, &str, Verb); 10] = [
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
];

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

/// Returns the verbs that these functions need, by interface and name; none when the whole interface `store` is there.
fn used(functions: &[(String, String)]) -> Vec<Verb> {
    let has = |known: &&(&str, &str, Verb)| {
        functions.iter().any(|(interface, function)| (known.0, known.1) == (interface, function))
    };
    if VERBS.iter().filter(|known| known.0 == "store").all(|known| has(&known)) {
        return Vec::new();
    }
    let mut verbs: Vec<Verb> = VERBS.iter().filter(has).map(|known| known.2).collect();
    verbs.sort_unstable();
    verbs.dedup();
    verbs
}

/// Says which of `verbs` no grant has for any kind, ending with the lines that would grant them for `kind`; `None` when none is missing.
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
