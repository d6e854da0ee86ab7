//! A component is refused with a reason, or loaded, with the same result twice. Its description is within the
//! limits of the contract.

use std::sync::OnceLock;

use anyhow::{Context, Result};
use homeostat_component::{Engine, EngineOptions};

use crate::target::{Acceptance, Outcome, must, same};
use crate::test_store;

/// One engine for all inputs, because starting one takes longer than most inputs.
fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let options = EngineOptions { instances_max: 1, parallel_compilation: false, ..EngineOptions::default() };
        Engine::new(options).expect("an engine for one guest starts")
    })
}

/// Compiles the texts to components.
pub(crate) fn inputs(texts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
    texts
        .iter()
        .map(|text| wat::parse_bytes(text).map(Into::into).context("a text of the corpus is no component"))
        .collect()
}

pub(crate) fn judge(input: &[u8]) -> Outcome {
    let load = || test_store::wait(engine().load(input));
    let (first, second) = match (load(), load()) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(first), Err(second)) => {
            must("a refusal has a reason", !first.reasons.is_empty())?;
            same("a component is refused for the same twice", &first, &second)?;
            return Ok(Acceptance::Rejected);
        }
        (first, second) => return Err(format!("a component is refused once: {first:?}, {second:?}")),
    };
    same("a component is the same twice", first.info(), second.info())?;
    let said = first.describe();
    same("a component has the same description twice", said, second.describe())?;
    let text = serde_json::to_string(said).map_err(|error| error.to_string())?;
    same("a description reads back as it was written", &serde_json::from_str(&text).ok().as_ref(), &Some(said))?;
    must("it watches so much and no more", said.watches.len() <= 32)?;
    same("its free place is free again", &engine().instances_free(), &1)?;
    Ok(Acceptance::Accepted)
}
