//! The acceptance of stores. That of a store that was replaced is tested with a real server.

use super::*;

#[tokio::test]
async fn an_acceptance_names_a_store_that_was_replaced_and_its_content() {
    let server = Server::start().await;
    let accept = async |store: &str, body: Value| {
        let answer = server.ask("POST", &format!("/homeostat/v1/stores/{store}/accept"), &body).await;
        (answer.code, answer.body["message"].as_str().unwrap_or_default().to_owned())
    };
    let (code, message) = accept("home", json!({"content": "x"})).await;
    assert_eq!((code, message.as_str()), (422, "store: its content was not replaced"));
    let (code, message) = accept("bus", json!({"content": "x"})).await;
    assert!(code == 404 && message.contains("store \"bus\""), "{code} {message}");
    for body in [Value::Null, json!({}), json!({"content": "x", "more": 1})] {
        let (code, message) = accept("home", body).await;
        assert!(code == 400 && message.contains("does not name the content to accept"), "{code} {message}");
    }
    let read = server.ask("GET", "/homeostat/v1/stores/home/accept", &Value::Null).await;
    assert_eq!((read.code, &read.body["message"]), (405, &json!("this path changes something: use POST")));
}
