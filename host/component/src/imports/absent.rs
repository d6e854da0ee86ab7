//! Functions of interfaces that are there, and behind which there is nothing: each answers the same error, and what it was asked for is
//! an [`Effect`], so that people can see it.

use std::sync::Arc;

use wasmtime::component::{LinkerInstance, ResourceAny, Val};
use wasmtime::{StoreContextMut, bail};

use super::answer;
use super::filesystem::Folder;
use super::sockets::{Network, Tcp, Udp};
use crate::effect::{Effect, WasiResource};
use crate::state::State;

/// Reads off the arguments what a function was asked for; `None` where they do not name it.
pub(super) type Named = fn(&[Val]) -> Option<WasiResource>;

/// Links a function that answers the error `code(arguments)`, one of the cases of its interface's `error-code`.
pub(super) fn link_error(
    instance: &mut LinkerInstance<'_, State>,
    function: &str,
    named: Named,
    code: fn(&[Val]) -> &'static str,
) -> wasmtime::Result<()> {
    let error = move |arguments: &[Val]| Val::Result(Err(Some(Box::new(Val::Enum(code(arguments).to_owned())))));
    link(instance, function, named, error)
}

/// Links a function that always answers `value`.
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
                // Whatever the host says of it, it is not there.
                drop(answer!(port.perform(Effect::Reach(absent.cut())).await?, Done));
            }
            for argument in arguments {
                // What was lent for the call is given back by whoever takes it as a value.
                if let Val::Resource(handle) = argument {
                    give_back(*handle, &mut store)?;
                }
            }
            put(results, value)
        })
    })
}

/// Gives back a handle that was lent for a call, as one of the types of which there are handles.
///
/// [`ResourceAny::resource_drop_async`] would do it for any type, on a stack of its own, which the guest then has beside that of its call: two
/// for each guest, where the pool has one.
fn give_back(handle: ResourceAny, store: &mut StoreContextMut<'_, State>) -> wasmtime::Result<()> {
    let is_one_of = [is_given_back::<Folder>, is_given_back::<Network>, is_given_back::<Tcp>, is_given_back::<Udp>];
    if !is_one_of.into_iter().any(|is_given_back| is_given_back(handle, store)) {
        bail!("a handle was lent that nobody has given out");
    }
    Ok(())
}

fn is_given_back<T: 'static>(handle: ResourceAny, store: &mut StoreContextMut<'_, State>) -> bool {
    handle.try_into_resource::<T>(store).is_ok()
}

/// Names nothing.
pub(super) fn unnamed(_: &[Val]) -> Option<WasiResource> {
    None
}

fn put(results: &mut [Val], value: Val) -> wasmtime::Result<()> {
    match results {
        [result] => *result = value,
        others => bail!("{} results are wanted where one is answered", others.len()),
    }
    Ok(())
}
