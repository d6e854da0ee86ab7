//! Functions of interfaces that are there, and behind which there is nothing: each answers the same error, and what it was asked for is
//! an [`Effect`], so that people can see it.

use std::sync::Arc;

use wasmtime::bail;
use wasmtime::component::{LinkerInstance, Val};

use super::answer;
use crate::effect::{Absent, Effect};
use crate::state::State;

/// Reads off the arguments what a function was asked for; `None` where they do not name it.
pub(super) type Named = fn(&[Val]) -> Option<Absent>;

/// Links a function that answers the error `code(arguments)`, one of the cases of its interface's `error-code`.
pub(super) fn refuse(
    instance: &mut LinkerInstance<'_, State>,
    function: &str,
    named: Named,
    code: fn(&[Val]) -> &'static str,
) -> wasmtime::Result<()> {
    let error = move |arguments: &[Val]| Val::Result(Err(Some(Box::new(Val::Enum(code(arguments).to_owned())))));
    link(instance, function, named, error)
}

/// Links a function that always answers `value`.
pub(super) fn say(instance: &mut LinkerInstance<'_, State>, function: &str, value: Val) -> wasmtime::Result<()> {
    link(instance, function, unnamed, move |_| value.clone())
}

fn link(
    instance: &mut LinkerInstance<'_, State>,
    function: &str,
    named: Named,
    value: impl Fn(&[Val]) -> Val + Send + Sync + 'static,
) -> wasmtime::Result<()> {
    instance.func_new_async(function, move |mut store, _, arguments, results| {
        let (port, absent, value) = (Arc::clone(&store.data().port), named(arguments), value(arguments));
        Box::new(async move {
            if let Some(absent) = absent {
                // Whatever the host says of it, it is not there.
                drop(answer!(port.perform(Effect::Reach(absent.cut())).await?, Done));
            }
            for argument in arguments {
                // What was lent for the call is given back by whoever takes it as a value.
                if let Val::Resource(handle) = argument {
                    handle.resource_drop_async(&mut store).await?;
                }
            }
            put(results, value)
        })
    })
}

/// Names nothing.
pub(super) fn unnamed(_: &[Val]) -> Option<Absent> {
    None
}

fn put(results: &mut [Val], value: Val) -> wasmtime::Result<()> {
    match results {
        [result] => *result = value,
        others => bail!("{} results are wanted where one is answered", others.len()),
    }
    Ok(())
}
