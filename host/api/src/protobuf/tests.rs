use super::*;

/// A field with a string or a message.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let length = content.len();
    if length < 0x80 {
        bytes.push(length as u8);
    } else {
        bytes.extend([(length & 0x7F) as u8 | 0x80, (length >> 7) as u8]);
    }
    bytes.extend(content);
    bytes
}

fn body(metadata: &[u8], more: &[u8]) -> Vec<u8> {
    let kind = [field(1, b"v1"), field(2, b"Namespace")].concat();
    let raw = [&field(1, metadata), more].concat();
    [MAGIC, &field(1, &kind), &field(2, &raw), &field(3, b""), &field(4, b"")].concat()
}

#[test]
fn a_namespace_in_kubectls_protobuf_is_parsed() {
    // As a client in Go writes it, with empty strings and messages.
    let long = "x".repeat(200);
    let metadata = [
        field(1, b"red"),
        field(2, b""),
        field(3, b""),
        vec![7 << 3, 0],
        field(8, b""),
        field(11, &[field(1, b"team"), field(2, b"a")].concat()),
        field(12, &[field(1, b"note"), field(2, long.as_bytes())].concat()),
    ];
    let read = namespace(&body(&metadata.concat(), &[field(2, b""), field(3, &field(1, b""))].concat())).unwrap();
    let expected = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": "red", "generateName": "", "labels": { "team": "a" }, "annotations": { "note": long } },
    });
    assert_eq!(read, expected);
}

#[test]
fn unparsed_protobuf_field_is_refused() {
    let name = field(1, b"red");
    let cases = [
        (body(&[&name[..], &field(14, b"held")].concat(), b""), "field 14 of metadata"),
        (body(&[&name[..], &[7 << 3, 5]].concat(), b""), "field 7 of metadata"),
        (body(&name, &field(2, &field(1, b"kubernetes"))), "field 1 of spec"),
        (body(&name, &field(3, &field(1, b"Active"))), "field 1 of status"),
        (body(&name, &field(9, b"new")), "field 9 of the namespace"),
        ([&body(&name, b"")[..], &field(3, b"gzip")].concat(), "field 3 of the envelope"),
    ];
    for (body, expected) in cases {
        let refused = namespace(&body).unwrap_err();
        assert!(refused.contains(expected), "{refused}");
    }
}

#[test]
fn truncated_and_damaged_protobuf_never_panics() {
    let whole = body(&field(1, b"red"), b"");
    for end in 0..whole.len() {
        drop(namespace(&whole[..end]));
        for byte in [0, 0x7F, 0x80, 0xFF] {
            let mut wrong = whole.clone();
            wrong[end] = byte;
            drop(namespace(&wrong));
        }
    }
    assert!(namespace(b"{}").unwrap_err().contains("k8s"));
    let endless = [MAGIC, &[0x0A][..], &[0xFF; 12]].concat();
    assert!(namespace(&endless).unwrap_err().contains("64 bits"));
}

/// The envelope around `DeleteOptions`.
fn options(raw: &[u8]) -> Vec<u8> {
    let kind = [field(1, b"v1"), field(2, b"DeleteOptions")].concat();
    [MAGIC, &field(1, &kind), &field(2, raw), &field(3, b""), &field(4, b"")].concat()
}

#[test]
fn delete_options_are_parsed() {
    let preconditions = [field(1, b"u1"), field(2, b"7")].concat();
    let raw = [
        vec![1 << 3, 30],
        field(2, &preconditions),
        vec![3 << 3, 1],
        field(4, b"Orphan"),
        field(5, b"All"),
        vec![6 << 3, 0],
    ];
    let expected = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "orphanDependents": true, "propagationPolicy": "Orphan", "dryRun": ["All"],
        "preconditions": { "uid": "u1", "resourceVersion": "7" },
    });
    assert_eq!(delete_options(&options(&raw.concat())).unwrap(), expected);
    assert_eq!(delete_options(&options(b"")).unwrap()["dryRun"], json!([]));
}

#[test]
fn options_of_a_deletion_that_are_cut_off_or_unknown_are_refused() {
    let whole = options(&field(4, b"Orphan"));
    for end in 0..whole.len() {
        // If it is cut between two fields of the envelope, it parses and has fewer fields.
        if let Ok(read) = delete_options(&whole[..end]) {
            assert!(read["propagationPolicy"].is_null() || read["propagationPolicy"] == "Orphan", "{end}: {read}");
        }
    }
    for unknown in [vec![6 << 3, 1], field(7, b"x"), vec![3 << 3 | 5, 0, 0, 0, 0]] {
        assert!(delete_options(&options(&unknown)).is_err(), "{unknown:?}");
    }
    assert!(delete_options(b"{}").is_err());
}
