//! A conversion webhook over TLS, which also misbehaves.
//!
//! Of the kind `Site`, `v1` has `spec.address`, and `v1beta1` has `spec.host` and `spec.port` in its place. Of the kind
//! `Measured`, `v1` has `spec.text`, and `v1alpha1` has `spec.words`.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::review_server::{Reply, ReviewServer};

/// What a webhook does with a review.
#[derive(Clone)]
pub(super) enum Behaviour {
    /// Converts, and changes the answer.
    Converts(fn(&mut Value)),
    /// Answers this text.
    Says(String),
    /// Never answers.
    Hangs,
}

/// A webhook. It stops when it is dropped.
pub(super) struct Webhook {
    server: ReviewServer,
    behaviour: Arc<Mutex<Behaviour>>,
}

impl Webhook {
    pub(super) async fn start() -> Self {
        let behaviour = Arc::new(Mutex::new(Behaviour::Converts(|_| {})));
        let current = Arc::clone(&behaviour);
        let server = ReviewServer::start(move |_, review| answer(&current.lock(), review)).await;
        Self { server, behaviour }
    }

    pub(super) fn set(&self, behaviour: Behaviour) {
        *self.behaviour.lock() = behaviour;
    }

    /// Converts, and changes each answer.
    pub(super) fn alters(&self, change: fn(&mut Value)) {
        self.set(Behaviour::Converts(change));
    }

    /// Returns the number of reviews so far.
    pub(super) fn reviews(&self) -> usize {
        self.server.reviews()
    }

    /// Returns `spec.conversion` of a definition that uses this webhook.
    pub(super) fn conversion(&self) -> Value {
        self.conversion_with_authority_of(self)
    }

    /// As [`Webhook::conversion`], with the authority of another webhook.
    pub(super) fn conversion_with_authority_of(&self, other: &Self) -> Value {
        let client = self.server.trusted_by("convert", &other.server.bundle());
        json!({ "strategy": "Webhook", "webhook": { "conversionReviewVersions": ["v1"], "clientConfig": client } })
    }
}

fn answer(behaviour: &Behaviour, review: &Value) -> Reply {
    match behaviour {
        Behaviour::Hangs => Reply::Silence,
        Behaviour::Says(text) => Reply::Text(text.clone()),
        Behaviour::Converts(change) => {
            let request = &review["request"];
            let desired = request["desiredAPIVersion"].as_str().unwrap();
            let objects = request["objects"].as_array().unwrap().iter();
            let converted: Vec<Value> = objects.map(|object| converted(object.clone(), desired)).collect();
            let response = json!({
                "uid": request["uid"], "result": { "status": "Success" }, "convertedObjects": converted,
            });
            let mut answer = json!({
                "apiVersion": review["apiVersion"], "kind": review["kind"], "response": response,
            });
            change(&mut answer);
            Reply::Review(answer)
        }
    }
}

fn converted(mut document: Value, desired: &str) -> Value {
    let is_stable = desired.ends_with("/v1");
    let is_measured = document["kind"] == "Measured";
    if let Some(spec) = document["spec"].as_object_mut() {
        if is_measured {
            let (from, to) = if is_stable { ("words", "text") } else { ("text", "words") };
            let text = spec.remove(from);
            spec.extend(text.map(|text| (to.to_owned(), text)));
        } else if is_stable {
            let (host, port) = (spec.remove("host"), spec.remove("port"));
            if let (Some(host), Some(port)) = (host.as_ref().and_then(Value::as_str), port) {
                spec.insert("address".to_owned(), format!("{host}:{port}").into());
            }
        } else if let Some(address) = spec.remove("address") {
            let (host, port) = address.as_str().unwrap().split_once(':').unwrap();
            spec.insert("host".to_owned(), host.into());
            spec.insert("port".to_owned(), port.parse::<u16>().unwrap().into());
        }
    }
    document["apiVersion"] = desired.into();
    document
}
