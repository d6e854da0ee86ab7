use serde_json::{Value, json};

use super::*;

fn verb(part: &str, more: &Value) -> Result<KeyVerb, u16> {
    let mut body = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "web" });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let body: KeyBody = serde_json::from_value(body).map_err(|_| 400_u16)?;
    body.verb(part).map_err(|failure| failure.code())
}

#[test]
fn verb_accepts_only_its_own_arguments() {
    let day = Duration::from_secs(24 * 3600);
    let after = json!({ "afterMs": day.as_millis() as u64 });
    let now = KeyVerb::Enqueue { delay: Delay::default(), priority: Priority::NORMAL };
    assert_eq!(verb("queue/enqueue", &json!({})), Ok(now));
    let both = json!({ "afterMs": 250, "priority": "highest" });
    let soon = KeyVerb::Enqueue {
        delay: Delay { after: Duration::from_millis(250), hold: false },
        priority: Priority::HIGHEST,
    };
    assert_eq!(verb("queue/enqueue", &both), Ok(soon));
    let held = KeyVerb::Enqueue { delay: Delay { after: day, hold: true }, priority: Priority::NORMAL };
    assert_eq!(verb("queue/enqueue", &json!({ "afterMs": day.as_millis() as u64, "hold": true })), Ok(held));
    assert_eq!(verb("queue/enqueue", &json!({ "hold": true })), Err(400), "it must say how long");
    assert_eq!(verb("queue/retry", &json!({ "hold": true })), Err(400));
    assert_eq!(verb("queue/postpone", &after), Ok(KeyVerb::Postpone(day)));
    assert_eq!(verb("queue/postpone", &json!({})), Err(400), "it must say until when");
    for (part, expected) in
        [("queue/retry", KeyVerb::Retry), ("queue/cancel", KeyVerb::Cancel), ("queue/expedite", KeyVerb::Expedite)]
    {
        assert!(is_verb(part));
        assert_eq!(verb(part, &json!({})), Ok(expected));
        assert_eq!((verb(part, &after), verb(part, &json!({ "priority": "low" }))), (Err(400), Err(400)), "{part}");
    }
    assert!(!is_verb("queue/destroy") && !is_verb("queue"));
}

#[test]
fn invalid_key_verb_is_refused() {
    for more in [
        json!({ "priority": "urgent" }),
        json!({ "afterMs": u64::MAX }),
        json!({ "afterMs": -1 }),
        json!({ "after": "10s" }),
    ] {
        assert_eq!(verb("queue/enqueue", &more), Err(400), "{more}");
    }
}
