use serde_json::{Value, json};

use super::{Format, is_known_format};

#[track_caller]
fn format(name: &str, good: &[Value], bad: &[Value]) {
    let format = Format::named(name).expect("known");
    assert_eq!(format.name(), name);
    for value in good {
        assert!(format.holds(value), "{value}");
    }
    for value in bad {
        assert!(!format.holds(value), "{value}");
    }
}

fn texts<const N: usize>(texts: [&str; N]) -> [Value; N] {
    texts.map(Value::from)
}

#[test]
fn numbers_fit_their_bits() {
    format("int32", &[json!(i32::MIN), json!(i32::MAX), json!(1.5), json!("a")], &[json!(1_i64 << 31), json!(-1e10)]);
    format("int64", &[json!(i64::MIN), json!(i64::MAX), json!(1e18)], &[json!(u64::MAX), json!(1e19)]);
}

#[test]
fn times_are_those_of_the_calendar() {
    format(
        "date",
        &texts(["2024-02-29"]),
        &texts(["2023-02-29", "2024-2-29", "20240229", "2024-02-29T00", "", "ä2024-02-2"]),
    );
    format(
        "date-time",
        &texts(["2024-02-29T23:59:59Z", "2024-02-29t00:00:00.123456789+01:30", "2024-02-29 00:00:00Z"]),
        &texts([
            "2024-02-29",
            "2024-02-29T00:00Z",
            "2024-02-29T24:00:01Z",
            "2024-02-30T00:00:00Z",
            "2024-02-29T00:00:00",
            "now",
            "2024-02-29ä00:00:00Z",
        ]),
    );
    format(
        "duration",
        &texts(["0", "0s", "1h30m", "-1.5s", "300ms", "10µs", "3 days", "2w", "1 hour 5 minutes", "2160h0m0s"]),
        &texts(["", "1", "h", "1x", "1..5s", ".s", "-", "1h 30", "1h-5m"]),
    );
}

#[test]
fn addresses_are_well_formed() {
    format("ipv4", &texts(["127.0.0.1"]), &texts(["127.0.0.256", "127.1", "::1", "01.0.0.0"]));
    format("ipv6", &texts(["::1", "fe80::1:2"]), &texts(["127.0.0.1", "fe80::1%eth0", ":::"]));
    format(
        "hostname",
        &texts(["a", "a-b.example.dev", "Example.dev."]),
        &texts(["", "-a", "a..b", "a_b", &"a".repeat(64)]),
    );
    format("email", &texts(["a@b", "a.b+c@example.dev"]), &texts(["a", "@b", "a@", "a b@c", "a@b@c", "a@.b"]));
    format(
        "uri",
        &texts(["https://example.dev/a?b=c#d", "mailto:a@b", "/a/b"]),
        &texts(["", "example.dev", "a b:c", "https:", "1http://a", "http://a\nb"]),
    );
}

#[test]
fn encodings_are_whole() {
    format(
        "byte",
        &texts(["", "YQ==", "YWI=", "YWJj", "YWJj\nYWJj"]),
        &texts(["Y", "YQ=", "YQ===", "=YQ=", "Y-_j", "YQ==YQ=="]),
    );
    format(
        "uuid",
        &texts(["123e4567-e89b-12d3-a456-426614174000", "123E4567e89b12d3a456426614174000"]),
        &texts([
            "",
            "123e4567-e89b-12d3-a456-42661417400",
            "123e4567--e89b12d3a456426614174000",
            "123e-4567e89b12d3a456426614174000",
        ]),
    );
}

#[test]
fn unknown_formats_are_ignored() {
    assert_eq!(Format::named("of-our-own"), None);
    assert!(Format::Date.holds(&json!(1)));
}

#[test]
fn codes_have_their_digits_of_control() {
    format(
        "mac",
        &texts(["00:1a:2B:3c:4d:5e", "00-1a-2b-3c-4d-5e", "001a.2b3c.4d5e"]),
        &texts(["", "00:1a", "001a2b3c4d5e"]),
    );
    format(
        "isbn10",
        &texts(["0321751043", "0-321-75104-3", "155860832X"]),
        &texts(["0321751044", "978-0321751041", "x"]),
    );
    format("isbn13", &texts(["978-0321751041"]), &texts(["978-0321751042", "0321751043"]));
    format("isbn", &texts(["0321751043", "9780321751041"]), &texts(["1"]));
    format("creditcard", &texts(["4111-1111-1111-1111", "378282246310005"]), &texts(["4111111111111112", "1", "ä"]));
    format("ssn", &texts(["111-11-1111", "111 11 1111"]), &texts(["111-1-1111", "111-11-11111", "111111111", "ä"]));
    format("hexcolor", &texts(["#FFFFFF", "abc"]), &texts(["#ffff", "#ggg", "", "ä1"]));
    format("rgbcolor", &texts(["rgb(0, 1,255)"]), &texts(["rgb(256,0,0)", "rgb(01,0,0)", "rgb(1,2)", "rgb(,,)"]));
    format("bsonobjectid", &texts(["60a7903427a1e60fd17c9b3e"]), &texts(["60a7903427a1e60fd17c9b3", "ä"]));
}

#[test]
fn names_and_ids_have_their_forms() {
    format("k8s-short-name", &texts(["a-1"]), &texts(["a.b", "A", "-a", ""]));
    format("k8s-long-name", &texts(["a-1.b"]), &texts(["a..b", "A", ""]));
    format("uuid3", &texts(["a3bb189e-8bf9-3888-9912-ace4e6543002"]), &texts(["a3bb189e-8bf9-4888-9912-ace4e6543002"]));
    format("uuid4", &texts(["A3BB189E-8BF9-4888-9912-ACE4E6543002"]), &texts(["a3bb189e-8bf9-4888-c912-ace4e6543002"]));
    format("uuid5", &texts(["a3bb189e8bf958889912ace4e6543002"]), &texts(["a3bb189e-8bf9-4888-9912-ace4e6543002"]));
}

#[test]
fn formats_are_known_for_the_types_that_they_suit() {
    let known =
        [("date-time", "string"), ("uuid", ""), ("int32", "integer"), ("double", "number"), ("k8sshortname", "string")];
    assert_eq!(known.map(|(name, of_type)| is_known_format(name, of_type)), [true; 5]);
    let unknown =
        [("ip", "string"), ("int32", "string"), ("uuid", "object"), ("int16", "integer"), ("date", "integer")];
    assert_eq!(unknown.map(|(name, of_type)| is_known_format(name, of_type)), [false; 5]);
}
