//! The amounts in the status of a quota.

use crate::rules::quotas::check_amount;
use crate::rules::report::Report;

pub(in crate::rules) fn check_resource_quota(report: &mut Report<'_>) {
    for field in ["hard", "used"] {
        for (name, amount) in report.at("/status")[field].as_object().into_iter().flatten() {
            check_amount(report, name, amount, format!("status.{field}[{name}]"));
        }
    }
}
