use super::*;

#[test]
fn a_kubeconfig_has_the_options_of_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, token) = (folder.path().join("tls.crt"), folder.path().join("token"));
    std::fs::write(&authority, "PEM").unwrap();
    std::fs::write(&token, "secret-of-alice\n").unwrap();
    let global = Global {
        server: Some("https://host.example:6443".into()),
        certificate_authority: Some(authority),
        token_file: Some(token),
        namespace: Some("blue".into()),
        ..Global::default()
    };
    let config = document(&global).unwrap();
    let cluster = json!({ "server": "https://host.example:6443", "certificate-authority-data": "UEVN" });
    assert_eq!(config["clusters"][0]["cluster"], cluster);
    assert_eq!(config["users"][0]["user"], json!({ "token": "secret-of-alice" }));
    assert_eq!(config["contexts"][0]["context"]["namespace"], "blue");
}

#[test]
fn a_unix_socket_is_refused_for_kubectl() {
    let global = Global { server: Some("unix:/host.sock".into()), ..Global::default() };
    let error = document(&global).unwrap_err();
    assert_eq!(exit::reason_of(&error), exit::ExitReason::Usage);
    assert!(error.to_string().contains("--listen"), "{error}");
}
