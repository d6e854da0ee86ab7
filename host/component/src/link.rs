//! Links code to the imports of its machine.

use crate::bindings::{converter, lifecycle, mapper, poller, reconciler};
use crate::code::{ExportIndices, LinkedCode};
use crate::component::Exports;
use crate::contract;
use crate::instances::Machine;
use crate::load_error::{LoadError, Reason};

/// Links code to the imports of its machine, and looks up the exports.
///
/// # Errors
/// `Link`; `ExportType` for each export with a type other than the contract's.
pub(crate) fn link(
    machine: &Machine,
    component: &wasmtime::component::Component,
    exports: Exports,
) -> Result<LinkedCode, LoadError> {
    let failed = |error| Reason::Link { reason: format!("{error:#}") };
    let pre = machine.linker.instantiate_pre(component).map_err(failed)?;
    let mut reasons = Vec::new();
    let mut check = |interface: &str, error: wasmtime::Error| {
        let reason = format!("{error:#}; it was built against another version of the contract");
        reasons.push(Reason::ExportType { name: interface.to_owned(), reason });
    };
    let Exports { mapper, poller, lifecycle, converter } = exports;
    let reconciler = reconciler::GuestIndices::new(&pre).map_err(|error| check(contract::RECONCILER, error)).ok();
    let mapper = mapper.then(|| mapper::GuestIndices::new(&pre).map_err(|error| check(contract::MAPPER, error)).ok());
    let poller = poller.then(|| poller::GuestIndices::new(&pre).map_err(|error| check(contract::POLLER, error)).ok());
    let lifecycle =
        lifecycle.then(|| lifecycle::GuestIndices::new(&pre).map_err(|error| check(contract::LIFECYCLE, error)).ok());
    let converter =
        converter.then(|| converter::GuestIndices::new(&pre).map_err(|error| check(contract::CONVERTER, error)).ok());
    match reconciler {
        Some(reconciler) if reasons.is_empty() => {
            let (mapper, poller) = (mapper.flatten(), poller.flatten());
            let (lifecycle, converter) = (lifecycle.flatten(), converter.flatten());
            Ok(LinkedCode { pre, entries: ExportIndices { reconciler, mapper, poller, lifecycle, converter } })
        }
        _ => Err(LoadError { reasons }),
    }
}
