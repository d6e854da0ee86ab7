//! Macros that go through a list or a map.

use std::cmp::Ordering;
use std::rc::Rc;

use super::{Evaluation, truth};
use crate::equality::compare;
use crate::error::EvaluationError;
use crate::syntax::{Fold, FoldKind, Node};
use crate::value::{Map, OwnedMap, Value};

type Outcome<'a> = Result<Value<'a>, EvaluationError>;

/// The results of a fold so far.
#[derive(Default)]
struct Results<'a> {
    items: Vec<Value<'a>>,
    entries: OwnedMap<'a>,
    /// Sort keys, each with its item.
    sorted: Vec<(Value<'a>, Value<'a>)>,
    matches: usize,
    /// The first error, which does not matter to `all` and `exists` if another item decides.
    error: Option<EvaluationError>,
}

impl<'e, 'a> Evaluation<'e, 'a> {
    pub(super) fn fold(&mut self, fold: &'e Fold) -> Outcome<'a> {
        let range = self.value(&fold.range)?;
        let mut results = Results::default();
        for (first, second) in pairs(&range, fold.second.is_some())? {
            self.variables.push((&fold.first, first.clone()));
            if let (Some(name), Some(second)) = (&fold.second, &second) {
                self.variables.push((name, second.clone()));
            }
            let step = self.step(fold, &first, &mut results);
            self.variables.truncate(self.variables.len() - 1 - usize::from(second.is_some()));
            if let Some(decided) = step? {
                return Ok(decided);
            }
        }
        results.end(fold.kind)
    }

    /// Goes one step, and returns the result of the fold if this step decides it.
    fn step(
        &mut self,
        fold: &'e Fold,
        first: &Value<'a>,
        results: &mut Results<'a>,
    ) -> Result<Option<Value<'a>>, EvaluationError> {
        self.budget.charge(3)?;
        match fold.kind {
            FoldKind::All | FoldKind::Exists => {
                let decisive = fold.kind == FoldKind::Exists;
                match self.condition(fold.condition.as_ref()) {
                    Ok(value) if value == decisive => return Ok(Some(Value::Bool(decisive))),
                    Ok(_) => {}
                    Err(EvaluationError::Exhausted) => return Err(EvaluationError::Exhausted),
                    Err(error) => results.error = results.error.take().or(Some(error)),
                }
            }
            FoldKind::ExistsOne => results.matches += usize::from(self.condition(fold.condition.as_ref())?),
            FoldKind::Filter => {
                if self.condition(fold.condition.as_ref())? {
                    results.items.push(first.clone());
                }
            }
            FoldKind::SortBy => {
                let key = self.result(fold)?;
                results.sorted.push((key, first.clone()));
            }
            FoldKind::List if self.condition(fold.condition.as_ref())? => {
                let result = self.result(fold)?;
                results.items.push(result);
            }
            FoldKind::Map if self.condition(fold.condition.as_ref())? => {
                let result = self.result(fold)?;
                results.entries.insert(first.clone(), result)?;
            }
            FoldKind::MapEntries if self.condition(fold.condition.as_ref())? => {
                let Value::Map(map) = self.result(fold)? else { return Err(EvaluationError::NoSuchOverload) };
                for (key, value) in map.entries() {
                    if results.entries.insert(key, value)?.is_some() {
                        return Err(EvaluationError::Invalid("insert failed: a map has a key twice".to_owned()));
                    }
                }
            }
            FoldKind::List | FoldKind::Map | FoldKind::MapEntries => {}
        }
        Ok(None)
    }

    fn condition(&mut self, condition: Option<&'e Node>) -> Result<bool, EvaluationError> {
        condition.map_or(Ok(true), |condition| truth(&self.value(condition)?))
    }

    fn result(&mut self, fold: &'e Fold) -> Outcome<'a> {
        fold.result.as_ref().map_or(Err(EvaluationError::NoSuchOverload), |result| self.value(result))
    }
}

impl<'a> Results<'a> {
    fn end(mut self, kind: FoldKind) -> Outcome<'a> {
        match kind {
            FoldKind::All | FoldKind::Exists => self.error.map_or(Ok(Value::Bool(kind == FoldKind::All)), Err),
            FoldKind::ExistsOne => Ok(Value::Bool(self.matches == 1)),
            FoldKind::List | FoldKind::Filter => Ok(Value::list(self.items)),
            FoldKind::Map | FoldKind::MapEntries => Ok(Value::Map(Map::Owned(Rc::new(self.entries)))),
            FoldKind::SortBy => {
                let mut pairs = self.sorted.windows(2);
                if pairs.any(|pair| compare(&pair[0].0, &pair[1].0).is_none()) {
                    return Err(EvaluationError::NoSuchOverload);
                }
                self.sorted.sort_by(|(left, _), (right, _)| compare(left, right).unwrap_or(Ordering::Equal));
                Ok(Value::list(self.sorted.into_iter().map(|(_, item)| item).collect()))
            }
        }
    }
}

/// Returns what the variables of each step are. With one variable it is the item or the key; with two they are index and
/// item, or key and value.
fn pairs<'a>(range: &Value<'a>, has_two: bool) -> Result<Vec<(Value<'a>, Option<Value<'a>>)>, EvaluationError> {
    match range {
        Value::List(list) if has_two => {
            let index = |at| i64::try_from(at).map(Value::Int).map_err(|_| EvaluationError::Overflow);
            list.iter().enumerate().map(|(at, item)| Ok((index(at)?, Some(item)))).collect()
        }
        Value::List(list) => Ok(list.iter().map(|item| (item, None)).collect()),
        Value::Map(map) => Ok(map.entries().into_iter().map(|(key, value)| (key, has_two.then_some(value))).collect()),
        _ => Err(EvaluationError::NoSuchOverload),
    }
}
