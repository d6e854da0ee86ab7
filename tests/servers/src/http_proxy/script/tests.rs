use super::{HttpReply, HttpRule, WATCH, own_answer, take, verb};

#[test]
fn a_get_with_the_parameter_watch_is_a_watch() {
    assert_eq!(verb("GET", None), "GET");
    assert_eq!(verb("GET", Some("limit=500&fieldSelector=watch=1x")), "GET");
    assert_eq!(verb("GET", Some("limit=500&watch=true")), WATCH);
    assert_eq!(verb("GET", Some("watch=1")), WATCH);
    assert_eq!(verb("GET", Some("watch=false")), "GET");
}

#[test]
fn the_first_rule_that_applies_decides_as_often_as_it_says() {
    let rule = |verb, path: &str, times, code| HttpRule {
        verb,
        path: path.to_owned(),
        times,
        reply: HttpReply::Status { code, retry_after: None },
    };
    let mut rules = [rule(Some("PUT"), "/pods", Some(1), 500), rule(None, "/pods", None, 503)];
    let mut code = |verb, path| take(&mut rules, verb, path).and_then(|reply| Some(own_answer(&reply)?.status));
    assert_eq!(code("PUT", "/api/v1/nodes"), None);
    assert_eq!(code("GET", "/api/v1/pods"), Some(503));
    assert_eq!(code("PUT", "/api/v1/pods/a"), Some(500));
    assert_eq!(code("PUT", "/api/v1/pods/a"), Some(503));
}

#[test]
fn an_answer_of_the_proxy_has_the_form_of_an_apiserver() {
    let busy = own_answer(&HttpReply::Status { code: 429, retry_after: Some(2) }).unwrap();
    assert_eq!((busy.status, busy.retry_after), (429, Some(2)));
    assert_eq!(busy.document["reason"], "TooManyRequests");
    assert_eq!(busy.document["details"]["retryAfterSeconds"], 2);
    let expired = own_answer(&HttpReply::WatchError(410)).unwrap();
    assert_eq!(expired.status, 200);
    assert_eq!(expired.document["type"], "ERROR");
    assert_eq!(expired.document["object"]["code"], 410);
    assert_eq!(own_answer(&HttpReply::NoAnswer), None);
}
