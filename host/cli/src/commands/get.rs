//! `homeostat get`: shows resources, once or as they change.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use super::resource_args::{self, ResourceArg};
use crate::client::{ApiResource, Client, Kinds, ResourceFormat, with_query};
use crate::exit;
use crate::failure::ApiError;
use crate::global::{Format, Global};
use crate::{document, output};
use rows::{Column, Layout, Rows};

mod rows;

const FORMATS: [Format; 5] = [Format::Table, Format::Wide, Format::Json, Format::Yaml, Format::Name];

/// The pause before a closed watch is reopened.
const PAUSE: Duration = Duration::from_millis(200);

/// Show resources
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// KIND, KIND NAME… or KIND/NAME…; several kinds as KIND,KIND
    #[arg(required = true, value_name = "RESOURCE")]
    resources: Vec<String>,
    /// All namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Only resources with these labels: a=b,c!=d,e in (f,g),!h
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// Only resources with these fields: metadata.name=web,status.phase=Running
    #[arg(long, value_name = "FIELDS")]
    field_selector: Option<String>,
    /// Keep running and show every change
    #[arg(short = 'w', long)]
    watch: bool,
}

/// Runs `homeostat get`.
///
/// # Errors
/// When a kind is unknown, a resource does not exist, or the host cannot answer.
pub(crate) async fn run(args: Args, global: &Global) -> anyhow::Result<ExitCode> {
    let format = global.format(&FORMATS)?;
    let named = resource_args::parse(&args.resources)?;
    let client = Client::new(global)?;
    let kinds = Kinds::fetch(&client).await?;
    let get = Get { client: &client, args: &args, global, format };
    if args.watch {
        let [ResourceArg { kind, names }] = &named[..] else {
            return Err(exit::usage("only one kind can be watched at a time"));
        };
        return get.watch(kinds.find(kind)?, names).await;
    }
    let mut found = Vec::new();
    for ResourceArg { kind, names } in &named {
        found.push(get.fetch(kinds.find(kind)?, names).await?);
    }
    get.print(&found, named.len() == 1)
}

struct Get<'a> {
    client: &'a Client,
    args: &'a Args,
    global: &'a Global,
    format: Format,
}

/// The fetched resources of one kind.
struct ResourceList<'k> {
    known: &'k ApiResource,
    /// The columns of a table; empty for other formats.
    columns: Vec<Column>,
    /// The rows of a table, or the documents for other formats.
    items: Vec<Value>,
    /// The revision from which a watch continues.
    revision: String,
    /// The resources were selected by name.
    is_named: bool,
    /// The errors of names that were not found.
    missing: Vec<anyhow::Error>,
}

impl Get<'_> {
    fn namespace(&self) -> Option<&str> {
        if self.args.all_namespaces { None } else { Some(self.global.namespace()) }
    }

    /// Returns the format of the resources that the host sends.
    fn resource_format(&self) -> ResourceFormat {
        match self.format {
            Format::Table | Format::Wide => ResourceFormat::Table,
            Format::Json | Format::Yaml | Format::Name => ResourceFormat::Documents,
        }
    }

    fn list_path(&self, known: &ApiResource, name: Option<&str>, more: &[(&str, Option<&str>)]) -> String {
        let by_name = name.map(|name| format!("metadata.name={name}"));
        let fields: Vec<&str> =
            [self.args.field_selector.as_deref(), by_name.as_deref()].into_iter().flatten().collect();
        let fields = Some(fields.join(",")).filter(|fields| !fields.is_empty());
        let mut pairs = vec![("labelSelector", self.args.selector.as_deref()), ("fieldSelector", fields.as_deref())];
        pairs.extend_from_slice(more);
        with_query(&known.path(self.namespace()), &pairs)
    }

    async fn fetch<'k>(&self, known: &'k ApiResource, names: &[String]) -> anyhow::Result<ResourceList<'k>> {
        if known.keys_only {
            let message =
                format!("resources of kind {} are not stored: `homeostat queue` shows its keys", known.name());
            return Err(exit::failed(message));
        }
        let mut found = ResourceList {
            known,
            columns: Vec::new(),
            items: Vec::new(),
            revision: String::new(),
            is_named: !names.is_empty(),
            missing: Vec::new(),
        };
        if names.is_empty() {
            let list = self.client.get_as(self.resource_format(), &self.list_path(known, None, &[])).await?;
            self.add_list(&mut found, list)?;
            return Ok(found);
        }
        if self.args.all_namespaces && known.namespaced {
            return Err(exit::usage("a name selects a resource of one namespace: omit --all-namespaces"));
        }
        for name in names {
            let path = known.path_of(self.global.namespace(), name);
            match self.client.get_as(self.resource_format(), &path).await {
                // One resource is a table with one row.
                Ok(table) if self.resource_format() == ResourceFormat::Table => self.add_list(&mut found, table)?,
                Ok(item) => {
                    document::text(&item, "/metadata/resourceVersion").clone_into(&mut found.revision);
                    found.items.push(item);
                }
                Err(error) if error.downcast_ref::<ApiError>().is_some_and(|refusal| refusal.code == 404) => {
                    found.missing.push(error)
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Adds the items of a list, or the columns and the rows of a table.
    fn add_list(&self, found: &mut ResourceList<'_>, mut list: Value) -> anyhow::Result<()> {
        document::text(&list, "/metadata/resourceVersion").clone_into(&mut found.revision);
        let member = match self.resource_format() {
            ResourceFormat::Documents => "items",
            ResourceFormat::Table => {
                found.columns = rows::columns(&list)?.unwrap_or_default();
                "rows"
            }
        };
        if let Value::Array(items) = list[member].take() {
            found.items.extend(items);
        }
        Ok(())
    }

    fn print(&self, found: &[ResourceList<'_>], is_one_kind: bool) -> anyhow::Result<ExitCode> {
        match self.format {
            Format::Table | Format::Wide => self.print_tables(found, is_one_kind)?,
            Format::Json | Format::Yaml => {
                let items: Vec<&Value> = found.iter().flat_map(|found| &found.items).collect();
                match &items[..] {
                    [] if found.iter().any(|found| found.is_named) => {}
                    [item] if found.iter().all(|found| found.is_named) => self.print_document(item)?,
                    items => self.print_document(
                        &json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": items }),
                    )?,
                }
            }
            Format::Name => {
                for found in found {
                    output::print(&found.items.iter().map(|item| name_line(found.known, item)).collect::<String>())?;
                }
            }
        }
        let mut code = ExitCode::SUCCESS;
        for missing in found.iter().flat_map(|found| &found.missing) {
            code = exit::report(missing);
        }
        Ok(code)
    }

    fn print_document(&self, document: &Value) -> anyhow::Result<()> {
        output::print(&if self.format == Format::Yaml { output::yaml(document)? } else { output::json(document) })
    }

    fn print_tables(&self, found: &[ResourceList<'_>], is_one_kind: bool) -> anyhow::Result<()> {
        let mut is_first = true;
        for found in found.iter().filter(|found| !found.items.is_empty()) {
            let mut rows = Rows::new(self.layout(found.known, is_one_kind), found.columns.clone());
            found.items.iter().for_each(|item| rows.add(item));
            let gap = if is_first { "" } else { "\n" };
            output::print(&format!("{gap}{}", rows.take()))?;
            is_first = false;
        }
        if is_first && found.iter().all(|found| found.missing.is_empty()) {
            let is_inside = found.iter().any(|found| found.known.namespaced);
            let place = self.namespace().filter(|_| is_inside).map(|namespace| format!(" in {namespace} namespace"));
            output::eprint(&format!("No resources found{}.", place.unwrap_or_default()));
        }
        Ok(())
    }

    /// Names have their kind unless only one kind was requested.
    fn layout<'k>(&self, known: &'k ApiResource, is_one_kind: bool) -> Layout<'k> {
        Layout {
            is_wide: self.format == Format::Wide,
            has_namespace: self.args.all_namespaces && known.namespaced,
            kind: (!is_one_kind).then_some(known),
        }
    }

    /// Shows the current resources, then every change, until the host becomes unreachable.
    async fn watch(&self, known: &ApiResource, names: &[String]) -> anyhow::Result<ExitCode> {
        let name = match names {
            [] => None,
            [name] => Some(name.as_str()),
            _ => return Err(exit::usage("only one name can be watched at a time")),
        };
        let mut found = self.fetch(known, names).await?;
        if let Some(missing) = found.missing.pop() {
            return Err(missing);
        }
        let mut rows = Rows::new(self.layout(known, true), std::mem::take(&mut found.columns));
        self.show(known, &mut rows, &found.items)?;
        loop {
            let again = self.stream_changes(known, name, &mut found.revision, &mut rows).await?;
            if again {
                // The history was compacted: the current list replaces the missed changes.
                let list = self.client.get_as(self.resource_format(), &self.list_path(known, name, &[])).await?;
                found.items.clear();
                self.add_list(&mut found, list)?;
                self.show(known, &mut rows, &found.items)?;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Shows changes until the host closes the watch. Returns whether to list again before the next watch.
    async fn stream_changes(
        &self,
        known: &ApiResource,
        name: Option<&str>,
        revision: &mut String,
        rows: &mut Rows<'_>,
    ) -> anyhow::Result<bool> {
        let path = self.list_path(known, name, &[("watch", Some("1")), ("resourceVersion", Some(revision))]);
        let mut lines = match self.client.lines_as(self.resource_format(), &path).await {
            Ok(lines) => lines,
            Err(error) if error.downcast_ref::<ApiError>().is_some_and(|refusal| refusal.code == 410) => {
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        while let Some(event) = lines.next().await? {
            let object = &event["object"];
            if event["type"] == "ERROR" {
                let text = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
                let code = object["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(500);
                return if code == 410 {
                    Ok(true)
                } else {
                    Err(ApiError { code, reason: text("reason"), message: text("message") }.into())
                };
            }
            document::text(object, "/metadata/resourceVersion").clone_into(revision);
            if event["type"] == "BOOKMARK" {
                continue;
            }
            let items = match self.resource_format() {
                ResourceFormat::Documents => std::slice::from_ref(object),
                ResourceFormat::Table => object["rows"].as_array().map(Vec::as_slice).unwrap_or_default(),
            };
            self.show(known, rows, items)?;
        }
        Ok(false)
    }

    /// Prints items at once, in the chosen format.
    fn show(&self, known: &ApiResource, rows: &mut Rows<'_>, items: &[Value]) -> anyhow::Result<()> {
        match self.format {
            Format::Table | Format::Wide if items.is_empty() => Ok(()),
            Format::Table | Format::Wide => {
                items.iter().for_each(|item| rows.add(item));
                output::print(&rows.take())
            }
            Format::Json => items.iter().try_for_each(|item| output::print(&output::json(item))),
            Format::Yaml => items.iter().try_for_each(|item| output::print(&format!("---\n{}", output::yaml(item)?))),
            Format::Name => items.iter().try_for_each(|item| output::print(&name_line(known, item))),
        }
    }
}

/// Returns the text of a table of the host, with plain names.
///
/// # Errors
/// When the answer is no table.
pub(super) fn table_text(table: &Value, is_wide: bool) -> anyhow::Result<String> {
    let columns = rows::columns(table)?.unwrap_or_default();
    let mut rows = Rows::new(Layout { is_wide, has_namespace: false, kind: None }, columns);
    table["rows"].as_array().into_iter().flatten().for_each(|row| rows.add(row));
    Ok(rows.take())
}

fn name_line(known: &ApiResource, item: &Value) -> String {
    format!("{}\n", known.qualified_name(document::text(item, "/metadata/name")))
}
