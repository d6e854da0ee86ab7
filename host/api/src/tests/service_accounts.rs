//! Tokens of service accounts, and requests that act as another user.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use super::clients::ask_with;
use super::*;
use crate::service_accounts::ServiceAccountTokens;

const CORE: &str = "/api/v1/namespaces/default";
const RULES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// Starts a server without a file of tokens, and creates the service account `robot`.
async fn with_account() -> Server {
    let server = Server::with_built_in().await;
    let account = json!({ "metadata": { "name": "robot" } });
    assert_eq!(server.ask("POST", &format!("{CORE}/serviceaccounts"), &account).await.code, 201);
    server
}

async fn request(server: &Server, spec: Value) -> Answer {
    let body = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec });
    server.ask("POST", &format!("{CORE}/serviceaccounts/robot/token"), &body).await
}

async fn token(server: &Server, spec: Value) -> String {
    let answer = request(server, spec).await;
    assert_eq!(answer.code, 201, "{}", answer.body);
    answer.body["status"]["token"].as_str().unwrap().to_owned()
}

/// Sends a request with further headers.
async fn with(server: &Server, headers: &[(&str, &str)], method: &str, path: &str, body: &Value) -> Answer {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let headers = [headers, &[("content-type", "application/json")]].concat();
    ask_with(server, method, path, &headers, body).await
}

async fn by_token(server: &Server, token: &str, path: &str) -> Answer {
    with(server, &[("authorization", &format!("Bearer {token}"))], "GET", path, &Value::Null).await
}

async fn review(server: &Server, token: &str, audiences: Value) -> Value {
    let body = json!({ "spec": { "token": token, "audiences": audiences } });
    let answer = server.ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", &body).await;
    assert_eq!(answer.code, 201, "{}", answer.body);
    answer.body["status"].clone()
}

fn claims(token: &str) -> Value {
    let claims = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap()
}

/// Lets the account `robot` list config maps, and waits until the server knows it.
async fn let_list(server: &Server) {
    let role = json!({
        "metadata": { "name": "reader" },
        "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"] }],
    });
    assert_eq!(server.ask("POST", &format!("{RULES}/roles"), &role).await.code, 201);
    let binding = json!({
        "metadata": { "name": "reader" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader" },
        "subjects": [{ "kind": "ServiceAccount", "name": "robot", "namespace": "default" }],
    });
    let created = server.ask("POST", &format!("{RULES}/rolebindings"), &binding).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let asked = json!({ "spec": {
        "user": "system:serviceaccount:default:robot",
        "resourceAttributes": { "verb": "list", "resource": "configmaps", "namespace": "default" },
    } });
    let is_allowed = async || {
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        server.ask("POST", path, &asked).await.body["status"]["allowed"] == true
    };
    soon(async {
        while !is_allowed().await {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_token_names_its_account_its_audiences_and_its_end() {
    let server = with_account().await;
    let answer = request(&server, json!({ "audiences": ["a", "b"], "expirationSeconds": 700 })).await;
    let body = &answer.body;
    assert_eq!((answer.code, &body["kind"]), (201, &json!("TokenRequest")), "{body}");
    assert_eq!(body["spec"], json!({ "audiences": ["a", "b"], "expirationSeconds": 700 }));
    let account = server.get(&format!("{CORE}/serviceaccounts/robot")).await;
    assert_eq!(body["metadata"]["uid"], account["metadata"]["uid"]);
    let claims = claims(body["status"]["token"].as_str().unwrap());
    assert_eq!((&claims["iss"], &claims["aud"]), (&json!(ISSUER), &json!(["a", "b"])));
    assert_eq!(claims["sub"], "system:serviceaccount:default:robot");
    let named = json!({ "name": "robot", "uid": account["metadata"]["uid"] });
    assert_eq!(claims["kubernetes.io"], json!({ "namespace": "default", "serviceaccount": named }));
    assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 700);
    let plain = request(&server, json!({})).await.body;
    assert_eq!(plain["spec"], json!({ "audiences": [ISSUER], "expirationSeconds": 3600 }));
}

#[tokio::test]
async fn a_request_for_a_token_is_checked() {
    let server = with_account().await;
    for (spec, code, cause) in [
        (json!({ "expirationSeconds": 599 }), 422, "spec.expirationSeconds"),
        (json!({ "expirationSeconds": (1_i64 << 32) + 1 }), 422, "spec.expirationSeconds"),
        (json!({ "expirationSeconds": "x" }), 400, ""),
        (json!({ "audiences": vec!["a"; 65] }), 400, ""),
        (json!({ "audiences": ["a".repeat(1025)] }), 400, ""),
        (json!({ "boundObjectRef": { "kind": "Pod", "apiVersion": "v1", "name": "none" } }), 404, ""),
        (json!({ "boundObjectRef": { "kind": "ConfigMap", "apiVersion": "v1", "name": "a" } }), 400, ""),
    ] {
        let answer = request(&server, spec.clone()).await;
        let found = answer.body["details"]["causes"][0]["field"].as_str().unwrap_or_default().to_owned();
        assert_eq!((answer.code, found.as_str()), (code, cause), "{spec}: {}", answer.body);
        assert_eq!(answer.body["status"], "Failure");
    }
    let none = server.ask("POST", &format!("{CORE}/serviceaccounts/none/token"), &json!({})).await;
    assert_eq!((none.code, &none.body["reason"]), (404, &json!("NotFound")));
    let read = server.ask("GET", &format!("{CORE}/serviceaccounts/robot/token"), &Value::Null).await;
    assert_eq!(read.code, 405);
    let other = json!({ "metadata": { "name": "other" } });
    assert_eq!(server.ask("POST", &format!("{CORE}/serviceaccounts/robot/token"), &other).await.code, 422);
    let uid = json!({ "metadata": { "uid": "another" } });
    assert_eq!(server.ask("POST", &format!("{CORE}/serviceaccounts/robot/token"), &uid).await.code, 409);
}

#[tokio::test]
async fn a_token_has_the_rights_of_its_account_alone() {
    let server = with_account().await;
    let maps = format!("{CORE}/configmaps");
    let token = token(&server, json!({})).await;
    let refused = by_token(&server, &token, &maps).await;
    let words = "configmaps is forbidden: User \"system:serviceaccount:default:robot\" cannot list resource \"configmaps\" in \
                 API group \"\" in the namespace \"default\"";
    assert_eq!((refused.code, &refused.body["message"]), (403, &json!(words)));
    let_list(&server).await;
    assert_eq!(by_token(&server, &token, &maps).await.code, 200);
    assert_eq!(by_token(&server, &token, &format!("{CORE}/secrets")).await.code, 403);
    // Without a token, a program on this machine may do everything, and so it may with one that this host did not issue.
    assert_eq!(server.ask("GET", &maps, &Value::Null).await.code, 200);
    assert_eq!(by_token(&server, "some-other-token", &maps).await.code, 200);
}

#[tokio::test]
async fn a_token_that_was_changed_or_is_for_others_is_refused() {
    let server = with_account().await;
    let good = token(&server, json!({})).await;
    let parts: Vec<&str> = good.split('.').collect();
    let mut more = claims(&good);
    more["sub"] = "system:serviceaccount:kube-system:root".into();
    let forged = [parts[0], &URL_SAFE_NO_PAD.encode(more.to_string()), parts[2]].join(".");
    let unsigned = [&*URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#), parts[1], ""].join(".");
    let other = Server::with_built_in().await;
    let account = json!({ "metadata": { "name": "robot" } });
    assert_eq!(other.ask("POST", &format!("{CORE}/serviceaccounts"), &account).await.code, 201);
    let foreign = token(&other, json!({})).await;
    let for_others = token(&server, json!({ "audiences": ["vault"] })).await;
    for (token, reason) in [
        (forged, "the signature is not that of this host"),
        (unsigned, "could not be validated"),
        (foreign, "the signature is not that of this host"),
        (for_others, "token audiences do not match"),
    ] {
        assert_eq!(by_token(&server, &token, &format!("{CORE}/configmaps")).await.code, 401, "{reason}");
        let status = review(&server, &token, json!([])).await;
        assert_eq!(status["authenticated"], false);
        assert!(status["error"].as_str().unwrap().contains(reason), "{status}");
    }
}

#[tokio::test]
async fn a_review_tells_whose_token_it_is_and_for_which_audiences() {
    let server = with_account().await;
    let account = server.get(&format!("{CORE}/serviceaccounts/robot")).await;
    let token = token(&server, json!({ "audiences": ["vault", ISSUER] })).await;
    let status = review(&server, &token, json!(["vault", "x"])).await;
    assert_eq!((&status["authenticated"], &status["audiences"]), (&json!(true), &json!(["vault"])));
    let user = &status["user"];
    assert_eq!(user["username"], "system:serviceaccount:default:robot");
    assert_eq!(user["uid"], account["metadata"]["uid"]);
    let groups = ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"];
    assert_eq!(user["groups"], json!(groups));
    let id = user["extra"]["authentication.kubernetes.io/credential-id"][0].as_str().unwrap();
    assert_eq!(id, format!("JTI={}", claims(&token)["jti"].as_str().unwrap()));
    assert_eq!(review(&server, &token, json!([])).await["audiences"], json!([ISSUER]));
    assert_eq!(review(&server, &token, json!(["x"])).await["authenticated"], false);
    assert_eq!(review(&server, "unknown", json!([])).await["authenticated"], false);
    let empty = json!({ "spec": {} });
    assert_eq!(server.ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", &empty).await.code, 400);
}

#[tokio::test]
async fn a_token_ends_with_its_account() {
    let server = with_account().await;
    let token = token(&server, json!({})).await;
    assert_eq!(review(&server, &token, json!([])).await["authenticated"], true);
    let path = format!("{CORE}/serviceaccounts/robot");
    assert_eq!(server.ask("DELETE", &path, &Value::Null).await.code, 200);
    assert_eq!(by_token(&server, &token, "/api").await.code, 401);
    // Another account of the same name has another uid.
    let account = json!({ "metadata": { "name": "robot" } });
    assert_eq!(server.ask("POST", &format!("{CORE}/serviceaccounts"), &account).await.code, 201);
    assert_eq!(review(&server, &token, json!([])).await["authenticated"], false);
}

#[tokio::test]
async fn a_bound_token_ends_with_its_pod_or_secret() {
    let server = with_account().await;
    let containers = json!([{ "name": "c", "image": "i" }]);
    for (name, account) in [("mine", "robot"), ("other", "default")] {
        let spec = json!({ "serviceAccountName": account, "containers": containers, "nodeName": "n1" });
        let pod = json!({ "metadata": { "name": name }, "spec": spec });
        assert_eq!(server.ask("POST", &format!("{CORE}/pods"), &pod).await.code, 201);
    }
    let secret = json!({ "metadata": { "name": "mine" } });
    assert_eq!(server.ask("POST", &format!("{CORE}/secrets"), &secret).await.code, 201);
    let to = |kind: &str, name: &str, uid: &str| json!({ "boundObjectRef": { "apiVersion": "v1", "kind": kind, "name": name, "uid": uid } });
    assert_eq!(request(&server, to("Pod", "other", "")).await.code, 400);
    assert_eq!(request(&server, to("Pod", "mine", "another")).await.code, 409);
    for (kind, plural) in [("Pod", "pods"), ("Secret", "secrets")] {
        let token = token(&server, to(kind, "mine", "")).await;
        let status = review(&server, &token, json!([])).await;
        assert_eq!(status["authenticated"], true, "{kind}");
        if kind == "Pod" {
            let extra = &status["user"]["extra"];
            assert_eq!(extra["authentication.kubernetes.io/pod-name"], json!(["mine"]));
            assert_eq!(extra["authentication.kubernetes.io/node-name"], json!(["n1"]));
        }
        let path = format!("{CORE}/{plural}/mine");
        if kind == "Pod" {
            assert_eq!(server.ask("DELETE", &path, &Value::Null).await.code, 200);
            let status = review(&server, &token, json!([])).await;
            assert_eq!(status["authenticated"], true, "its containers have a grace period");
        }
        assert_eq!(server.ask("DELETE", &format!("{path}?gracePeriodSeconds=0"), &Value::Null).await.code, 200);
        assert_eq!(review(&server, &token, json!([])).await["authenticated"], false, "{kind}");
    }
}

#[tokio::test]
async fn streams_end_with_the_account_of_their_token() {
    let folder = tempfile::tempdir().unwrap();
    let key = Some(folder.path().join("key"));
    let store = std::sync::Arc::new(MemoryStore::new(StoreOptions::default()));
    let options = Options { service_account_key: key.clone(), ..Options::default() };
    let server = Server::serving(BuiltInGroups::All, store, options).await;
    let account = json!({ "metadata": { "name": "robot" } });
    assert_eq!(server.ask("POST", &format!("{CORE}/serviceaccounts"), &account).await.code, 201);
    let token = token(&server, json!({})).await;
    let accounts = ServiceAccountTokens::open(key, server.host.clone()).unwrap();
    let found = accounts.authenticate(&token, &[]).await.unwrap().unwrap();
    let is_over = async || {
        tokio::time::pause();
        let ended = tokio::time::timeout(Duration::from_secs(60), accounts.revoked(&found)).await.is_ok();
        tokio::time::resume();
        ended
    };
    assert!(!is_over().await);
    assert_eq!(server.ask("DELETE", &format!("{CORE}/serviceaccounts/robot"), &Value::Null).await.code, 200);
    assert!(is_over().await);
}

#[tokio::test]
async fn a_request_acts_as_the_user_that_it_names() {
    let server = with_account().await;
    let_list(&server).await;
    let robot = [("impersonate-user", "system:serviceaccount:default:robot")];
    let get = async |headers: &[(&str, &str)], path: &str| with(&server, headers, "GET", path, &Value::Null).await.code;
    assert_eq!(get(&robot, &format!("{CORE}/configmaps")).await, 200);
    assert_eq!(get(&robot, &format!("{CORE}/secrets")).await, 403);
    assert_eq!(get(&[("impersonate-user", "nobody")], &format!("{CORE}/configmaps")).await, 403);
    let masters = [("impersonate-user", "x"), ("impersonate-group", "system:masters")];
    assert_eq!(get(&masters, &format!("{CORE}/secrets")).await, 200);
    assert_eq!(get(&[("impersonate-group", "system:masters")], "/api").await, 400);
    let who = with(&server, &masters, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({})).await;
    let user = json!({ "username": "x", "groups": ["system:masters", "system:authenticated"] });
    assert_eq!(who.body["status"]["userInfo"], user);
    // An account may act as another user only with the right to do so.
    let token = format!("Bearer {}", token(&server, json!({})).await);
    let refused =
        with(&server, &[("authorization", &token), masters[0], masters[1]], "GET", "/api", &Value::Null).await;
    let words = "users \"x\" is forbidden: User \"system:serviceaccount:default:robot\" cannot impersonate resource \"users\" \
                 in API group \"\" at the cluster scope";
    assert_eq!((refused.code, &refused.body["message"]), (403, &json!(words)));
}

#[tokio::test]
async fn a_request_for_a_certificate_says_who_makes_it() {
    let server = Server::with_built_in().await;
    let body = "-----BEGIN CERTIFICATE REQUEST-----\nMAA=\n-----END CERTIFICATE REQUEST-----\n";
    let spec = json!({
        "request": STANDARD.encode(body), "signerName": "example.com/s", "usages": ["client auth"],
        "username": "somebody", "groups": ["system:masters"],
    });
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let request = json!({ "metadata": { "name": "c" }, "spec": spec });
    let headers = [("impersonate-user", "alice"), ("impersonate-group", "system:masters"), ("impersonate-uid", "7")];
    let made = with(&server, &headers, "POST", path, &request).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let spec = &made.body["spec"];
    assert_eq!((&spec["username"], &spec["uid"]), (&json!("alice"), &json!("7")));
    assert_eq!(spec["groups"], json!(["system:masters", "system:authenticated"]));
}

#[tokio::test]
async fn others_find_the_key_that_verifies_tokens() {
    let server = with_account().await;
    let token = token(&server, json!({})).await;
    let configuration = server.get("/.well-known/openid-configuration").await;
    assert_eq!(configuration["issuer"], ISSUER);
    assert_eq!(configuration["jwks_uri"], "http://localhost/openid/v1/jwks");
    let keys = server.get("/openid/v1/jwks").await;
    let key = &keys["keys"][0];
    let header = URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap()).unwrap();
    let header: Value = serde_json::from_slice(&header).unwrap();
    assert_eq!((&key["kid"], &header["alg"]), (&header["kid"], &json!("ES256")));
    assert_eq!((&key["kty"], &key["crv"], key.get("d")), (&json!("EC"), &json!("P-256"), None));
    let public: jsonwebtoken::jwk::Jwk = serde_json::from_value(key.clone()).unwrap();
    let public = jsonwebtoken::DecodingKey::from_jwk(&public).unwrap();
    let mut validation = jsonwebtoken::Validation::new(jsonwebtoken::Algorithm::ES256);
    validation.set_audience(&[ISSUER]);
    assert!(jsonwebtoken::decode::<Value>(&token, &public, &validation).is_ok());
}

#[tokio::test]
async fn a_key_in_a_file_outlives_the_server_and_a_bad_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let options = || Options { service_account_key: Some(path.clone()), ..Options::default() };
    let store: std::sync::Arc<dyn Store> = std::sync::Arc::new(MemoryStore::new(StoreOptions::default()));
    let first = Server::serving(BuiltInGroups::All, store.clone(), options()).await;
    let account = json!({ "metadata": { "name": "robot" } });
    assert_eq!(first.ask("POST", &format!("{CORE}/serviceaccounts"), &account).await.code, 201);
    assert!(!path.exists(), "no token was asked for");
    let token = token(&first, json!({})).await;
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let second = Server::serving(BuiltInGroups::All, store, options()).await;
    assert_eq!(review(&second, &token, json!([])).await["authenticated"], true);
    for content in ["", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
        std::fs::write(&path, content).unwrap();
        let refused = serve(Options { address: "http://127.0.0.1:0".into(), ..options() }, first.host.clone()).await;
        assert!(matches!(refused, Err(crate::Error::ServiceAccountKey { .. })), "{content:?}");
    }
}

#[tokio::test]
async fn a_token_in_a_secret_is_valid_as_long_as_the_secret_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let store = std::sync::Arc::new(MemoryStore::new(StoreOptions::default()));
    let pair = rcgen::KeyPair::generate().unwrap();
    crate::private_file::write(&path, &pair.serialize_pem()).unwrap();
    let options = Options { service_account_key: Some(path), ..Options::default() };
    let server = Server::serving(BuiltInGroups::All, store, options).await;
    let account = json!({ "metadata": { "name": "robot" } });
    let account = server.ask("POST", &format!("{CORE}/serviceaccounts"), &account).await.body;
    // As kube-controller-manager makes them.
    let claims = json!({
        "iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:default:robot",
        "kubernetes.io/serviceaccount/namespace": "default",
        "kubernetes.io/serviceaccount/secret.name": "robot-token",
        "kubernetes.io/serviceaccount/service-account.name": "robot",
        "kubernetes.io/serviceaccount/service-account.uid": account["metadata"]["uid"],
    });
    let header = jsonwebtoken::Header::new(jsonwebtoken::Algorithm::ES256);
    let key = jsonwebtoken::EncodingKey::from_ec_der(pair.serialized_der());
    let token = jsonwebtoken::encode(&header, &claims, &key).unwrap();
    assert_eq!(review(&server, &token, json!([])).await["authenticated"], false, "there is no secret");
    let secret = json!({
        "metadata": { "name": "robot-token", "annotations": { "kubernetes.io/service-account.name": "robot" } },
        "type": "kubernetes.io/service-account-token", "data": { "token": STANDARD.encode(&token) },
    });
    let created = server.ask("POST", &format!("{CORE}/secrets"), &secret).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let status = review(&server, &token, json!([])).await;
    assert_eq!((&status["authenticated"], &status["user"]["uid"]), (&json!(true), &account["metadata"]["uid"]));
    assert_eq!(review(&server, &token, json!(["vault"])).await["authenticated"], false);
    let marked = json!({ "metadata": { "labels": { "kubernetes.io/legacy-token-invalid-since": "2026-01-01" } } });
    let path = format!("{CORE}/secrets/robot-token");
    let patched = server.send("PATCH", &path, "application/merge-patch+json", &marked.to_string()).await;
    assert_eq!(patched.status(), 200);
    assert_eq!(review(&server, &token, json!([])).await["authenticated"], false);
}
