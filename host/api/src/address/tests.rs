use super::*;

#[test]
fn an_address_reads_back_as_it_is_printed() {
    for text in [
        "unix:/run/homeostat/host.sock",
        "http://127.0.0.1:8080",
        "http://[::1]:8080",
        "https://host.example:6443",
        "https://[::1]:6443",
        "https://0.0.0.0:6443",
    ] {
        assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
    }
}

#[test]
fn localhost_and_a_missing_scheme_are_understood() {
    let expected = Address::Tcp("127.0.0.1:8080".parse().unwrap());
    for text in ["localhost:8080", "http://localhost:8080/", "127.0.0.1:8080"] {
        assert_eq!(text.parse::<Address>().unwrap(), expected, "{text}");
    }
}

#[test]
fn invalid_address_is_refused_with_the_reason() {
    for (text, part) in [
        ("unix:", "the path is empty"),
        ("https://host.example", "the port is missing"),
        ("https://host.example/path:1", "neither a name nor an IP address"),
        ("https://::1:1", "neither a name nor an IP address"),
        ("localhost:99999", "65535"),
        ("host", "write unix:PATH"),
        ("http://127.0.0.1", "write unix:PATH"),
    ] {
        let message = text.parse::<Address>().unwrap_err().to_string();
        assert!(message.contains(part), "{text}: {message}");
    }
}
