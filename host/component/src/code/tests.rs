use std::sync::Arc;

use super::{Code, Origin, make};
use crate::digest::Digest;
use crate::engine::{Engine, EngineOptions};
use crate::fixture;
use crate::grants::Grants;

fn engine() -> Engine {
    Engine::new(EngineOptions { instances_max: 2, ..EngineOptions::default() }).unwrap()
}

#[tokio::test]
async fn the_same_bytes_are_compiled_once_and_shared() {
    let (engine, grants) = (engine(), Grants::default());
    // Three at once, and one later.
    let (a, b, c) = tokio::join!(
        engine.load(fixture::good(), &grants),
        engine.load(fixture::good(), &grants),
        engine.load(fixture::good(), &grants)
    );
    let (a, b, c) = (a.unwrap(), b.unwrap(), c.unwrap());
    let later = engine.load(fixture::good(), &grants).await.unwrap();
    for other in [&b, &c, &later] {
        assert!(Arc::ptr_eq(&a.0.code, &other.0.code));
    }
    let different = engine.load(fixture::guest("global.get $spec", "unreachable"), &grants).await.unwrap();
    assert!(!Arc::ptr_eq(&a.0.code, &different.0.code));
}

#[tokio::test]
async fn code_that_nobody_has_is_forgotten() {
    let (engine, grants) = (engine(), Grants::default());
    let code = engine.load(fixture::good(), &grants).await.map(|component| Arc::downgrade(&component.0.code)).unwrap();
    assert!(code.upgrade().is_none());
    let different = engine.load(fixture::guest("global.get $spec", "unreachable"), &grants).await.unwrap();
    assert_eq!(engine.codes().0.lock().keys().collect::<Vec<_>>(), [different.digest()]);
}

#[test]
fn what_does_not_fit_the_pool_comes_back_from_the_cache_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let module = "(core module $m (memory 1))";
    let text = format!("(component {module} {})", "(core instance (instantiate $m))".repeat(5));
    let bytes = wat::parse_str(text).unwrap();
    let made = || -> Code {
        let compiled = Some(folder.path().join("compiled"));
        let engine = Engine::new(EngineOptions { instances_max: 2, compiled, ..EngineOptions::default() }).unwrap();
        make(&engine, &Digest::of(&bytes), &bytes).unwrap()
    };
    let (first, second) = (made(), made());
    assert_eq!((first.pooled, first.origin), (false, Origin::Compiled));
    assert_eq!((second.pooled, second.origin), (false, Origin::Cache));
}
