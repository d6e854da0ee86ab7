//! The hosts of a fleet. Fleets of several hosts are tested with a real server.

use super::*;

#[tokio::test]
async fn a_host_lists_itself_and_says_whether_it_drains() {
    let server = Server::start().await;
    let is_draining = async || {
        let hosts = server.get("/homeostat/v1/hosts").await;
        let items = hosts["items"].as_array().unwrap();
        assert_eq!((items.len(), &items[0]["isThis"], &items[0]["leases"]), (1, &json!(true), &json!([])));
        assert_eq!((&items[0]["cpuMillicores"], &items[0]["leaseCpuMillicores"]), (&Value::Null, &json!({})));
        items[0]["isDraining"].as_bool().unwrap()
    };
    assert!(!is_draining().await);
    // Each of them can be repeated.
    for (verb, expected) in [("drain", true), ("drain", true), ("uncordon", false), ("uncordon", false)] {
        let answer = server.ask("POST", &format!("/homeostat/v1/{verb}"), &Value::Null).await;
        assert_eq!(answer.code, 200, "{verb}: {}", answer.body);
        assert_eq!(is_draining().await, expected, "{verb}");
    }
}

#[tokio::test]
async fn a_drain_is_no_read() {
    let server = Server::start().await;
    for verb in ["drain", "uncordon"] {
        let read = server.ask("GET", &format!("/homeostat/v1/{verb}"), &Value::Null).await;
        assert_eq!((read.code, &read.body["message"]), (405, &json!("this path changes something: use POST")));
    }
}
