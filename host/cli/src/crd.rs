//! `homeostat crd`: prints the `CustomResourceDefinition` of the kind that a component manages.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use homeostat_component::KindDeclaration;
use homeostat_store::definition::{Definition, PRESENTATION};
use serde_json::{Value, json};

use crate::compile::CompileLimits;
use crate::exit;
use crate::global::{Format, Global};
use crate::inspect::{self, SettingsArgs};
use crate::output;

/// Print the CustomResourceDefinition of the kind that a component manages
///
/// The schema, the short names and the columns are those of the component's description. A component without a
/// schema gets one that keeps every field.
#[derive(Args, Clone, Debug)]
pub(crate) struct CrdArgs {
    /// The component: a file, or a reference to a registry
    #[arg(value_name = "FILE.wasm|REFERENCE")]
    component: String,
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    compile: CompileLimits,
}

/// Runs `homeostat crd`.
///
/// # Errors
/// When the component cannot be loaded, or its kind has no definition.
pub(crate) async fn run(args: &CrdArgs, global: &Global) -> Result<ExitCode> {
    let format = global.format(&[Format::Yaml, Format::Json])?;
    let component = inspect::load(&args.component, args.compile, &args.settings.config()).await?;
    let definition = definition(&component.describe().manages)?;
    output::print(&match format {
        Format::Json => output::json(&definition),
        _ => output::yaml(&definition)?,
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the definition of a declared kind, as a document that a server accepts.
fn definition(declared: &KindDeclaration) -> Result<Value> {
    let KindDeclaration { kind, plural, namespaced, keys_only, schema } = declared;
    if *keys_only || kind.group.is_empty() {
        let reason = if *keys_only { "its resources are not stored" } else { "the core group has no definitions" };
        return Err(exit::refused(format!("the kind {kind} has no CustomResourceDefinition: {reason}")));
    }
    let mut schema = schema.clone().unwrap_or_else(|| {
        let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({"type": "object", "properties": {"spec": anything, "status": anything}, "x-kubernetes-preserve-unknown-fields": true})
    });
    let stated = schema.as_object_mut().and_then(|schema| schema.remove(PRESENTATION)).unwrap_or_default();
    let mut names = json!({"kind": kind.name, "plural": plural, "singular": kind.name.to_lowercase()});
    for name in ["singular", "shortNames", "categories"] {
        if let Some(stated) = stated.pointer(&format!("/names/{name}")) {
            names[name] = stated.clone();
        }
    }
    let mut definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{}", kind.group)},
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": if *namespaced { "Namespaced" } else { "Cluster" },
            "versions": [{
                "name": kind.version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
            }],
        },
    });
    if let Some(columns) = stated.get("additionalPrinterColumns") {
        definition["spec"]["versions"][0]["additionalPrinterColumns"] = columns.clone();
    }
    Definition::parse(&definition).map_err(|error| exit::refused(format!("the kind {kind}: {error}")))?;
    Ok(definition)
}

#[cfg(test)]
mod tests;
