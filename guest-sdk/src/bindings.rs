//! The Rust types that `wit-bindgen` generates from `wit/`: the imports once, and each export by itself.
//!
//! A guest has only the exports that it names in [`export!`](crate::export). Each part is a world of its own
//! that shares the types of the imports. Everything that a guest author needs has a better form elsewhere in
//! this crate.
#![allow(
    missing_docs,
    clippy::allow_attributes_without_reason,
    reason = "generated; the documentation is that of wit/, where it has one"
)]

/// The imports. A component imports only the functions that it calls.
pub mod imports {
    wit_bindgen::generate!({
        path: "wit",
        world: "imports",
        generate_all,
        generate_unused_types: true,
        additional_derives: [PartialEq, Eq],
    });
}

macro_rules! part {
    ($(#[$doc:meta])* $name:ident, $world:literal, $macro:literal) => {
        $(#[$doc])*
        pub mod $name {
            wit_bindgen::generate!({
                path: "wit",
                world: $world,
                with: { "homeostat:reconciler/types@0.1.0": crate::bindings::imports::homeostat::reconciler::types },
                pub_export_macro: true,
                export_macro_name: $macro,
            });
        }
    };
}

part!(
    /// The export `reconciler`.
    reconciler,
    "reconciler-part",
    "__export_reconciler"
);
part!(
    /// The export `mapper`.
    mapper,
    "mapper-part",
    "__export_mapper"
);
part!(
    /// The export `poller`.
    poller,
    "poller-part",
    "__export_poller"
);
part!(
    /// The export `lifecycle`.
    lifecycle,
    "lifecycle-part",
    "__export_lifecycle"
);
/// The export `converter`, which uses no types of the imports.
pub mod converter {
    wit_bindgen::generate!({
        path: "wit",
        world: "converter-part",
        pub_export_macro: true,
        export_macro_name: "__export_converter",
    });
}
