use super::bounded;

#[test]
fn fields_are_cut_and_those_that_are_too_many_dropped() {
    let fields = bounded(vec![("n".repeat(5000), "v".repeat(5000)); 20]);
    assert_eq!(fields, vec![("n".repeat(128), "v".repeat(1024)); 16]);
    let short = vec![("name".to_owned(), "value".to_owned())];
    assert_eq!(bounded(short.clone()), short);
}
