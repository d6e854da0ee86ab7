//! The attributes `#[resource(...)]` as they are written, with every check that needs no other type.

use syn::meta::ParseNestedMeta;
use syn::{DeriveInput, Error, LitInt, LitStr, Path, Result};

use crate::names;

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];

/// A kind as its attributes state it.
pub(crate) struct Attributes {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    pub(crate) keys_only: bool,
    pub(crate) field: String,
    /// `None` for a kind without a status.
    pub(crate) status: Option<Path>,
    pub(crate) columns: Vec<Column>,
    pub(crate) has_schema: bool,
}

/// One `printcolumn(...)`.
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) column_type: String,
    pub(crate) json_path: String,
    pub(crate) description: String,
    pub(crate) priority: i32,
}

/// The attributes before defaults are filled in.
#[derive(Default)]
struct AttributeValues {
    group: Option<LitStr>,
    version: Option<LitStr>,
    kind: Option<LitStr>,
    plural: Option<LitStr>,
    singular: Option<LitStr>,
    short_names: Vec<String>,
    categories: Vec<String>,
    namespaced: Option<bool>,
    keys_only: bool,
    field: Option<LitStr>,
    status: Option<Path>,
    columns: Vec<Column>,
    has_schema: Option<bool>,
}

impl Attributes {
    /// Reads the attributes of a type.
    ///
    /// # Errors
    /// At the place of the attribute that is missing, unknown, repeated or malformed.
    pub(crate) fn of(input: &DeriveInput) -> Result<Self> {
        let mut written = AttributeValues::default();
        for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("resource")) {
            attribute.parse_nested_meta(|meta| written.read(&meta))?;
        }
        written.checked(input)
    }
}

impl AttributeValues {
    fn read(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        match name.as_str() {
            "group" => once(meta, &mut self.group, text(meta)?),
            "version" => once(meta, &mut self.version, text(meta)?),
            "kind" => once(meta, &mut self.kind, text(meta)?),
            "plural" => once(meta, &mut self.plural, text(meta)?),
            "singular" => once(meta, &mut self.singular, text(meta)?),
            "field" => once(meta, &mut self.field, text(meta)?),
            "shortname" => {
                self.short_names.push(label(&text(meta)?)?);
                Ok(())
            }
            "category" => {
                self.categories.push(label(&text(meta)?)?);
                Ok(())
            }
            "namespaced" => once(meta, &mut self.namespaced, true),
            "scope" => {
                let scope = choice(&text(meta)?, &["Cluster", "Namespaced"])?;
                once(meta, &mut self.namespaced, scope == "Namespaced")
            }
            "keys_only" => {
                self.keys_only = true;
                Ok(())
            }
            "status" => once(meta, &mut self.status, path(meta)?),
            "schema" => {
                let schema = choice(&text(meta)?, &["derived", "disabled"])?;
                once(meta, &mut self.has_schema, schema == "derived")
            }
            "printcolumn" => {
                self.columns.push(column(meta)?);
                Ok(())
            }
            _ => Err(meta.error(
                "unknown attribute: use group, version, kind, plural, singular, shortname, category, namespaced, scope, \
                 status, printcolumn, schema, keys_only or field",
            )),
        }
    }

    fn checked(self, input: &DeriveInput) -> Result<Attributes> {
        let Self {
            group,
            version,
            kind,
            plural,
            singular,
            short_names,
            categories,
            namespaced,
            keys_only,
            field,
            status,
            columns,
            has_schema,
        } = self;
        let missing = |name: &str, example: &str| {
            Error::new(input.ident.span(), format!("#[resource({name} = \"{example}\")] is missing"))
        };
        let group = group.ok_or_else(|| missing("group", "demo.example.dev"))?;
        let version = version.ok_or_else(|| missing("version", "v1"))?;
        check(&group, "a group like demo.example.dev, in lower case", names::is_group)?;
        check(&version, "a version like v1", names::is_label)?;
        if let Some(kind) = &kind {
            check(kind, "a kind like Greeting, in CamelCase", names::is_kind)?;
        }
        let kind_span = kind.as_ref().map_or_else(|| input.ident.span(), LitStr::span);
        let kind = kind.map_or_else(|| input.ident.to_string(), |kind| kind.value());
        if !names::is_kind(&kind) {
            return Err(Error::new(
                kind_span,
                format!("{kind:?} is no kind in CamelCase: set #[resource(kind = \"...\")]"),
            ));
        }
        let lower = kind.to_lowercase();
        let plural = plural.map(|plural| label(&plural)).transpose()?.unwrap_or_else(|| names::plural(&lower));
        let singular = singular.map(|singular| label(&singular)).transpose()?.unwrap_or_default();
        if let (true, Some(true)) = (keys_only, has_schema) {
            return Err(Error::new(input.ident.span(), "a kind with `keys_only` has no documents, and so no schema"));
        }
        let has_schema = has_schema.unwrap_or(!keys_only);
        let is_named = !singular.is_empty() || !short_names.is_empty() || !categories.is_empty() || !columns.is_empty();
        if !has_schema && is_named {
            let reason = "singular, shortname, category and printcolumn are parts of the definition of a kind: without a \
                          schema, the definition is somebody else's";
            return Err(Error::new(input.ident.span(), reason));
        }
        Ok(Attributes {
            group: group.value(),
            version: version.value(),
            kind,
            plural,
            singular,
            short_names,
            categories,
            namespaced: namespaced.unwrap_or(true),
            keys_only,
            field: field.map_or_else(|| "spec".to_owned(), |field| field.value()),
            status,
            columns,
            has_schema,
        })
    }
}

fn once<T>(meta: &ParseNestedMeta<'_>, place: &mut Option<T>, value: T) -> Result<()> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(meta.error("the attribute is given twice")),
    }
}

fn text(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    meta.value()?.parse()
}

/// Reads a path, also one that is written as text.
fn path(meta: &ParseNestedMeta<'_>) -> Result<Path> {
    let value = meta.value()?;
    if value.peek(LitStr) { value.parse::<LitStr>()?.parse() } else { value.parse() }
}

fn check(text: &LitStr, expected: &str, is_valid: impl Fn(&str) -> bool) -> Result<()> {
    if is_valid(&text.value()) {
        return Ok(());
    }
    Err(Error::new(text.span(), format!("{:?} is not {expected}", text.value())))
}

fn label(text: &LitStr) -> Result<String> {
    check(text, "a name of at most 63 lower-case letters, digits and hyphens", names::is_label)?;
    Ok(text.value())
}

fn choice(text: &LitStr, choices: &[&str]) -> Result<String> {
    check(text, &format!("one of {}", choices.join(", ")), |text| choices.contains(&text))?;
    Ok(text.value())
}

fn column(meta: &ParseNestedMeta<'_>) -> Result<Column> {
    let (mut name, mut column_type, mut json_path) = (None, None, None);
    let (mut description, mut priority) = (None, None);
    meta.parse_nested_meta(|meta| match meta.path.get_ident().map(ToString::to_string).unwrap_or_default().as_str() {
        "name" => once(&meta, &mut name, text(&meta)?.value()),
        "type" | "type_" => once(&meta, &mut column_type, choice(&text(&meta)?, &COLUMN_TYPES)?),
        "json_path" => {
            let path = text(&meta)?;
            check(&path, "a path like .status.message", |path| path.starts_with('.'))?;
            once(&meta, &mut json_path, path.value())
        }
        "description" => once(&meta, &mut description, text(&meta)?.value()),
        "priority" => once(&meta, &mut priority, meta.value()?.parse::<LitInt>()?.base10_parse::<i32>()?),
        _ => Err(meta.error("unknown attribute: use name, type, json_path, description or priority")),
    })?;
    let missing = |name: &str| meta.error(format!("the column needs `{name} = \"...\"`"));
    Ok(Column {
        name: name.ok_or_else(|| missing("name"))?,
        column_type: column_type.unwrap_or_else(|| "string".to_owned()),
        json_path: json_path.ok_or_else(|| missing("json_path"))?,
        description: description.unwrap_or_default(),
        priority: priority.unwrap_or(0),
    })
}
