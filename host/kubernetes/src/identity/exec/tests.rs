use kube::config::{AuthInfo, ExecConfig};
use serde_json::json;

use super::{info, run};

fn shell(script: &str) -> ExecConfig {
    serde_json::from_value(json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "sh",
        "args": ["-c", script], "env": [{"name": "PRINTED_TOKEN", "value": "t"}]}))
    .unwrap()
}

#[tokio::test]
async fn a_plugin_prints_a_token_and_its_end() {
    let script = r#"printf '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1",
        "status":{"token":"%s","expirationTimestamp":"2026-01-02T03:04:05Z"}}' "$PRINTED_TOKEN""#;
    let mut auth = AuthInfo::default();
    let expires = run(&shell(script)).await.unwrap().put_into(&mut auth).unwrap();
    assert_eq!(expires.unwrap().to_string(), "2026-01-02T03:04:05Z");
    assert!(auth.token.is_some() && auth.client_certificate_data.is_none());
}

#[tokio::test]
async fn a_plugin_prints_a_certificate() {
    let script =
        r#"printf '{"kind":"ExecCredential","status":{"clientCertificateData":"cert","clientKeyData":"key"}}'"#;
    let mut auth = AuthInfo::default();
    assert_eq!(run(&shell(script)).await.unwrap().put_into(&mut auth).unwrap(), None);
    assert_eq!(auth.client_certificate_data.as_deref(), Some("Y2VydA=="));
    assert!(auth.client_key_data.is_some());
}

#[tokio::test]
async fn no_error_has_what_a_plugin_printed() {
    for script in ["echo secret; exit 1", "echo secret", r#"echo '{"kind":"ExecCredential","note":"secret"}'"#] {
        let reason = run(&shell(script)).await.unwrap_err();
        assert!(!reason.contains("secret"), "{reason}");
    }
    let missing = ExecConfig { command: Some("/no/such/plugin".to_owned()), ..ExecConfig::default() };
    assert!(run(&missing).await.unwrap_err().contains("cannot be run"));
    assert!(run(&ExecConfig::default()).await.is_err());
}

#[tokio::test]
async fn a_plugin_without_credentials_is_refused() {
    let printed = run(&shell(r#"echo '{"kind":"ExecCredential","status":{}}'"#)).await.unwrap();
    assert!(printed.put_into(&mut AuthInfo::default()).is_err());
}

#[test]
fn a_plugin_is_told_that_nobody_can_be_asked() {
    let told: serde_json::Value = serde_json::from_str(&info(&shell("")).unwrap()).unwrap();
    let expected = json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "spec": {"interactive": false}});
    assert_eq!(told, expected);
}
