//! Compiles the rules of a schema, and refuses those whose cost has no sufficient bound.

use std::sync::Arc;

use homeostat_cel::{Expression, Type};
use serde_json::Value;

use super::declared_type::{self, DeclaredType, REQUEST_BYTES_MAX, limit};
use super::{PartRules, Rule};
use crate::fields::FieldReader;
use crate::path::Path;
use crate::schema::{ListType, Reason, Schema, ValueType};
use crate::{Error, Result};

const KEYWORD: &str = "x-kubernetes-validations";
/// Largest estimated cost of one rule for one document. Source: Kubernetes.
const RULE_COST_MAX: u64 = 10_000_000;
/// Largest estimated cost of all rules of a schema. Source: Kubernetes.
const SCHEMA_COST_MAX: u64 = 100_000_000;

/// Compiles the rules of a whole schema, whose other keywords are parsed.
///
/// # Errors
/// `Invalid` with the path of a rule that cannot be compiled or costs too much.
pub(in crate::schema) fn parse(schema: &mut Schema, source: &Value, path: &Path<'_>) -> Result<()> {
    let mut parser = RuleParser { cost: 0 };
    parser.part(schema, source, path, Place { is_resource: true, count_max: Some(1), uncorrelated: None })?;
    if parser.cost > SCHEMA_COST_MAX {
        let what = "estimated rule cost total for entire OpenAPIv3 schema";
        return Err(Error::invalid(path.to_string(), too_expensive(what, parser.cost, SCHEMA_COST_MAX)));
    }
    Ok(())
}

struct RuleParser {
    /// The cost of the rules so far.
    cost: u64,
}

/// Where a part is.
#[derive(Clone)]
struct Place {
    is_resource: bool,
    /// Most values of this part in one document; `None` if only the size of the document bounds them.
    count_max: Option<u64>,
    /// The list above whose items have no identity, so that no part below corresponds to one before the write.
    uncorrelated: Option<String>,
}

impl RuleParser {
    fn part(&mut self, schema: &mut Schema, source: &Value, path: &Path<'_>, place: Place) -> Result<()> {
        let inner = |is_resource, count: Option<Option<u64>>| Place {
            is_resource,
            count_max: match count {
                None => place.count_max,
                Some(count) => place.count_max.zip(count).map(|(outer, count)| outer.saturating_mul(count)),
            },
            uncorrelated: place.uncorrelated.clone(),
        };
        let fields = FieldReader::of(source, *path)?;
        let properties = path.field("properties");
        for (name, source) in fields.entries("properties")? {
            if let Some(part) = schema.properties.get_mut(name) {
                let is_resource = part.embedded;
                self.part(part, source, &properties.key(name), inner(is_resource, None))?;
            }
        }
        let count_max = limit(schema, |limits| limits.properties_max);
        if let (Some(part), Some(source @ Value::Object(_))) =
            (&mut schema.additional, fields.get("additionalProperties"))
        {
            let place = inner(part.embedded, Some(count_max));
            self.part(part, source, &path.field("additionalProperties"), place)?;
        }
        let count_max = limit(schema, |limits| limits.items_max);
        let has_identity = matches!(schema.list, ListType::Map(_));
        if let (Some(part), Some(source)) = (&mut schema.items, fields.get("items")) {
            let mut place = inner(part.embedded, Some(count_max));
            if !has_identity {
                place.uncorrelated = place.uncorrelated.or_else(|| Some(path.field("items").to_string()));
            }
            self.part(part, source, &path.field("items"), place)?;
        }
        let rules = fields.list(KEYWORD)?;
        if !rules.is_empty() {
            schema.rules_of_part = Some(Arc::new(self.rules(schema, rules, &path.field(KEYWORD), &place)?));
        }
        let parts = schema.properties.values().chain(schema.additional.as_deref()).chain(schema.items.as_deref());
        schema.has_rules = schema.rules_of_part.is_some() || parts.into_iter().any(|part| part.has_rules);
        Ok(())
    }

    fn rules(&mut self, schema: &Schema, sources: &[Value], path: &Path<'_>, place: &Place) -> Result<PartRules> {
        let unknown = || Error::invalid(path.to_string(), "must not be used for a value without a known type");
        let DeclaredType { value: self_type, bytes_min } =
            declared_type::of(schema, place.is_resource).ok_or_else(unknown)?;
        let count_max = place.count_max.unwrap_or(REQUEST_BYTES_MAX / (bytes_min + 1));
        let mut rules = Vec::with_capacity(sources.len());
        for (at, source) in sources.iter().enumerate() {
            let fields = FieldReader::of(source, path.item(at))?;
            let rule = rule(schema, &fields, &self_type, place)?;
            self.charge(&fields, "rule", &rule.expression, count_max)?;
            if let Some(expression) = &rule.message_expression {
                self.charge(&fields, "messageExpression", expression, 1)?;
            }
            rules.push(rule);
        }
        Ok(PartRules { self_type, rules, source: Arc::new(Value::Array(sources.to_vec())) })
    }

    /// Adds the cost of an expression that is evaluated so many times.
    fn charge(&mut self, fields: &FieldReader<'_>, name: &str, expression: &Expression, times: u64) -> Result<()> {
        let cost = expression.cost_max().saturating_mul(times);
        self.cost = self.cost.saturating_add(cost);
        if cost <= RULE_COST_MAX {
            return Ok(());
        }
        Err(fields.error(name, too_expensive(&format!("estimated {name} cost"), cost, RULE_COST_MAX)))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a factor for display")]
fn too_expensive(what: &str, cost: u64, cost_max: u64) -> String {
    let factor = match cost as f64 / cost_max as f64 {
        factor if factor > 100.0 => "more than 100x".to_owned(),
        factor if factor < 1.5 => format!("{factor:.6}x"),
        factor => format!("{factor:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

fn rule(schema: &Schema, fields: &FieldReader<'_>, self_type: &Type, place: &Place) -> Result<Rule> {
    let written = |name: &str| -> Result<Option<&str>> {
        match fields.text(name)? {
            Some(text) if !text.is_empty() && text.trim().is_empty() => {
                Err(fields.error(name, "must be non-empty if specified"))
            }
            text => Ok(text.map(str::trim).filter(|text| !text.is_empty())),
        }
    };
    let text = fields.text("rule")?.unwrap_or("");
    if text.trim().is_empty() {
        return Err(fields.error("rule", "rule is not specified"));
    }
    let message = written("message")?;
    if message.is_some_and(|message| message.contains('\n')) {
        return Err(fields.error("message", "must not contain line breaks"));
    }
    if message.is_none() && text.trim().contains('\n') {
        return Err(fields.error("message", "message must be specified if rule contains line breaks"));
    }
    let is_optional = fields.get("optionalOldSelf").is_some();
    let old_is_optional = fields.flag("optionalOldSelf")?;
    let old_type = if old_is_optional { Type::Optional(Arc::new(self_type.clone())) } else { self_type.clone() };
    let variables = [("self", self_type.clone()), ("oldSelf", old_type)];
    let compiled = |name: &str, text: &str| {
        Expression::compile(text, &variables)
            .map_err(|error| fields.error(name, format!("compilation failed: {error}")))
    };
    let expression = compiled("rule", text)?;
    if *expression.result() != Type::Bool {
        return Err(fields.error("rule", "cel expression must evaluate to a bool"));
    }
    let uses_old = expression.uses("oldSelf");
    match &place.uncorrelated {
        Some(list) if uses_old => {
            let reason = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
            return Err(fields.error("rule", reason));
        }
        _ if is_optional && !uses_old => {
            return Err(fields.error("optionalOldSelf", "may not be set if oldSelf is not used in rule"));
        }
        _ => {}
    }
    let message_expression = match written("messageExpression")? {
        Some(text) => {
            let variables = [("self", self_type.clone()), ("oldSelf", variables[1].1.clone())];
            let expression = Expression::compile(text, &variables).map_err(|error| {
                fields.error("messageExpression", format!("messageExpression compilation failed: {error}"))
            })?;
            if !matches!(expression.result(), Type::Text(_)) {
                return Err(fields.error("messageExpression", "messageExpression must evaluate to a string"));
            }
            Some(expression)
        }
        None => None,
    };
    Ok(Rule {
        text: text.to_owned(),
        expression,
        message: message.map(str::to_owned),
        message_expression,
        reason: reason(fields)?,
        field: written("fieldPath")?.map(|path| field(schema, fields, path)).transpose()?,
        uses_old,
        old_is_optional,
    })
}

fn reason(fields: &FieldReader<'_>) -> Result<Reason> {
    let reasons = [Reason::Duplicate, Reason::Forbidden, Reason::Invalid, Reason::Required];
    let Some(name) = fields.text("reason")? else { return Ok(Reason::Invalid) };
    let known = reasons.into_iter().find(|reason| reason.cause() == name);
    known.ok_or_else(|| {
        fields.error(
            "reason",
            "must be FieldValueDuplicate, FieldValueForbidden, FieldValueInvalid or FieldValueRequired",
        )
    })
}

/// Returns the path of a field, as `ports.http` for `.ports['http']`, if the schema has it.
fn field(schema: &Schema, fields: &FieldReader<'_>, written: &str) -> Result<String> {
    let wrong = || fields.error("fieldPath", "must be a valid path");
    let (mut part, mut rest, mut path) = (schema, written, String::new());
    while !rest.is_empty() {
        let (name, after) = if let Some(quoted) = rest.strip_prefix("['") {
            let end = quoted.find("']").ok_or_else(wrong)?;
            (&quoted[..end], &quoted[end + 2..])
        } else {
            let plain = rest.strip_prefix('.').ok_or_else(wrong)?;
            plain.split_at(plain.find(['.', '[']).unwrap_or(plain.len()))
        };
        let is_map = part.additional.is_some();
        if name.is_empty() || part.value_type != Some(ValueType::Object) {
            return Err(wrong());
        }
        part = part.field(name).ok_or_else(wrong)?;
        if is_map {
            path.push_str(&format!("[{name}]"));
        } else {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(name);
        }
        rest = after;
    }
    Ok(path)
}
