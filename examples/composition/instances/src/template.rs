//! Documents with expressions: `${name}`, `${namespace}`, `${spec.FIELD}` and `${resources.ID.FIELD}`.

use serde_json::{Map, Value, json};

/// The expression that has no value yet.
#[derive(Debug, PartialEq)]
pub(crate) struct MissingValue(pub(crate) String);

/// The values of expressions.
pub(crate) struct Scope(Value);

impl Scope {
    /// Starts with an instance.
    pub(crate) fn of(instance: &Value) -> Self {
        let metadata = &instance["metadata"];
        Self(json!({
            "name": metadata["name"], "namespace": metadata["namespace"], "spec": instance["spec"], "resources": {},
        }))
    }

    /// Adds a resource for later expressions.
    pub(crate) fn add(&mut self, id: &str, resource: Value) {
        self.0["resources"][id] = resource;
    }

    /// Returns a template with the values of its expressions. A string that is one expression takes the type of its
    /// value.
    pub(crate) fn fill(&self, template: &Value) -> Result<Value, MissingValue> {
        Ok(match template {
            Value::String(text) => self.fill_text(text)?,
            Value::Array(items) => items.iter().map(|item| self.fill(item)).collect::<Result<Vec<_>, _>>()?.into(),
            Value::Object(fields) => {
                let filled = fields.iter().map(|(name, field)| Ok((name.clone(), self.fill(field)?)));
                filled.collect::<Result<Map<_, _>, MissingValue>>()?.into()
            }
            other => other.clone(),
        })
    }

    fn fill_text(&self, text: &str) -> Result<Value, MissingValue> {
        let whole = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
        if let Some(expression) = whole.filter(|expression| !expression.contains("${")) {
            return self.value(expression).cloned();
        }
        let (mut filled, mut rest) = (String::new(), text);
        while let Some((before, behind)) = rest.split_once("${") {
            // Text without an end of the expression stays as it is.
            let Some((expression, after)) = behind.split_once('}') else { break };
            filled.push_str(before);
            match self.value(expression)? {
                Value::String(text) => filled.push_str(text),
                other => filled.push_str(&other.to_string()),
            }
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled.into())
    }

    fn value(&self, expression: &str) -> Result<&Value, MissingValue> {
        let found = expression.split('.').try_fold(&self.0, |value, field| value.get(field));
        found.filter(|value| !value.is_null()).ok_or_else(|| MissingValue(expression.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        Scope::of(&json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {"size": 3, "image": "i"}}))
    }

    #[test]
    fn an_expression_keeps_the_type_of_its_value() {
        let template = json!({"a": "${spec.size}", "b": ["${name}-${spec.size}", true], "c": "${"});
        assert_eq!(scope().fill(&template), Ok(json!({"a": 3, "b": ["a-3", true], "c": "${"})));
    }

    #[test]
    fn an_expression_without_a_value_is_named() {
        let template = json!({"address": "http://${resources.db.status.address}/"});
        let mut scope = scope();
        assert_eq!(scope.fill(&template), Err(MissingValue("resources.db.status.address".to_owned())));
        scope.add("db", json!({"status": {"address": "x"}}));
        assert_eq!(scope.fill(&template), Ok(json!({"address": "http://x/"})));
    }
}
