//! Where an API server looks for the size of a value.
//!
//! Source: `EstimateSize` of Kubernetes' `apiextensions-apiserver`, and the paths of cel-go's cost estimator. An API server names
//! the place of a value by a path from the root of a rule, of which it leaves out the first name. So the items of a list that
//! an expression has made have the size of the root.

use std::sync::Arc;

use crate::types::{ListType, MapType, Type};

/// The place of a value.
#[derive(Debug, Clone, Default)]
pub(crate) enum Place {
    /// An expression made the value, and its type has its size.
    #[default]
    Nowhere,
    /// A part of the schema, with its size.
    At(Type),
    /// A path that the schema does not have: the size is unknown.
    Lost,
}

impl Place {
    /// Returns the place of a field of a value here.
    pub(crate) fn field(&self, name: &str, root: Option<&Type>) -> Self {
        match self {
            Self::Nowhere => Self::first(root),
            Self::At(Type::Object(object)) => {
                object.field(name).map_or(Self::Lost, |field| Self::At(field.value.clone()))
            }
            Self::At(_) | Self::Lost => Self::Lost,
        }
    }

    /// Returns the place of the items of a list, or of the values of a map.
    pub(crate) fn item(&self, root: Option<&Type>) -> Self {
        match self {
            Self::Nowhere => Self::first(root),
            Self::At(Type::List(list)) => Self::At(list.item.clone()),
            Self::At(Type::Map(map)) => Self::At(map.value.clone()),
            Self::At(_) | Self::Lost => Self::Lost,
        }
    }

    /// Returns the place of the keys of a map. The positions of a list have none in the schema.
    pub(crate) fn key(&self, root: Option<&Type>) -> Self {
        match self {
            Self::Nowhere => Self::first(root),
            Self::At(Type::Map(map)) => Self::At(map.key.clone()),
            Self::At(_) | Self::Lost => Self::Lost,
        }
    }

    /// Returns the place of a path with one name: the root.
    fn first(root: Option<&Type>) -> Self {
        root.map_or(Self::Nowhere, |root| Self::At(root.clone()))
    }

    /// Returns a type with the size of its place.
    pub(crate) fn sized(&self, value: Type) -> Type {
        let size = match self {
            Self::Nowhere => return value,
            Self::At(declared) => declared_size(declared),
            Self::Lost => u64::MAX,
        };
        match value {
            Type::Text(_) => Type::Text(size),
            Type::Bytes(_) => Type::Bytes(size),
            Type::List(list) if list.count_max != size => {
                Type::List(Arc::new(ListType { count_max: size, ..ListType::clone(&list) }))
            }
            Type::Map(map) if map.count_max != size => {
                Type::Map(Arc::new(MapType { count_max: size, ..MapType::clone(&map) }))
            }
            other => other,
        }
    }

    /// Returns the largest size of a value here.
    pub(crate) fn size_max(&self, value: &Type) -> u64 {
        match self {
            Self::At(declared) => declared_size(declared),
            Self::Nowhere | Self::Lost => value.size_max(),
        }
    }
}

/// Returns the size of a part of a schema. Numbers, truth values and objects have none.
fn declared_size(declared: &Type) -> u64 {
    match declared {
        Type::Bool | Type::Int | Type::Uint | Type::Double | Type::Null | Type::Object(_) => 0,
        other => other.size_max(),
    }
}
