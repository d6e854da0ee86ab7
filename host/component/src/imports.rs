//! The imports of components, one file for each part: every call becomes an [`crate::Effect`], and its answer
//! is converted for the guest.
//!
//! To add an import: a file here that links it, a line in [`link`], a line in [`OFFERED`].
//!
//! A controller has no files and no sockets. `wasi:filesystem` and `wasi:sockets` are linked as inert stubs:
//! a language's standard library imports them on its own, and that must not prevent a component from running.

use wasmtime::component::{HasData, HasSelf, Linker, ResourceTable};
use wasmtime_wasi::p2::bindings::io;

use crate::bindings;
use crate::call_context::State;

mod cli;
mod clock;
mod config;
mod events;
mod filesystem;
mod http;
mod inert;
mod log;
mod queue;
mod random;
mod sockets;
mod stderr;
pub(crate) mod store;
mod watches;

pub(crate) use http::HttpHooks;

/// Every interface that a component can import. The patch number of a version does not matter, except for
/// drafts.
pub(crate) const OFFERED: [&str; 37] = [
    "homeostat:reconciler/types@0.1.0",
    "homeostat:reconciler/store@0.1.0",
    "homeostat:reconciler/watches@0.1.0",
    "homeostat:reconciler/queue@0.1.0",
    "homeostat:reconciler/events@0.1.0",
    "homeostat:reconciler/log@0.1.0",
    "homeostat:reconciler/stderr@0.1.0",
    "wasi:config/store@0.2.0-rc.1",
    "wasi:io/error@0.2.0",
    "wasi:io/poll@0.2.0",
    "wasi:io/streams@0.2.0",
    "wasi:clocks/wall-clock@0.2.0",
    "wasi:clocks/monotonic-clock@0.2.0",
    "wasi:random/random@0.2.0",
    "wasi:random/insecure@0.2.0",
    "wasi:random/insecure-seed@0.2.0",
    "wasi:cli/environment@0.2.0",
    "wasi:cli/exit@0.2.0",
    "wasi:cli/stdin@0.2.0",
    "wasi:cli/stdout@0.2.0",
    "wasi:cli/stderr@0.2.0",
    "wasi:cli/terminal-input@0.2.0",
    "wasi:cli/terminal-output@0.2.0",
    "wasi:cli/terminal-stdin@0.2.0",
    "wasi:cli/terminal-stdout@0.2.0",
    "wasi:cli/terminal-stderr@0.2.0",
    "wasi:filesystem/types@0.2.0",
    "wasi:filesystem/preopens@0.2.0",
    "wasi:sockets/network@0.2.0",
    "wasi:sockets/instance-network@0.2.0",
    "wasi:sockets/tcp@0.2.0",
    "wasi:sockets/tcp-create-socket@0.2.0",
    "wasi:sockets/udp@0.2.0",
    "wasi:sockets/udp-create-socket@0.2.0",
    "wasi:sockets/ip-name-lookup@0.2.0",
    "wasi:http/types@0.2.0",
    "wasi:http/outgoing-handler@0.2.0",
];

/// The WASI version of interfaces that are linked by hand. It serves every import with the same first two
/// numbers.
const WASI_VERSION: &str = "0.2.12";

/// Links every offered interface.
///
/// # Errors
/// Two parts link the same name: a bug in this crate.
pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    type Own = HasSelf<State>;
    bindings::types::add_to_linker::<State, Own>(linker, |state| state)?;
    bindings::store::add_to_linker::<State, Own>(linker, |state| state)?;
    bindings::watches::add_to_linker::<State, Own>(linker, |state| state)?;
    bindings::queue::add_to_linker::<State, Own>(linker, |state| state)?;
    bindings::events::add_to_linker::<State, Own>(linker, |state| state)?;
    bindings::log::add_to_linker::<State, Own>(linker, |state| state)?;
    bindings::stderr::add_to_linker::<State, Own>(linker, |state| state)?;
    bindings::config::add_to_linker::<State, Own>(linker, |state| state)?;
    io::error::add_to_linker::<State, Handles>(linker, |state| &mut state.table)?;
    io::poll::add_to_linker::<State, Handles>(linker, |state| &mut state.table)?;
    io::streams::add_to_linker::<State, Handles>(linker, |state| &mut state.table)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)?;
    clock::link(linker)?;
    random::link(linker)?;
    filesystem::link(linker)?;
    sockets::link(linker)?;
    cli::link(linker)
}

/// Tells wasmtime that an interface needs only the handles of an instance.
struct Handles;

impl HasData for Handles {
    type Data<'a> = &'a mut ResourceTable;
}

/// Extracts the one kind of answer that an effect has. Any other kind is a bug of the [`crate::Effects`]
/// implementation, and ends the guest.
macro_rules! answer {
    ($answer:expr, $kind:ident) => {
        match $answer {
            $crate::Answer::$kind(value) => value,
            other => wasmtime::bail!("the host answered {} instead of {}", other.name(), stringify!($kind)),
        }
    };
}
pub(crate) use answer;

#[cfg(test)]
mod tests;
