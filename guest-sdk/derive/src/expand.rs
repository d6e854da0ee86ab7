//! The implementation that the macro writes.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Error, Result};

use crate::attributes::{Attributes, Column};

/// Returns the implementation of `Kind`.
///
/// # Errors
/// At the place of the first mistake.
pub(crate) fn implementation(input: &DeriveInput) -> Result<TokenStream> {
    if let Some(parameter) = input.generics.params.first() {
        return Err(Error::new_spanned(parameter, "a kind has no type parameters"));
    }
    let attributes = Attributes::of(input)?;
    let schema = attributes.has_schema.then(|| schema(&attributes));
    let Attributes { group, version, kind, plural, namespaced, keys_only, field, status, .. } = attributes;
    let api_version = if group.is_empty() { version } else { format!("{group}/{version}") };
    let status = status.map_or_else(|| quote!(()), |status| quote!(#status));
    let name = &input.ident;
    Ok(quote! {
        impl ::homeostat_sdk::Kind for #name {
            const API_VERSION: &'static str = #api_version;
            const NAME: &'static str = #kind;
            const PLURAL: &'static str = #plural;
            const NAMESPACED: bool = #namespaced;
            const KEYS_ONLY: bool = #keys_only;
            const FIELD: &'static str = #field;
            type Status = #status;

            #schema
        }
    })
}

fn schema(attributes: &Attributes) -> TokenStream {
    let Attributes { singular, short_names, categories, columns, .. } = attributes;
    let columns = columns.iter().map(column);
    quote! {
        fn schema() -> ::core::option::Option<::std::string::String> {
            const NAMES: ::homeostat_sdk::schema::Names = ::homeostat_sdk::schema::Names::new()
                .singular(#singular)
                .short_names(&[#(#short_names),*])
                .categories(&[#(#categories),*]);
            const COLUMNS: &[::homeostat_sdk::schema::Column] = &[#(#columns),*];
            ::core::option::Option::Some(::homeostat_sdk::schema::document::<Self>(NAMES, COLUMNS))
        }
    }
}

fn column(column: &Column) -> TokenStream {
    let Column { name, column_type, json_path, description, priority } = column;
    quote! {
        ::homeostat_sdk::schema::Column::new(#name, #column_type, #json_path)
            .description(#description)
            .priority(#priority)
    }
}

#[cfg(test)]
mod tests;
