//! The acceptance of stores, and moves between them. Both are tested with real servers, too.

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

#[tokio::test]
async fn a_move_names_a_kind_and_a_store_that_the_host_has() {
    let server = Server::start().await;
    let event = json!({"apiVersion": "v1", "kind": "Event"});
    for step in ["copy", "prune"] {
        for (body, code, expected) in [
            (Value::Null, 400, "does not name the kind to move"),
            (json!({"apiVersion": "v1", "kind": "Event", "more": 1}), 400, "does not name the kind to move"),
            (json!({"apiVersion": "none.dev/v1", "kind": "None"}), 404, "knows no kind none.dev/v1/None"),
            (event.clone(), 404, "store \"bus\""),
        ] {
            let answer = server.ask("POST", &format!("/homeostat/v1/stores/bus/{step}"), &body).await;
            let message = answer.body["message"].as_str().unwrap_or_default();
            assert!(answer.code == code && message.contains(expected), "{step} {body}: {} {message}", answer.code);
        }
        let read = server.ask("GET", &format!("/homeostat/v1/stores/bus/{step}"), &Value::Null).await;
        assert_eq!(read.code, 405);
    }
}
