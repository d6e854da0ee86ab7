//! `wasi:filesystem`, inert: one empty, read-only folder, `/`.
//!
//! Without that folder, a language's standard library would fail on its own, and attempts to open files would
//! stay invisible.

use wasmtime::component::{Linker, Resource, ResourceType, Val};

use super::WASI_VERSION;
use super::inert::{link_constant, link_error, unnamed};
use crate::call_context::State;
use crate::effect::WasiResource;

/// Functions that take a path and return the error for missing files.
const LOOKS: [&str; 6] =
    ["open-at", "stat-at", "readlink-at", "metadata-hash-at", "remove-directory-at", "unlink-file-at"];
/// Functions that take a path and return the error for read-only files.
const CHANGES: [&str; 5] = ["create-directory-at", "link-at", "rename-at", "symlink-at", "set-times-at"];
/// Functions that no folder supports.
const OF_FILES: [&str; 12] = [
    "read-via-stream",
    "write-via-stream",
    "append-via-stream",
    "advise",
    "sync-data",
    "sync",
    "set-size",
    "set-times",
    "read",
    "write",
    "stat",
    "metadata-hash",
];

/// The folder. Its number is irrelevant: there is only one.
pub(super) struct Folder;

/// No handles of this type exist.
struct Entries;

pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let mut types = linker.instance(&format!("wasi:filesystem/types@{WASI_VERSION}"))?;
    types.resource("descriptor", ResourceType::host::<Folder>(), |_, _| Ok(()))?;
    types.resource("directory-entry-stream", ResourceType::host::<Entries>(), |_, _| Ok(()))?;
    let method = |name: &str| format!("[method]descriptor.{name}");
    for name in LOOKS {
        link_error(&mut types, &method(name), file, of_look)?;
    }
    for name in CHANGES {
        link_error(&mut types, &method(name), file, |_| "read-only")?;
    }
    for name in OF_FILES {
        link_error(&mut types, &method(name), unnamed, |_| "unsupported")?;
    }
    link_error(&mut types, &method("read-directory"), |_| Some(WasiResource::File("/".to_owned())), |_| "no-entry")?;
    let ok = |value| Val::Result(Ok(Some(Box::new(value))));
    link_constant(&mut types, &method("get-type"), ok(Val::Enum("directory".to_owned())))?;
    link_constant(&mut types, &method("get-flags"), ok(Val::Flags(vec!["read".to_owned()])))?;
    link_constant(&mut types, &method("is-same-object"), Val::Bool(true))?;
    let next = "[method]directory-entry-stream.read-directory-entry";
    link_error(&mut types, next, unnamed, |_| "bad-descriptor")?;
    link_constant(&mut types, "filesystem-error-code", Val::Option(None))?;

    let mut preopens = linker.instance(&format!("wasi:filesystem/preopens@{WASI_VERSION}"))?;
    preopens.func_wrap("get-directories", |_, (): ()| Ok((vec![(Resource::<Folder>::new_own(0), "/".to_owned())],)))
}

/// Returns the first path among the arguments. Standard libraries strip the name of the folder, `/`.
fn file(arguments: &[Val]) -> Option<WasiResource> {
    arguments.iter().find_map(|argument| match argument {
        Val::String(path) => Some(WasiResource::File(format!("/{}", path.trim_start_matches('/')))),
        _ => None,
    })
}

fn of_look(arguments: &[Val]) -> &'static str {
    let creates = |argument: &Val| matches!(argument, Val::Flags(flags) if flags.iter().any(|flag| flag == "create"));
    if arguments.iter().any(creates) { "read-only" } else { "no-entry" }
}
