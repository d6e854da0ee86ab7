use super::*;

#[test]
fn a_query_has_only_what_has_a_value_and_is_escaped() {
    let pairs =
        [("labelSelector", Some("a in (b, c)")), ("limit", None), ("key", Some("apps/v1/Deployment default/web"))];
    assert_eq!(
        with_query("/x", &pairs),
        "/x?labelSelector=a%20in%20%28b%2C%20c%29&key=apps/v1/Deployment%20default/web"
    );
    assert_eq!(with_query("/x", &[("a", None)]), "/x");
}

#[test]
fn a_refusal_is_read_from_a_status() {
    let found = refusal(404, br#"{"kind":"Status","message":"web not found","reason":"NotFound","code":404}"#);
    assert_eq!((found.code, found.to_string()), (404, "web not found (NotFound)".to_owned()));
}

#[test]
fn a_host_that_asks_for_a_token_is_told_how_to_get_one() {
    let found = refusal(401, br#"{"kind":"Status","message":"Unauthorized","reason":"Unauthorized","code":401}"#);
    assert!(found.to_string().contains("--token-file"), "{found}");
}

#[test]
fn a_refusal_without_a_status_has_its_code() {
    assert_eq!(refusal(502, b"<html>").to_string(), "the host answered with the code 502");
}

#[tokio::test]
async fn a_host_that_is_not_there_is_unreachable_and_the_way_to_start_one_is_said() {
    let global = Global { server: Some("unix:/nonexistent/homeostat.sock".into()), ..Global::default() };
    let error = Client::new(&global).unwrap().get("/livez").await.unwrap_err();
    assert_eq!(exit::code_of(&error), exit::Code::Unavailable);
    assert!(error.to_string().contains("homeostat run"), "{error}");
}
