use quote::quote;

use super::*;

fn expanded(input: TokenStream) -> String {
    implementation(&syn::parse2(input).expect("it is a type")).expect("it is a kind").to_string()
}

fn refused(input: TokenStream) -> String {
    implementation(&syn::parse2(input).expect("it is a type")).expect_err("it is no kind").to_string()
}

#[test]
fn a_kind_has_the_names_of_its_attributes() {
    let found = expanded(quote! {
        #[resource(group = "demo.dev", version = "v1", kind = "Policy", shortname = "pol", scope = "Cluster")]
        #[resource(status = "crate::Status", printcolumn(name = "Age", type = "date", json_path = ".metadata.at"))]
        struct Rule;
    });
    for part in [
        r#"API_VERSION : & 'static str = "demo.dev/v1""#,
        r#"NAME : & 'static str = "Policy""#,
        r#"PLURAL : & 'static str = "policies""#,
        "NAMESPACED : bool = false",
        "type Status = crate :: Status",
        r#"short_names (& ["pol"])"#,
        r#"new ("Age" , "date" , ".metadata.at")"#,
    ] {
        assert!(found.contains(part), "{part} is not in {found}");
    }
}

#[test]
fn a_kind_of_the_core_group_has_its_version_alone() {
    let input = quote! {
        #[resource(group = "", version = "v1", kind = "ConfigMap", field = "data", schema = "disabled")]
        struct Settings;
    };
    let found = expanded(input);
    assert!(found.contains(r#"API_VERSION : & 'static str = "v1""#), "{found}");
    assert!(found.contains(r#"FIELD : & 'static str = "data""#), "{found}");
    assert!(found.contains("type Status = ()") && !found.contains("fn schema"), "{found}");
}

#[test]
fn a_kind_without_documents_has_no_schema() {
    let found = expanded(quote!(
        #[resource(group = "a.dev", version = "v1", keys_only)]
        struct Item;
    ));
    assert!(found.contains("KEYS_ONLY : bool = true") && !found.contains("fn schema"), "{found}");
}

#[test]
fn a_mistake_is_refused_with_what_to_write_instead() {
    let cases = [
        (
            quote!(
                struct A;
            ),
            "group = \"demo.example.dev\"",
        ),
        (
            quote!(
                #[resource(group = "a.dev")]
                struct A;
            ),
            "version = \"v1\"",
        ),
        (
            quote!(
                #[resource(group = "A.dev", version = "v1")]
                struct A;
            ),
            "lower case",
        ),
        (
            quote!(
                #[resource(group = "a.dev", version = "v1", grop = "b")]
                struct A;
            ),
            "unknown attribute",
        ),
        (
            quote!(
                #[resource(group = "a.dev", group = "b.dev", version = "v1")]
                struct A;
            ),
            "given twice",
        ),
        (
            quote!(
                #[resource(group = "a.dev", version = "v1", scope = "cluster")]
                struct A;
            ),
            "one of Cluster, Namespaced",
        ),
        (
            quote!(
                #[resource(group = "a.dev", version = "v1", printcolumn(name = "A"))]
                struct A;
            ),
            "json_path",
        ),
        (
            quote!(
                #[resource(group = "a.dev", version = "v1", plural = "As")]
                struct A;
            ),
            "lower-case",
        ),
        (
            quote!(
                #[resource(group = "a.dev", version = "v1")]
                struct a;
            ),
            "CamelCase",
        ),
        (
            quote!(
                #[resource(group = "a.dev", version = "v1")]
                struct A<T>(T);
            ),
            "type parameters",
        ),
        (
            quote!(
                #[resource(group = "a.dev", version = "v1", keys_only, shortname = "a")]
                struct A;
            ),
            "somebody else's",
        ),
    ];
    for (input, expected) in cases {
        let found = refused(input);
        assert!(found.contains(expected), "{expected} is not in {found}");
    }
}
