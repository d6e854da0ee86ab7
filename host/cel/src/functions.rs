//! The functions that expressions can call: those of CEL, and those of Kubernetes' libraries in version 1.36.

mod addresses;
mod conversions;
pub(crate) mod lists;
mod named_formats;
mod optionals;
mod quantities;
pub(crate) mod regexes;
mod semver;
mod strings;
mod text_format;
mod time;
mod urls;

use crate::error::EvaluationError;
use crate::objects::named_formats::PATTERN_SIZE;
use crate::types::Type;
use crate::value::Value;

/// A function, with all its overloads.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    /// Whether it is called on a target, which is then its first argument.
    pub(crate) is_member: bool,
    pub(crate) overloads: &'static [Overload],
    pub(crate) call: for<'a> fn(&[Value<'a>]) -> Result<Value<'a>, EvaluationError>,
    pub(crate) cost: CallCost,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The types of arguments, and of the result.
pub(crate) struct Overload {
    pub(crate) parameters: &'static [Kind],
    pub(crate) result: Kind,
}

/// The type of an argument or of a result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// Any type, the same one in all places of an overload.
    A,
    Dyn,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Timestamp,
    List(&'static Kind),
    /// A map with any keys and values.
    AnyMap,
    /// A map from texts to lists of texts.
    Query,
    Optional(&'static Kind),
    TypeName,
    Quantity,
    Url,
    Ip,
    Cidr,
    Semver,
    Format,
}

/// The cost of a call, beside its arguments. Source: Kubernetes and cel-go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallCost {
    /// One.
    One,
    /// A tenth of the size of an argument, so many times.
    Scan { argument: usize, times: u64 },
    /// One for each item of a list, and a tenth of the size of the item. A tenth of the size of a text.
    Items,
    /// The size of the first argument, and a new list.
    Copy,
    /// A tenth of the size of the result.
    Join,
    /// The product of the sizes of the first two arguments, so many times, and one.
    Pairs { times: u64 },
    /// Twice the square of the size of the first argument, and a new list.
    Distinct,
    /// The same, and a tenth more for each pair of texts.
    Sort,
    /// A search for a text.
    Contains,
    /// A search for a pattern.
    Match,
    /// A match with the pattern of a named format.
    Validate,
    /// So much, and a tenth of the size of a text that is the second argument.
    Address(u64),
}

/// The cost of a call that makes a list.
const LIST: u64 = 11;

/// The sizes of the values of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallSizes<'s> {
    /// Those of the arguments.
    pub(crate) arguments: &'s [u64],
    /// That of the items of the first argument, zero for items without a size; `None` if it is no list.
    pub(crate) item: Option<u64>,
    /// That of the result.
    pub(crate) result: u64,
}

impl CallCost {
    /// Returns the cost for values of these sizes.
    pub(crate) fn of(self, sizes: &CallSizes<'_>) -> u64 {
        let size = |at: usize| sizes.arguments.get(at).copied().unwrap_or(1);
        let square = || size(0).saturating_mul(size(0));
        match self {
            Self::One => 1,
            Self::Scan { argument, times } => tenth(size(argument).saturating_mul(times)),
            Self::Items => match sizes.item {
                Some(item) => size(0).saturating_mul(tenth(item).saturating_add(1)),
                None => tenth(size(0)),
            },
            Self::Copy => size(0).saturating_add(LIST),
            Self::Join => tenth(sizes.result),
            Self::Pairs { times } => size(0).saturating_mul(size(1)).saturating_mul(times).saturating_add(1),
            Self::Distinct => square().saturating_mul(2).saturating_add(LIST),
            Self::Sort => {
                let of_texts = if sizes.item.is_some_and(|item| item > 0) { tenth(square()) } else { 0 };
                square().saturating_mul(2).saturating_add(of_texts).saturating_add(LIST)
            }
            Self::Contains => tenth(size(0)).saturating_mul(tenth(size(1))),
            Self::Match => tenth(size(0).saturating_add(1)).saturating_mul(size(1).div_ceil(4)),
            Self::Validate => tenth(size(1)).saturating_mul(PATTERN_SIZE.div_ceil(4)),
            Self::Address(base) => base.saturating_add(tenth(size(1))),
        }
    }
}

/// Returns a tenth of a size, rounded up: the cost of going through a text.
pub(crate) fn tenth(size: u64) -> u64 {
    size.div_ceil(10)
}

/// The namespaces of libraries: `sets.contains` is no call on a value named `sets`, unless there is one.
pub(crate) const LIBRARIES: [&str; 7] = ["sets", "lists", "optional", "ip", "format", "strings", "jsonpatch"];

/// Returns the index of a function.
pub(crate) fn find(name: &str, is_member: bool) -> Option<usize> {
    FUNCTIONS.iter().position(|function| function.name == name && function.is_member == is_member)
}

/// Returns the function at an index that [`find`] returned.
pub(crate) fn at(index: usize) -> &'static Function {
    &FUNCTIONS[index]
}

/// Returns the text of an argument.
fn text_of<'v>(value: &'v Value<'_>) -> Result<&'v str, EvaluationError> {
    value.as_text().ok_or(EvaluationError::NoSuchOverload)
}

fn int_result<'a>(number: usize) -> Result<Value<'a>, EvaluationError> {
    i64::try_from(number).map(Value::Int).map_err(|_| EvaluationError::Overflow)
}

impl Kind {
    /// Returns the type, where `a` is [`Kind::A`], and `size` that of texts and lists.
    pub(crate) fn to_type(self, a: &Type, size: u64) -> Type {
        match self {
            Self::A => a.clone(),
            Self::Dyn => Type::Dyn,
            Self::Bool => Type::Bool,
            Self::Int => Type::Int,
            Self::Uint => Type::Uint,
            Self::Double => Type::Double,
            Self::Text => Type::Text(size),
            Self::Bytes => Type::Bytes(size),
            Self::Duration => Type::Duration,
            Self::Timestamp => Type::Timestamp,
            // The sizes of the items of a new list are unknown.
            Self::List(item) => Type::list(item.to_type(a, size).of_any_size(), size),
            Self::AnyMap => Type::map(Type::Dyn, Type::Dyn, size),
            Self::Query => Type::map(Type::Text(size), Type::list(Type::Text(size), size), size),
            Self::Optional(value) => Type::Optional(value.to_type(a, size).into()),
            Self::TypeName => Type::TypeName,
            Self::Quantity => Type::Quantity,
            Self::Url => Type::Url,
            Self::Ip => Type::Ip,
            Self::Cidr => Type::Cidr,
            Self::Semver => Type::Semver,
            Self::Format => Type::Format,
        }
    }

    /// Returns whether an argument of a type fits, and sets what [`Kind::A`] is at its first place.
    pub(crate) fn accepts(self, argument: &Type, a: &mut Option<Type>) -> bool {
        match (self, argument) {
            // With a value of any type in one place, the type is any in all of them.
            (Self::A, Type::Dyn) => {
                *a = Some(Type::Dyn);
                true
            }
            (Self::A, _) => match a {
                Some(known) => known.fits(argument),
                None => {
                    *a = Some(argument.clone());
                    true
                }
            },
            (Self::List(item) | Self::Optional(item), Type::Dyn) => item.accepts(&Type::Dyn, a),
            (_, Type::Dyn) => true,
            (Self::List(item), Type::List(list)) => item.accepts(&list.item, a),
            (Self::Optional(value), Type::Optional(argument)) => value.accepts(argument, a),
            (Self::AnyMap, argument) => matches!(argument, Type::Map(_)),
            (Self::Dyn, _) => true,
            (Self::List(_) | Self::Optional(_), _) => false,
            _ => argument.fits(&self.to_type(&Type::Dyn, 0)),
        }
    }
}

mod table;
use table::FUNCTIONS;
