//! Stubs for functions of inert interfaces: each returns a constant error. The attempted access becomes an
//! [`Effect`], so that people can see it.

use std::sync::Arc;

use wasmtime::component::{LinkerInstance, ResourceAny, Val};
use wasmtime::{StoreContextMut, bail};

use super::answer;
use super::filesystem::Folder;
use super::sockets::{Network, Tcp, Udp};
use crate::call_context::State;
use crate::effect::{Effect, WasiResource};

/// Derives from the arguments the object that the guest tried to use; `None` if they do not name it.
pub(super) type Named = fn(&[Val]) -> Option<WasiResource>;

/// Links a function that returns the error `code(arguments)`, one of the cases of its interface's
/// `error-code`.
pub(super) fn link_error(
    instance: &mut LinkerInstance<'_, State>,
    function: &str,
    named: Named,
    code: fn(&[Val]) -> &'static str,
) -> wasmtime::Result<()> {
    let error = move |arguments: &[Val]| Val::Result(Err(Some(Box::new(Val::Enum(code(arguments).to_owned())))));
    link(instance, function, named, error)
}

/// Links a function that always returns `value`.
pub(super) fn link_constant(
    instance: &mut LinkerInstance<'_, State>,
    function: &str,
    value: Val,
) -> wasmtime::Result<()> {
    link(instance, function, unnamed, move |_| value.clone())
}

fn link(
    instance: &mut LinkerInstance<'_, State>,
    function: &str,
    named: Named,
    value: impl Fn(&[Val]) -> Val + Send + Sync + 'static,
) -> wasmtime::Result<()> {
    instance.func_new_async(function, move |mut store, _, arguments, results| {
        let (port, absent, value) = (Arc::clone(&store.data().context), named(arguments), value(arguments));
        Box::new(async move {
            if let Some(absent) = absent {
                // The guest gets the constant error, regardless of the host's answer.
                drop(answer!(port.perform(Effect::Reach(absent.cut())).await?, Done));
            }
            for argument in arguments {
                // A borrowed handle must be released; taking it as a value does that.
                if let Val::Resource(handle) = argument {
                    give_back(*handle, &mut store)?;
                }
            }
            put(results, value)
        })
    })
}

/// Releases a handle that was borrowed for a call, as one of the types that have handles.
///
/// [`ResourceAny::resource_drop_async`] would do it for any type, but on another stack: each guest would then
/// need two stacks, and the pool has one for each.
fn give_back(handle: ResourceAny, store: &mut StoreContextMut<'_, State>) -> wasmtime::Result<()> {
    let is_one_of = [is_given_back::<Folder>, is_given_back::<Network>, is_given_back::<Tcp>, is_given_back::<Udp>];
    if !is_one_of.into_iter().any(|is_given_back| is_given_back(handle, store)) {
        bail!("the guest passed an unknown handle");
    }
    Ok(())
}

fn is_given_back<T: 'static>(handle: ResourceAny, store: &mut StoreContextMut<'_, State>) -> bool {
    handle.try_into_resource::<T>(store).is_ok()
}

/// Names no object.
pub(super) fn unnamed(_: &[Val]) -> Option<WasiResource> {
    None
}

fn put(results: &mut [Val], value: Val) -> wasmtime::Result<()> {
    match results {
        [result] => *result = value,
        others => bail!("the function has {} results instead of one", others.len()),
    }
    Ok(())
}
