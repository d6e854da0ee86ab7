use super::bounded;

#[test]
fn log_fields_are_truncated_and_surplus_ones_dropped() {
    let fields = bounded(vec![("n".repeat(5000), "v".repeat(5000)); 20]);
    assert_eq!(fields, vec![("n".repeat(128), "v".repeat(1024)); 16]);
    let short = vec![("name".to_owned(), "value".to_owned())];
    assert_eq!(bounded(short.clone()), short);
}
