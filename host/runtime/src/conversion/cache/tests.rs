use serde_json::json;

use super::*;

fn resource(revision: u64, bytes: usize) -> (ConversionKey, Arc<Resource>) {
    let document = json!({
        "apiVersion": "example.com/v1", "kind": "Site", "metadata": { "name": "a", "uid": "u" }, "text": "x".repeat(bytes),
    });
    let (uid, version) = ("u".to_owned(), "v1".to_owned());
    let key = ConversionKey { converter: 0, code: None, uid, revision: Revision(revision), version };
    (key, Arc::new(Resource::from_document(document).unwrap()))
}

#[test]
fn cache_keeps_the_newest_resources_within_its_bytes() {
    let cache = ConversionCache::default();
    let mebibytes = BYTES_MAX >> 20;
    for revision in 1..=mebibytes {
        let (key, resource) = resource(revision, 1 << 20);
        cache.insert(key, resource);
    }
    assert!(cache.get(&resource(1, 0).0).is_none(), "the oldest had to leave");
    assert!(cache.get(&resource(mebibytes, 0).0).is_some());
    assert!(cache.0.lock().bytes <= BYTES_MAX);
    let (key, large) = resource(99, (BYTES_MAX + 1).try_into().unwrap());
    cache.insert(key.clone(), large);
    assert!(cache.get(&key).is_none(), "it is larger than the cache");
    assert!(cache.get(&resource(mebibytes, 0).0).is_some(), "it replaced no other");
}

#[test]
fn cache_keeps_a_bounded_number_of_resources() {
    let cache = ConversionCache::default();
    let (_, one) = resource(0, 0);
    let many = u64::try_from(RESOURCES_MAX).unwrap() + 10;
    for revision in 1..=many {
        cache.insert(resource(revision, 0).0, Arc::clone(&one));
        cache.insert(resource(revision, 0).0, Arc::clone(&one));
    }
    let cache = cache.0.lock();
    assert_eq!((cache.resources.len(), cache.order.len()), (RESOURCES_MAX, RESOURCES_MAX));
    assert_eq!(cache.bytes, one.bytes() * u64::try_from(RESOURCES_MAX).unwrap());
}
