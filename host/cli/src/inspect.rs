//! `homeostat inspect`: shows what a component is, where it comes from and which grants it needs, without
//! running a controller.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use homeostat_component::{
    Component, ControllerSpec, Cost, Engine, EngineOptions, Exports, Grants, HttpGrant, KindDeclaration, Limits,
    ResourceGrant, ResourceNeed, Role, TierPolicy, Verb,
};
use homeostat_registry::{Origin, key_ids};
use serde_json::{Value, json};

use crate::compile::{self, CompileLimits};
use crate::exit;
use crate::global::{Format, Global};
use crate::layout;
use crate::output;
use crate::registry;

mod measured_calls;

use measured_calls::MeasuredCalls;

/// Show what a component is, what it does, and which grants it needs
///
/// A component that a host would refuse is refused here too, with every reason and exit code 3.
///
/// It calls the component twice: to describe itself, and to reconcile a resource that does not exist, in a
/// world without content. Each call may use up to 1 GiB of memory here; on a host, the manifest sets the limit.
/// The limits that it suggests have room for ten times the processor time and twice the memory of these calls.
#[derive(Args, Clone, Debug)]
pub(crate) struct InspectArgs {
    /// The component: a file, or a reference to a registry
    #[arg(value_name = "FILE.wasm|REFERENCE")]
    component: String,
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    compile: CompileLimits,
}

/// The settings with which a component describes itself.
#[derive(Args, Clone, Debug)]
pub(crate) struct SettingsArgs {
    /// A setting of the controller, as in spec.config of its manifest; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    config: Vec<(String, String)>,
}

impl SettingsArgs {
    /// Returns the settings. Of two values for one name the last one counts.
    pub(crate) fn config(&self) -> BTreeMap<String, String> {
        self.config.iter().cloned().collect()
    }
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Runs `homeostat inspect`.
///
/// # Errors
/// When the file cannot be read, or the component is refused.
pub(crate) async fn run(args: &InspectArgs, global: &Global) -> Result<ExitCode> {
    let format = global.format(&[Format::Table, Format::Json, Format::Yaml])?;
    let (name, bytes) = registry::component(&args.component).await?;
    let component = load_bytes(&name, bytes.clone(), args.compile, &args.settings.config()).await?;
    let calls = MeasuredCalls::of(&component).await;
    let inspection = inspection(&name, &bytes, &component, &calls)?;
    match format {
        Format::Json => output::print(&output::json(&inspection))?,
        Format::Yaml => output::print(&output::yaml(&inspection)?)?,
        _ => output::print(&text(&inspection)?)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Loads a component with these settings from a file or a registry, for commands that need no host.
///
/// # Errors
/// When it cannot be read, or a host would refuse it.
pub(crate) async fn load(
    component: &str,
    limits: CompileLimits,
    config: &BTreeMap<String, String>,
) -> Result<Component> {
    let (name, bytes) = registry::component(component).await?;
    load_bytes(&name, bytes, limits, config).await
}

async fn load_bytes(
    name: &str,
    bytes: Vec<u8>,
    limits: CompileLimits,
    config: &BTreeMap<String, String>,
) -> Result<Component> {
    let engine = Engine::new(EngineOptions {
        instances_max: 1,
        tiers: TierPolicy::Baseline,
        ..compile::engine_options(compile::user_cache(layout::COMPILED), limits)?
    })
    .context("cannot start the WebAssembly engine")?;
    let loaded = engine.load_within(bytes, None, &ample(), config).await;
    loaded.map_err(|refused| exit::refused(format!("{name}: {refused}")))
}

/// Returns the limits on describing a component without a manifest. They exceed what the runtime of any guest
/// language needs to start.
pub(crate) fn ample() -> Limits {
    Limits {
        cpu: Duration::from_secs(10),
        memory_bytes_max: 1 << 30,
        memories_max: 100,
        table_elements_max: 10_000_000,
        ..Limits::default()
    }
}

fn inspection(file: &str, bytes: &[u8], component: &Component, calls: &MeasuredCalls) -> Result<Value> {
    let facts = component.info();
    let Cost { memory_bytes_max, pages_grown, .. } = calls.describe;
    let Origin { producers, dependencies, imports: _, exports: _ } = Origin::of(bytes)?;
    Ok(json!({
        "apiVersion": "homeostat.dev/v1alpha1",
        "kind": "Inspection",
        "file": file,
        "digest": facts.digest,
        "sizeBytes": facts.size_bytes,
        "signatures": key_ids(bytes)?,
        "producers": producers,
        "dependencies": serde_json::to_value(dependencies).context("the dependencies cannot be shown")?,
        "optionalExports": optional_exports(component.exports()),
        "pooled": facts.pooled,
        "unpooled": facts.unpooled,
        "memory": {"bytesMax": memory_bytes_max, "pagesGrown": pages_grown},
        "calls": calls.facts(),
        "exports": facts.exports,
        "imports": facts.imports,
        "describe": serde_json::to_value(component.describe()).context("the description cannot be shown")?,
        "watched": serde_json::to_value(watched(component)).context("the watches cannot be shown")?,
        "grants": serde_json::to_value(needed(component)).context("the grants cannot be shown")?,
        "limits": calls.suggested_limits(),
    }))
}

/// Returns the exported interfaces other than `reconciler`, which every component exports.
fn optional_exports(exports: Exports) -> Vec<&'static str> {
    let Exports { mapper, poller, lifecycle, converter } = exports;
    let all = [("mapper", mapper), ("poller", poller), ("lifecycle", lifecycle), ("converter", converter)];
    all.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name).collect()
}

/// Returns the required grants: those for the component's watches.
fn watched(component: &Component) -> Grants {
    let lines = Grants::everything().watch_needs(component.describe()).into_iter();
    let all = || vec!["*".to_owned()];
    let line = |need: ResourceNeed| ResourceGrant {
        kinds: vec![need.kind],
        verbs: vec![need.verb],
        namespaces: all(),
        names: all(),
    };
    Grants { resources: lines.map(line).collect(), ..Grants::default() }
}

/// Returns suggested grants, from the description and the imports. The author of a manifest narrows them.
fn needed(component: &Component) -> Grants {
    let ControllerSpec { manages, watches, .. } = component.describe();
    let imports = |prefix: &str| component.imports().iter().any(|import| import.starts_with(prefix));
    let mut resources = Vec::new();
    let mut own = match manages.keys_only {
        true => Vec::new(),
        false => vec![Verb::Get, Verb::List, Verb::Watch, Verb::UpdateStatus],
    };
    if imports("homeostat:reconciler/queue@") {
        own.push(Verb::Enqueue);
    }
    if !own.is_empty() {
        resources.push(grant(manages, &own));
    }
    for watch in watches.iter().filter(|watch| !watch.of.keys_only) {
        let read = [Verb::Get, Verb::List, Verb::Watch];
        let written = [Verb::Get, Verb::List, Verb::Watch, Verb::Apply, Verb::Delete];
        resources.push(grant(&watch.of, if watch.role == Role::Secondary { &written } else { &read }));
    }
    let sends = imports("wasi:http/");
    let http = HttpGrant {
        urls: vec!["https://HOST/*".to_owned()],
        methods: vec!["GET".to_owned()],
        addresses: Vec::new(),
        headers: Default::default(),
    };
    Grants { resources, http: if sends { vec![http] } else { Vec::new() }, ..Grants::default() }
}

fn grant(declared: &KindDeclaration, verbs: &[Verb]) -> ResourceGrant {
    let (group, name) = (&declared.kind.group, &declared.kind.name);
    let all = || vec!["*".to_owned()];
    ResourceGrant {
        kinds: vec![if group.is_empty() { name.clone() } else { format!("{group}/{name}") }],
        verbs: verbs.to_vec(),
        namespaces: all(),
        names: all(),
    }
}

/// Returns a line for each field of the component's producers.
fn producers(fields: &Value) -> Vec<String> {
    let fields = fields.as_object().into_iter().flatten();
    let tools = |tools: &Value| {
        let tools = tools.as_object().into_iter().flatten();
        let tools = tools.map(|(name, version)| format!("{name} {}", version.as_str().unwrap_or_default()));
        tools.map(|tool| tool.trim_end().to_owned()).collect::<Vec<_>>().join(", ")
    };
    fields.map(|(field, of_field)| output::plain(&format!("{field}: {}", tools(of_field)))).collect()
}

/// Returns a line for each package in the component.
fn packages(dependencies: &Value) -> Vec<String> {
    let word = |package: &Value, name: &str| package[name].as_str().unwrap_or_default().to_owned();
    let line = |package: &Value| {
        format!("{} {} ({})", word(package, "name"), word(package, "version"), word(package, "source"))
    };
    dependencies.as_array().into_iter().flatten().map(|package| output::plain(&line(package))).collect()
}

/// Formats an inspection for people.
fn text(inspection: &Value) -> Result<String> {
    let list = |name: &str, between: &str| {
        let names: Vec<&str> = inspection[name].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(between) }
    };
    let below = "\n           ";
    let lines = |lines: Vec<String>| if lines.is_empty() { "none".to_owned() } else { lines.join(below) };
    let word = |name: &str| inspection[name].as_str().unwrap_or_default();
    let grown = match &inspection["memory"]["pagesGrown"] {
        pages if pages == 0 => "not grown by describe".to_owned(),
        pages => format!("of which describe grew {pages} pages; each call of the system for it slows all calls"),
    };
    let instances = match inspection["unpooled"].as_str() {
        None => "pooled".to_owned(),
        Some(bound) => format!("on demand, which starts slower: {bound}"),
    };
    let mut text = format!(
        "File:      {}\nDigest:    {}\nSize:      {} bytes\nSigned by: {}\nProducers: {}\nPackages:  {}\nOptional:  {}\nInstances: {instances}\nMemory:    {} KiB, {grown}\nCalls:     {}\nExports:   {}\nImports:   {}\n",
        word("file"),
        word("digest"),
        inspection["sizeBytes"],
        list("signatures", below),
        lines(producers(&inspection["producers"])),
        lines(packages(&inspection["dependencies"])),
        list("optionalExports", ", "),
        inspection["memory"]["bytesMax"].as_u64().unwrap_or(0) >> 10,
        lines(measured_calls::lines(&inspection["calls"])),
        list("exports", below),
        list("imports", below),
    );
    let parts = [
        ("Describe", "describe"),
        ("Grants for its watches; required, but may be limited to some namespaces and names", "watched"),
        ("Suggested grants for a manifest", "grants"),
        ("Suggested limits for a manifest; the other defaults are enough for the measured calls", "limits"),
    ];
    for (title, name) in parts {
        text.push_str(&format!("\n{title}:\n"));
        for line in output::yaml(&inspection[name])?.lines() {
            text.push_str(&format!("  {line}\n"));
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
