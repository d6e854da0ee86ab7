use std::fs;

use super::*;

fn reference(text: &str) -> Reference {
    text.parse().unwrap()
}

async fn found(json: &str, artifact: &str) -> Result<Option<Credential>, Error> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.json");
    fs::write(&file, json).unwrap();
    find(&[folder.path().join("none.json"), file], &reference(artifact)).await
}

fn basic(username: &str, password: &str) -> Option<Credential> {
    Some(Credential::Basic { username: username.to_owned(), password: password.to_owned() })
}

#[tokio::test]
async fn credentials_are_found_under_every_name_that_tools_write() {
    // user:pass
    for name in
        ["ghcr.io", "https://ghcr.io", "https://ghcr.io/v1/", "https://ghcr.io/v2/", "ghcr.io/acme", "ghcr.io/acme/a"]
    {
        let json = format!(r#"{{"auths":{{"{name}":{{"auth":"dXNlcjpwYXNz"}}}}}}"#);
        assert_eq!(found(&json, "ghcr.io/acme/a:1").await.unwrap(), basic("user", "pass"), "{name}");
        assert_eq!(found(&json, "ghcr.io.example/acme/a:1").await.unwrap(), None, "{name}");
    }
    let json = r#"{"auths":{"ghcr.io":{"auth":"dXNlcjpwYXNz"},"ghcr.io/acme":{"username":"a","password":"b:c"}}}"#;
    assert_eq!(found(json, "ghcr.io/acme/a:1").await.unwrap(), basic("a", "b:c"), "the closest one");
    assert_eq!(found(json, "ghcr.io/acme2/a:1").await.unwrap(), basic("user", "pass"));
    let json = r#"{"auths":{"https://index.docker.io/v1/":{"auth":"dXNlcjpwYXNz"}}}"#;
    assert_eq!(found(json, "docker.io/library/a:1").await.unwrap(), basic("user", "pass"));
    let json = r#"{"auths":{"acr.example":{"auth":"x","identitytoken":"t"}}}"#;
    assert_eq!(found(json, "acr.example/a:1").await.unwrap(), Some(Credential::Identity { token: "t".to_owned() }));
    assert_eq!(found("{}", "acr.example/a:1").await.unwrap(), None);
    assert_eq!(format!("{:?}", basic("user", "pass").unwrap()), "Credential");
}

#[tokio::test]
async fn unusable_credentials_are_reported_without_quoting_them() {
    for json in [
        r#"{"auths":{"ghcr.io":{"auth":"c2VjcmV0"}}}"#,
        r#"{"auths":{"ghcr.io":{"auth":"secret!"}}}"#,
        r#"{"auths":{"ghcr.io":"secret"}}"#,
        r#"{"auths" secret"#,
        r#"{"credsStore":"../secret"}"#,
        r#"{"credsStore":"secret-that-nobody-has"}"#,
    ] {
        let error = found(json, "ghcr.io/a:1").await.unwrap_err().to_string();
        assert!(error.contains("config.json") && error.contains("ghcr.io"), "{error}");
        let is_name = json.contains("credsStore");
        assert!(is_name || !error.contains("secret"), "{error}");
    }
}
