//! The schemas of this crate's own types.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::condition::{Condition, Conditions};
use crate::{Metadata, Span, Time};

macro_rules! schema {
    ($type:ty, $name:literal, |$generator:ident| $schema:tt) => {
        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                Cow::Borrowed($name)
            }

            fn json_schema($generator: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

schema!(Time, "Time", |_generator| { "type": "string", "format": "date-time" });
schema!(Span, "Span", |_generator| { "type": "string", "pattern": "^([0-9]+(d|h|m|s|ms))+$" });
// One of each type, so that clients that apply a condition leave the others alone.
schema!(Conditions, "Conditions", |generator| {
    "type": "array",
    "items": generator.subschema_for::<Condition>(),
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
});
// As in Kubernetes: the shape of metadata belongs to the host.
schema!(Metadata, "Metadata", |_generator| {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": true,
});
