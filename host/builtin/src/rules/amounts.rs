//! Amounts of resources, in billionths of their unit.

use homeostat_store::schema::quantity_in_nanos;
use serde_json::{Value, json};

use super::report::Report;

/// The billionths of a unit, and of a thousandth of it.
pub(super) const NANOS: i128 = 1_000_000_000;
pub(super) const NANOS_PER_MILLI: i128 = 1_000_000;

/// Returns an amount in billionths. One that is absent is zero.
pub(super) fn nanos(amount: &Value) -> i128 {
    quantity_in_nanos(amount).unwrap_or(0)
}

/// Returns an amount as an integer, rounded away from zero.
pub(super) fn whole(amount: &Value) -> i128 {
    let amount = nanos(amount);
    amount.signum() * ((amount.abs() + NANOS - 1) / NANOS)
}

/// Checks that an amount is zero or more.
pub(super) fn check_not_negative(report: &mut Report<'_>, amount: &Value, path: String) {
    let units = whole(amount);
    if units < 0 {
        report.invalid(path, &json!(i64::try_from(units).unwrap_or(i64::MIN)), "must be a valid resource quantity");
    }
}

/// Returns billionths in larger units, rounded up.
pub(super) fn rounded_up(nanos: i128, unit: i128) -> i128 {
    nanos.div_euclid(unit) + i128::from(nanos.rem_euclid(unit) > 0)
}
