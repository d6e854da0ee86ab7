//! The hosts of a fleet. Fleets of several hosts are tested with a real server.

use super::*;

const HOSTS: &str = "/apis/homeostat.dev/v1alpha1/hosts";

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

/// The hosts that `homeostat hosts` shows have the columns of the resources.
#[tokio::test]
async fn the_table_of_the_hosts_has_the_columns_of_their_kind() {
    let server = Server::start().await;
    let table = async |path: &str| {
        let accepted = "application/json;as=Table;g=meta.k8s.io;v=v1";
        answer(server.send("GET", path, accepted, "").await).await.body
    };
    let (live, stored) = (table("/homeostat/v1/hosts").await, table(HOSTS).await);
    assert_eq!((&live["kind"], &live["columnDefinitions"]), (&json!("Table"), &stored["columnDefinitions"]));
    let names: Vec<&Value> =
        live["columnDefinitions"].as_array().unwrap().iter().map(|column| &column["name"]).collect();
    let (narrow, wide) =
        (["Name", "This", "State", "Version", "Leases"], ["Address", "Processors", "Load", "Identity"]);
    assert_eq!(names, [&narrow[..], &wide].concat());
    let cells = &live["rows"][0]["cells"];
    assert_eq!((&cells[1], &cells[2], &cells[4]), (&json!("yes"), &json!("Active"), &json!("-")));
    assert_eq!(stored["rows"], json!([]), "this host keeps no resources of hosts");
}

#[tokio::test]
async fn clients_read_the_resources_of_hosts_and_the_host_alone_writes_them() {
    let server = Server::start().await;
    let metadata = json!({ "name": "a" });
    let host = json!({ "apiVersion": "homeostat.dev/v1alpha1", "kind": "Host", "metadata": metadata });
    server.host.store().write(homeostat_store::Write::Create { document: host.clone() }).await.unwrap();
    let one = format!("{HOSTS}/a");
    let other = json!({ "apiVersion": "homeostat.dev/v1alpha1", "kind": "Host", "metadata": { "name": "b" } });
    let status = format!("{one}/status");
    for (method, path, body) in [
        ("POST", HOSTS, &other),
        ("PUT", &*one, &host),
        ("PUT", &*status, &host),
        ("DELETE", &*one, &Value::Null),
        ("DELETE", HOSTS, &Value::Null),
    ] {
        let refused = server.ask(method, path, body).await;
        let message = refused.body["message"].as_str().unwrap_or_default().to_owned();
        assert_eq!(refused.code, 403, "{method} {path}: {}", refused.body);
        assert!(message.contains("homeostat.dev/v1alpha1/Host can only be read"), "{message}");
    }
    assert_eq!(server.get(&one).await["metadata"]["name"], "a");
    let resources = server.get("/apis/homeostat.dev/v1alpha1").await;
    let listed = |name: &str| resources["resources"].as_array().unwrap().iter().find(|it| it["name"] == name).cloned();
    let hosts = listed("hosts").unwrap();
    let shown = (&hosts["kind"], &hosts["namespaced"], &hosts["verbs"]);
    assert_eq!(shown, (&json!("Host"), &json!(false), &json!(["get", "list", "watch"])));
    assert!(listed("hosts/status").is_none());
}

#[tokio::test]
async fn a_drain_of_a_host_that_is_not_known_drains_none() {
    let server = Server::start().await;
    let hosts = server.get("/homeostat/v1/hosts").await;
    let name = hosts["items"][0]["name"].as_str().unwrap();
    for (query, code) in [("host=nobody", 404), ("hosts=nobody", 400), ("host=a&host=b", 400)] {
        let answer = server.ask("POST", &format!("/homeostat/v1/drain?{query}"), &Value::Null).await;
        assert_eq!(answer.code, code, "{query}: {}", answer.body);
        assert_eq!(server.get("/homeostat/v1/hosts").await["items"][0]["isDraining"], false, "{query}");
    }
    let own = server.ask("POST", &format!("/homeostat/v1/drain?host={}", name.to_uppercase()), &Value::Null).await;
    assert_eq!(own.code, 200, "{}", own.body);
    assert_eq!(server.get("/homeostat/v1/hosts").await["items"][0]["isDraining"], true);
}
