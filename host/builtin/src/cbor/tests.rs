use serde_json::json;

use super::{LIST_END, append, decode, encode, list_head};

#[test]
fn a_document_survives_the_way_to_cbor_and_back() {
    let document = json!({
        "kind": "Thing", "list": [1, -1, 0, i64::MIN, u64::MAX, 1.5, 1e300, true, false, null, "ä"], "map": { "": {} },
        "text": "x".repeat(10_000),
    });
    let encoded = encode(&document);
    assert!(encoded.starts_with(&[0xD9, 0xD9, 0xF7]), "CBOR is recognised by its first bytes");
    // As Go does, so that clients can read them into bytes.
    assert!(encoded.windows(6).any(|bytes| bytes == b"\x45Thing"));
    assert_eq!(decode(&encoded), Ok(document));
}

#[test]
fn what_other_encoders_write_is_read() {
    for (bytes, document) in [
        (&b"\x65hello"[..], json!("hello")),
        (b"\x7f\x62he\x63llo\xff", json!("hello")),
        (b"\x9f\x01\xff", json!([1])),
        (b"\xbf\x61a\xf9\x3e\x00\xff", json!({ "a": 1.5 })),
        (b"\xd6\x43\x01\x02\x03", json!("AQID")),
        (b"\xc0\x6a2026-01-01", json!("2026-01-01")),
        (b"\xd9\xd9\xf7\xf6", json!(null)),
    ] {
        assert_eq!(decode(bytes), Ok(document), "{bytes:x?}");
    }
}

#[test]
fn malformed_and_endless_documents_are_refused() {
    let deep = [vec![0x81; 1000], vec![0x01]].concat();
    let many = [vec![0x9A, 0x00, 0x20, 0x00, 0x00], vec![0x01; 2 << 20]].concat();
    for bytes in [
        &b""[..],
        b"\xff",
        b"\x62a",
        b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x5b\x7f\xff\xff\xff\xff\xff\xff\xff\x00",
        b"\x62\xff\xff",
        b"\x01\x01",
        b"\xa2\x61a\x01\x61a\x02",
        b"\xa1\x01\x02",
        b"\xf9\x7e\x00",
        b"\xc1\x01",
        b"\xc2\x41\x01",
        b"\x3b\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\xf7",
        &deep,
        &many,
    ] {
        assert!(decode(bytes).is_err(), "{:x?}", &bytes[..bytes.len().min(16)]);
    }
}

#[test]
fn a_list_is_written_item_by_item() {
    let facts = json!({ "kind": "ThingList", "metadata": { "resourceVersion": "7" } });
    let mut list = list_head(facts.as_object().expect("it is an object"), "items");
    for item in [json!({ "a": 1 }), json!({ "b": 2 })] {
        append(&item, &mut list);
    }
    list.push(LIST_END);
    let whole =
        json!({ "kind": "ThingList", "metadata": { "resourceVersion": "7" }, "items": [{ "a": 1 }, { "b": 2 }] });
    assert_eq!(decode(&list), Ok(whole));
}
