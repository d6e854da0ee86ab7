//! The names of the interfaces of the contract.

pub(crate) const RECONCILER: &str = "homeostat:reconciler/reconciler@0.1.0";
pub(crate) const MAPPER: &str = "homeostat:reconciler/mapper@0.1.0";
pub(crate) const POLLER: &str = "homeostat:reconciler/poller@0.1.0";
pub(crate) const LIFECYCLE: &str = "homeostat:reconciler/lifecycle@0.1.0";

pub(crate) const CONVERTER: &str = "homeostat:reconciler/converter@0.1.0";

pub(crate) const CONTRACT: &str = "homeostat:reconciler";
