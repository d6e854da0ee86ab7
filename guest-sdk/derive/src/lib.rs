//! The derive macro of [homeostat-sdk](https://docs.rs/homeostat-sdk), which re-exports it. Depend on that crate, and
//! not on this one.
//!
//! The front page of that crate has an example.

mod attributes;
mod expand;
mod names;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `Kind` for the type of a `spec`, with the schema of the documents.
///
/// The attributes of `#[resource(...)]`:
///
/// | attribute | meaning |
/// |---|---|
/// | `group = "demo.example.dev"` | required; `""` for the core group |
/// | `version = "v1"` | required |
/// | `kind = "Greeting"` | default: the name of the Rust type |
/// | `plural = "greetings"` | default: the English plural of the kind in lower case |
/// | `singular = "greeting"` | default: the kind in lower case |
/// | `shortname = "gr"` | a shorter name for command lines; repeatable |
/// | `category = "all"` | a category for command lines; repeatable |
/// | `namespaced`, or `scope = "Namespaced"` | the default |
/// | `scope = "Cluster"` | its resources live outside of namespaces |
/// | `status = GreetingStatus` | the type of `status`, also as text; default: no status |
/// | `printcolumn(name = "Message", type = "string", json_path = ".status.message")` | a column of tables; also with `description = "..."` and `priority = 1`; repeatable |
/// | `schema = "derived"` | the default: from the `JsonSchema` of both types |
/// | `schema = "disabled"` | no schema: for a kind of another program |
/// | `keys_only` | no resources are stored: the keys come from a poller or another feeder; it has no schema |
/// | `field = "data"` | the field of the document that the type describes; default: `spec` |
#[proc_macro_derive(Resource, attributes(resource))]
pub fn derive_resource(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::implementation(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
