//! What `wit-bindgen` makes of `wit/`: the imports once, and each export by itself.
//!
//! A guest has the exports that it asks [`export!`](crate::export) for, and no others: each part is a world of its own, whose types
//! are those of the imports. Everything that a person should use has a better form elsewhere in this crate.
#![allow(
    missing_docs,
    clippy::allow_attributes_without_reason,
    reason = "generated; the documentation is that of wit/, where it has one"
)]

/// The imports. A component imports those that it calls.
pub mod imports {
    wit_bindgen::generate!({
        path: "../wit",
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
                path: "../wit",
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
