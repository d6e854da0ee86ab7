//! Compiles the rules of a schema, and refuses those whose cost has no sufficient bound.

use std::sync::Arc;

use homeostat_cel::{Expression, Type};
use serde_json::Value;

use super::declared_type::{self, DeclaredType, REQUEST_BYTES_MAX, limit};
use super::keywords::{KEYWORD, REASONS, RuleFault, field_path, keyword_faults};
use super::{PartRules, Rule};
use crate::fields::FieldReader;
use crate::path::{Path, shortened};
use crate::schema::parse::reader;
use crate::schema::{ListType, Reason, Schema, VIOLATIONS_MAX, Violation};
use crate::violation::VALUE_CHARS_MAX;
use crate::{Error, Result};

/// Largest estimated cost of one rule for one document. Source: Kubernetes.
const RULE_COST_MAX: u64 = 10_000_000;
/// Largest estimated cost of all rules of a schema. Source: Kubernetes.
const SCHEMA_COST_MAX: u64 = 100_000_000;
/// Rules that are named when the cost of all rules is too large. Source: Kubernetes.
const EXPENSIVE_MAX: usize = 4;

/// Compiles the rules of a whole schema, whose other keywords are parsed.
///
/// # Errors
/// `Invalid` with the path of a rule that cannot be compiled or costs too much.
pub(in crate::schema) fn parse(schema: &mut Schema, source: &Value, path: &Path<'_>) -> Result<()> {
    let mut parser = RuleParser::default();
    parser.part(schema, source, path, Place::ROOT)?;
    let total = parser.cost_fault(path);
    match parser.faults.into_iter().next().or(total) {
        Some(fault) => Err(Error::invalid(fault.path, fault.words)),
        None => Ok(()),
    }
}

/// Compiles the rules of a draft, and returns the first of all their violations. Skips the refused parts and those above them.
///
/// # Errors
/// `Invalid` with the path of a field of the wrong type.
pub(in crate::schema) fn parse_draft(
    schema: &mut Schema,
    source: &Value,
    path: &Path<'_>,
    refused: &[String],
) -> Result<Vec<Violation>> {
    let mut parser = RuleParser { refused: Some(refused), ..RuleParser::default() };
    parser.part(schema, source, path, Place::ROOT)?;
    if let Some(total) = parser.cost_fault(path) {
        for (_, path) in std::mem::take(&mut parser.expensive) {
            let words = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            parser.add(path, Reason::Forbidden, "", words);
        }
        parser.faults.push(total);
    }
    Ok(parser.faults.into_iter().map(RuleFault::violation).collect())
}

#[derive(Default)]
struct RuleParser<'a> {
    /// The faults so far.
    faults: Vec<RuleFault>,
    /// The paths of the parts of a draft that are refused otherwise, also for the keywords of their rules.
    refused: Option<&'a [String]>,
    /// The cost of the rules so far.
    cost: u64,
    /// The most expensive rules with their paths.
    expensive: Vec<(u64, String)>,
}

/// Where a part is.
#[derive(Clone)]
struct Place {
    is_resource: bool,
    /// Most values of this part in one document; `None` if only the size of the document bounds them.
    count_max: Option<u64>,
    /// The list above whose items have no identity, so that no part below corresponds to one before the write.
    uncorrelated: Option<String>,
    /// Whether this part, or one above it, has rules.
    is_ruled: bool,
    /// Whether a part above, at or below which there are rules, has no known type.
    is_unknown: bool,
}

impl Place {
    const ROOT: Self =
        Self { is_resource: true, count_max: Some(1), uncorrelated: None, is_ruled: false, is_unknown: false };
}

impl RuleParser<'_> {
    /// Compiles the rules of a part and of all parts below. Returns whether the keywords of all these rules are valid: the
    /// rules of a part are not compiled otherwise.
    fn part(&mut self, schema: &mut Schema, source: &Value, path: &Path<'_>, mut place: Place) -> Result<bool> {
        let fields = reader(source, path)?;
        let rules = fields.list(KEYWORD)?;
        for (at, rule) in rules.iter().enumerate().filter(|(_, rule)| !rule.is_null()) {
            FieldReader::of(rule, path.field(KEYWORD).item(at))?;
        }
        place.is_ruled |= !rules.is_empty();
        place.is_unknown |= place.is_ruled && schema.value_type.is_none();
        let mut is_sound = self.parts(schema, &fields, &place)?;
        if !rules.is_empty() {
            let faults = keyword_faults(source, path, true);
            is_sound &= faults.is_empty();
            if is_sound && !self.is_refused(&path.to_string()) {
                schema.rules_of_part = self.rules(schema, (source, path), rules, &place)?.map(Arc::new);
            } else if self.refused.is_some() {
                // The default of the part is checked by the rules all the same.
                let mut silent = RuleParser::default();
                schema.rules_of_part = silent.rules(schema, (source, path), rules, &place)?.map(Arc::new);
            } else {
                self.faults.extend(faults);
            }
        }
        let parts = schema.properties.values().chain(schema.additional.as_deref()).chain(schema.items.as_deref());
        schema.has_rules = schema.rules_of_part.is_some() || parts.into_iter().any(|part| part.has_rules);
        Ok(is_sound)
    }

    fn parts(&mut self, schema: &mut Schema, fields: &FieldReader<'_>, place: &Place) -> Result<bool> {
        let path = fields.path();
        // Only the two types with parts of one kind have several values of them.
        let count_max = match fields.text("type")? {
            Some("object") if fields.get("additionalProperties").is_some() => limit(schema, |of| of.properties_max),
            Some("array") => limit(schema, |of| of.items_max),
            _ => Some(1),
        };
        let count_max = place.count_max.zip(count_max).map(|(outer, count)| outer.saturating_mul(count));
        let inner = |part: &Schema| Place { is_resource: part.embedded, count_max, ..place.clone() };
        let mut is_sound = true;
        if let (Some(part), Some(source @ Value::Object(_))) =
            (&mut schema.additional, fields.get("additionalProperties"))
        {
            let mut place = inner(part);
            // A rule above does not see parts that the type does not have.
            place.is_unknown |= place.is_ruled && fields.text("type")? != Some("object");
            is_sound &= self.part(part, source, &path.field("additionalProperties"), place)?;
        }
        let properties = path.field("properties");
        for (name, source) in fields.entries("properties")? {
            if let Some(part) = schema.properties.get_mut(name) {
                let place = inner(part);
                is_sound &= self.part(part, source, &properties.key(name), place)?;
            }
        }
        let has_identity = matches!(schema.list, ListType::Map(_));
        if let (Some(part), Some(source)) = (&mut schema.items, fields.get("items")) {
            let mut place = inner(part);
            place.is_unknown |= place.is_ruled && fields.text("type")? != Some("array");
            if !has_identity {
                place.uncorrelated = place.uncorrelated.or_else(|| Some(path.to_string()));
            }
            is_sound &= self.part(part, source, &path.field("items"), place)?;
        }
        Ok(is_sound)
    }

    /// Returns whether a part or one below it is refused, or there is no room for more violations.
    fn is_refused(&self, path: &str) -> bool {
        let is_below =
            |other: &str| other.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
        self.faults.len() >= VIOLATIONS_MAX || self.refused.iter().copied().flatten().any(|other| is_below(other))
    }

    fn add(&mut self, path: String, reason: Reason, value: &str, words: impl Into<String>) {
        self.faults.push(RuleFault { path, reason, value: value.to_owned(), words: words.into() });
    }

    /// Compiles the rules of a part; `None` for a part that expressions do not see.
    fn rules(
        &mut self,
        schema: &Schema,
        (part, path): (&Value, &Path<'_>),
        sources: &[Value],
        place: &Place,
    ) -> Result<Option<PartRules>> {
        let path = path.field(KEYWORD);
        let declared = declared_type::of(schema, place.is_resource).filter(|_| !place.is_unknown);
        let Some(DeclaredType { value: self_type, bytes_min }) = declared else {
            self.add(path.to_string(), Reason::Internal, "", "must not be used for a value without a known type");
            return Ok(None);
        };
        let count_max = place.count_max.unwrap_or(REQUEST_BYTES_MAX / (bytes_min + 1));
        let (mut rules, mut not_compiled) = (Vec::with_capacity(sources.len()), Vec::new());
        for (at, source) in sources.iter().enumerate() {
            if self.faults.len() >= VIOLATIONS_MAX {
                break;
            }
            if source["rule"].as_str().is_none_or(|text| text.trim().is_empty()) {
                continue;
            }
            match self.rule(part, (source, &path.item(at)), &self_type, (place, count_max))? {
                Ok(rule) => rules.push(rule),
                Err(fault) => not_compiled.push(fault),
            }
        }
        Ok(Some(PartRules { self_type, rules, not_compiled, source: Arc::new(Value::Array(sources.to_vec())) }))
    }

    /// Compiles a rule. Returns the fault of its expression, if it has one, and adds all of its faults.
    fn rule(
        &mut self,
        part: &Value,
        (source, path): (&Value, &Path<'_>),
        self_type: &Type,
        (place, count_max): (&Place, u64),
    ) -> Result<std::result::Result<Rule, String>> {
        let fields = FieldReader::of(source, *path)?;
        let path = |name: &str| path.field(name).to_string();
        let shown = shortened(&source.to_string(), VALUE_CHARS_MAX);
        let text = fields.text("rule")?.unwrap_or_default();
        let is_optional = fields.get("optionalOldSelf").is_some();
        let old_is_optional = fields.flag("optionalOldSelf")?;
        let old_type = if old_is_optional { Type::Optional(Arc::new(self_type.clone())) } else { self_type.clone() };
        let variables = [("self", self_type.clone()), ("oldSelf", old_type)];

        let expression = compile_rule(text, &variables);
        match &expression {
            Ok(expression) => self.charge(path("rule"), "rule", expression, count_max),
            Err(fault) => self.add(path("rule"), Reason::Invalid, &shown, fault),
        }
        let message_text = fields.text("messageExpression")?.map(str::trim).filter(|text| !text.is_empty());
        let message = message_text.filter(|_| expression.is_ok()).map(|text| compile_message(text, &variables));
        match &message {
            Some(Ok(message)) => self.charge(path("messageExpression"), "messageExpression", message, 1),
            Some(Err(fault)) => self.add(path("messageExpression"), Reason::Invalid, &shown, fault),
            None => {}
        }
        let uses_old = expression.as_ref().is_ok_and(|expression| expression.uses("oldSelf"));
        match &place.uncorrelated {
            Some(list) if uses_old => {
                let words = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
                self.add(path("rule"), Reason::Invalid, &format!("{text:?}"), words);
            }
            _ if is_optional && !uses_old => {
                let words = "may not be set if oldSelf is not used in rule";
                self.add(path("optionalOldSelf"), Reason::Invalid, &old_is_optional.to_string(), words);
            }
            _ => {}
        }
        let expression = match expression {
            Ok(expression) => expression,
            Err(fault) => return Ok(Err(fault)),
        };
        let reason = fields.text("reason")?.and_then(|name| REASONS.into_iter().find(|reason| reason.cause() == name));
        let field = fields.text("fieldPath")?.and_then(|field| field_path(part, field));
        let written = fields.text("message")?.map(str::trim).filter(|text| !text.is_empty());
        Ok(Ok(Rule {
            text: text.to_owned(),
            expression,
            message: written.map(str::to_owned),
            message_expression: message.and_then(std::result::Result::ok),
            reason: reason.unwrap_or(Reason::Invalid),
            field: field.filter(|field| !field.is_empty()),
            uses_old,
            old_is_optional,
        }))
    }

    /// Adds the cost of an expression that is evaluated so many times.
    fn charge(&mut self, path: String, name: &str, expression: &Expression, times: u64) {
        let cost = expression.cost_max().saturating_mul(times);
        self.cost = self.cost.saturating_add(cost);
        if cost > RULE_COST_MAX {
            let words = too_expensive(&format!("estimated {name} cost"), cost, RULE_COST_MAX);
            self.add(path.clone(), Reason::Forbidden, "", words);
        }
        if cost >= SCHEMA_COST_MAX / 100 {
            let at = self.expensive.partition_point(|(other, _)| *other >= cost);
            self.expensive.insert(at, (cost, path));
            self.expensive.truncate(EXPENSIVE_MAX);
        }
    }

    /// Returns the fault of a schema whose rules together cost too much.
    fn cost_fault(&self, path: &Path<'_>) -> Option<RuleFault> {
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        (self.cost > SCHEMA_COST_MAX).then(|| RuleFault {
            path: path.to_string(),
            reason: Reason::Forbidden,
            value: String::new(),
            words: too_expensive(what, self.cost, SCHEMA_COST_MAX),
        })
    }
}

fn compile_rule(text: &str, variables: &[(&str, Type)]) -> std::result::Result<Expression, String> {
    let expression = Expression::compile(text, variables).map_err(|error| format!("compilation failed: {error}"))?;
    match expression.result() {
        Type::Bool => Ok(expression),
        _ => Err("cel expression must evaluate to a bool".to_owned()),
    }
}

fn compile_message(text: &str, variables: &[(&str, Type)]) -> std::result::Result<Expression, String> {
    let expression = Expression::compile(text, variables);
    let expression = expression.map_err(|error| format!("messageExpression compilation failed: {error}"))?;
    match expression.result() {
        Type::Text(_) => Ok(expression),
        _ => Err("messageExpression must evaluate to a string".to_owned()),
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
