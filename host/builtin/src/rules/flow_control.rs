//! The kinds that say how an API server shares its time: flow schemas and priority levels.
//!
//! Source: `pkg/apis/flowcontrol/validation`, `pkg/apis/flowcontrol/v1/defaults.go` and, for the mandatory resources,
//! `k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap`.

use homeostat_cel::names::DNS_1123_LABEL;
use serde_json::{Map, Value, json};

use super::defaults::object_at;
use super::report::{Report, items, text};

/// The names of the mandatory resources: for requests without limits, and for those that nothing else matches.
const EXEMPT: &str = "exempt";
const CATCH_ALL: &str = "catch-all";

const PRECEDENCE_MAX: i64 = 10_000;
const QUEUES_MAX: i64 = 10_000_000;
/// Most bits of a hash that choose the queues of a flow.
const HASH_BITS_MAX: f64 = 60.0;
/// An annotation of an old version, which this version refuses.
const PRESERVE_ZERO: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";

const VERBS: [&str; 9] = ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
/// The kinds of subjects, and the field of each.
const SUBJECTS: [(&str, &str); 3] = [("Group", "group"), ("ServiceAccount", "serviceAccount"), ("User", "user")];

pub(super) fn schema_defaults(schema: &mut Value, _old: Option<&Value>) {
    if let Some(spec) = object_at(schema, "/spec") {
        default_number(spec, "matchingPrecedence", 1000);
    }
}

pub(super) fn level_defaults(level: &mut Value, _old: Option<&Value>) {
    if let Some(queuing) = object_at(level, "/spec/limited/limitResponse/queuing") {
        for (name, number) in [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)] {
            default_number(queuing, name, number);
        }
    }
}

/// Sets a number that is absent or zero. Go does not tell these apart.
fn default_number(fields: &mut Map<String, Value>, name: &str, number: i64) {
    if fields.get(name).is_none_or(|known| *known == 0) {
        fields.insert(name.to_owned(), number.into());
    }
}

pub(super) fn check_schema(report: &mut Report<'_>) {
    let (name, spec) = (text(report.at("/metadata/name")), report.at("/spec"));
    check_precedence(report, &spec["matchingPrecedence"], name);
    let method = &spec["distinguisherMethod"];
    if method.is_object() && !matches!(text(&method["type"]), "ByNamespace" | "ByUser") {
        // As there, with the whole method.
        report.unsupported("spec.distinguisherMethod.type", method, &["ByNamespace", "ByUser"]);
    }
    let (path, level) = ("spec.priorityLevelConfiguration.name", &spec["priorityLevelConfiguration"]["name"]);
    match text(level) {
        "" => report.required(path, "must reference a priority level"),
        _ => report.subdomain(path.to_owned(), level),
    }
    for (at, rule) in items(&spec["rules"]).iter().enumerate() {
        check_rule(report, rule, &format!("spec.rules[{at}]"));
    }
    if mandatory_schema(name).is_some_and(|wanted| wanted != *spec) {
        report.invalid("spec", spec, &format!("spec of '{name}' must equal the fixed value"));
    }
}

fn check_precedence(report: &mut Report<'_>, precedence: &Value, name: &str) {
    let path = "spec.matchingPrecedence";
    match precedence.as_i64().unwrap_or(0) {
        ..=0 => report.invalid(path, precedence, "must be a positive value"),
        1 if name != EXEMPT => {
            let detail = "only the schema named 'exempt' may have matchingPrecedence 1";
            report.invalid(path, precedence, detail);
        }
        1..=PRECEDENCE_MAX => {}
        _ => report.invalid(path, precedence, &format!("must not be greater than {PRECEDENCE_MAX}")),
    }
}

/// Returns the specification of a mandatory flow schema; `None` for another name.
fn mandatory_schema(name: &str) -> Option<Value> {
    let rules = |groups: &[&str]| {
        let subjects: Vec<Value> =
            groups.iter().map(|name| json!({ "kind": "Group", "group": { "name": name } })).collect();
        json!([{
            "subjects": subjects,
            "resourceRules": [{
                "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"],
            }],
            "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }],
        }])
    };
    match name {
        EXEMPT => Some(json!({
            "priorityLevelConfiguration": { "name": EXEMPT }, "matchingPrecedence": 1,
            "rules": rules(&["system:masters"]),
        })),
        CATCH_ALL => Some(json!({
            "priorityLevelConfiguration": { "name": CATCH_ALL }, "matchingPrecedence": PRECEDENCE_MAX,
            "distinguisherMethod": { "type": "ByUser" },
            "rules": rules(&["system:unauthenticated", "system:authenticated"]),
        })),
        _ => None,
    }
}

fn check_rule(report: &mut Report<'_>, rule: &Value, path: &str) {
    let subjects = items(&rule["subjects"]);
    if subjects.is_empty() {
        report.required(format!("{path}.subjects"), "subjects must contain at least one value");
    }
    for (at, subject) in subjects.iter().enumerate() {
        check_subject(report, subject, &format!("{path}.subjects[{at}]"));
    }
    let (resources, others) = (items(&rule["resourceRules"]), items(&rule["nonResourceRules"]));
    if resources.is_empty() && others.is_empty() {
        report.required(path, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    for (at, rule) in resources.iter().enumerate() {
        check_resource_rule(report, rule, &format!("{path}.resourceRules[{at}]"));
    }
    for (at, rule) in others.iter().enumerate() {
        check_other_rule(report, rule, &format!("{path}.nonResourceRules[{at}]"));
    }
}

/// Checks a subject: it has the field of its kind, and no field of another kind.
fn check_subject(report: &mut Report<'_>, subject: &Value, path: &str) {
    let Some((kind, field)) = SUBJECTS.iter().find(|(kind, _)| subject["kind"] == *kind) else {
        let supported = SUBJECTS.map(|(kind, _)| kind);
        return report.unsupported(format!("{path}.kind"), &subject["kind"], &supported);
    };
    for (other, name) in SUBJECTS.iter().filter(|(other, name)| other != kind && subject[*name].is_object()) {
        report.forbidden(format!("{path}.{name}"), &format!("{name} is forbidden when subject kind is not '{other}'"));
    }
    let (holder, path) = (&subject[*field], format!("{path}.{field}"));
    if !holder.is_object() {
        return report.required(path, &format!("{field} is required when subject kind is '{kind}'"));
    }
    let (name, namespace, is_account) = (&holder["name"], &holder["namespace"], *kind == "ServiceAccount");
    match text(name) {
        "" => report.required(format!("{path}.name"), ""),
        name_of_all if name_of_all == "*" || !is_account => {}
        _ => report.subdomain(format!("{path}.name"), name),
    }
    match text(namespace) {
        _ if !is_account => {}
        "" => report.required(format!("{path}.namespace"), "must specify namespace for service account"),
        _ => report.label(format!("{path}.namespace"), namespace),
    }
}

/// Checks that a list has items, and that `*` is alone. Returns whether all of its items are to be checked further.
fn check_members(report: &mut Report<'_>, list: &Value, path: &str, lacking: &str, others: &str) -> bool {
    let has_all = items(list).iter().any(|item| item == "*");
    if items(list).is_empty() {
        report.required(path, lacking);
    } else if has_all && items(list).len() > 1 {
        report.invalid(path, list, &format!("if '*' is present, must not specify other {others}"));
    }
    !has_all && !items(list).is_empty()
}

fn check_verbs(report: &mut Report<'_>, verbs: &Value, path: &str) {
    let are_named = check_members(report, verbs, path, "verbs must contain at least one value", "verbs");
    if are_named && !items(verbs).iter().all(|verb| VERBS.contains(&text(verb))) {
        report.unsupported(path, verbs, &VERBS);
    }
}

fn check_resource_rule(report: &mut Report<'_>, rule: &Value, path: &str) {
    check_verbs(report, &rule["verbs"], &format!("{path}.verbs"));
    let (groups, resources) = ("at least one api group", "at least one resource");
    for (name, lacking, others) in [("apiGroups", groups, "api groups"), ("resources", resources, "resources")] {
        let lacking = format!("resource rules must supply {lacking}");
        check_members(report, &rule[name], &format!("{path}.{name}"), &lacking, others);
    }
    let (namespaces, path) = (&rule["namespaces"], format!("{path}.namespaces"));
    if items(namespaces).is_empty() && rule["clusterScope"] == true {
        return;
    }
    let lacking = "resource rules that are not cluster scoped must supply at least one namespace";
    if check_members(report, namespaces, &path, lacking, "namespaces") {
        for (at, namespace) in items(namespaces).iter().enumerate() {
            for fault in DNS_1123_LABEL.faults(text(namespace)) {
                let detail = format!("each member of this list must be '*' or a DNS-1123 label; {fault}");
                report.invalid(format!("{path}[{at}]"), namespace, &detail);
            }
        }
    }
}

fn check_other_rule(report: &mut Report<'_>, rule: &Value, path: &str) {
    check_verbs(report, &rule["verbs"], &format!("{path}.verbs"));
    let (urls, path) = (&rule["nonResourceURLs"], format!("{path}.nonResourceURLs"));
    let lacking = "nonResourceURLs must contain at least one value";
    if check_members(report, urls, &path, lacking, "non-resource URLs") {
        for (at, url) in items(urls).iter().enumerate() {
            if let Some(detail) = fault_of_path(text(url)) {
                report.invalid(format!("{path}[{at}]"), url, detail);
            }
        }
    }
}

/// Returns what is wrong with the path of a URL, in words for people; `None` for a valid one.
fn fault_of_path(path: &str) -> Option<&'static str> {
    let count = path.matches('*').count();
    if path.is_empty() {
        Some("must not be empty")
    } else if !path.starts_with('/') {
        Some("must start with slash")
    } else if path.contains(' ') {
        Some("must not contain white-space")
    } else if path.contains("//") {
        Some("must not contain double slash")
    } else if count > 1 || (count == 1 && !path.ends_with("/*")) {
        Some("wildcard can only do suffix matching")
    } else {
        None
    }
}

pub(super) fn check_level(report: &mut Report<'_>) {
    let (name, spec) = (text(report.at("/metadata/name")), report.at("/spec"));
    if !report.at("/metadata/annotations")[PRESERVE_ZERO].is_null() {
        report.forbidden("metadata.annotations", &format!("annotation '{PRESERVE_ZERO}' is forbidden"));
    }
    let (kind, limited, exempt) = (text(&spec["type"]), &spec["limited"], &spec["exempt"]);
    if (name == EXEMPT) != (kind == "Exempt") {
        report.invalid("spec.type", &spec["type"], "must be 'Exempt' if and only if `name` is 'exempt'");
    }
    match kind {
        "Exempt" => {
            if limited.is_object() {
                report.forbidden("spec.limited", "must be nil if the type is not Limited");
            }
            check_share(report, exempt, "spec.exempt");
            check_lendable(report, exempt, "spec.exempt");
        }
        "Limited" => {
            if exempt.is_object() {
                report.forbidden("spec.exempt", "must be nil if the type is Limited");
            }
            if limited.is_object() {
                check_limits(report, limited);
            } else {
                report.required("spec.limited", "must not be empty when type is Limited");
            }
        }
        "" => report.required("spec.type", ""),
        _ => report.unsupported("spec.type", &spec["type"], &["Exempt", "Limited"]),
    }
    check_mandatory_level(report, name, spec);
}

/// Checks that a mandatory priority level has its fixed specification. The shares of the exempt one can change.
fn check_mandatory_level(report: &mut Report<'_>, name: &str, spec: &Value) {
    let (wanted, except) = match name {
        EXEMPT => (json!({ "type": "Exempt" }), " except the 'spec.exempt' field"),
        CATCH_ALL => {
            let limited = json!({
                "nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": { "type": "Reject" },
            });
            (json!({ "type": "Limited", "limited": limited }), "")
        }
        _ => return,
    };
    let mut found = spec.clone();
    if let Some(fields) = found.as_object_mut().filter(|_| name == EXEMPT) {
        fields.remove("exempt");
    }
    if found != wanted {
        report.invalid("spec", spec, &format!("spec of '{name}'{except} must equal the fixed value"));
    }
}

/// Checks the limits of a level.
fn check_limits(report: &mut Report<'_>, limited: &Value) {
    let path = "spec.limited";
    check_share(report, limited, path);
    check_response(report, &limited["limitResponse"]);
    check_lendable(report, limited, path);
    let borrowing = &limited["borrowingLimitPercent"];
    if borrowing.as_i64().is_some_and(|percent| percent < 0) {
        let detail = "if specified, must be a non-negative integer";
        report.invalid(format!("{path}.borrowingLimitPercent"), borrowing, detail);
    }
}

/// Checks the share of a level in the time of the server.
fn check_share(report: &mut Report<'_>, shares: &Value, path: &str) {
    let share = &shares["nominalConcurrencyShares"];
    if share.as_i64().is_some_and(|number| number < 0) {
        report.invalid(format!("{path}.nominalConcurrencyShares"), share, "must be a non-negative integer");
    }
}

/// Checks how much of its share a level lends.
fn check_lendable(report: &mut Report<'_>, shares: &Value, path: &str) {
    let lendable = &shares["lendablePercent"];
    if lendable.as_i64().is_some_and(|percent| !(0..=100).contains(&percent)) {
        report.invalid(format!("{path}.lendablePercent"), lendable, "must be between 0 and 100, inclusive");
    }
}

/// Checks what becomes of requests beyond a limit.
fn check_response(report: &mut Report<'_>, response: &Value) {
    let (path, queuing) = ("spec.limited.limitResponse", &response["queuing"]);
    match (text(&response["type"]), queuing.is_object()) {
        ("Reject", true) => {
            let detail = "must be nil if limited.limitResponse.type is not Limited";
            report.forbidden(format!("{path}.queuing"), detail);
        }
        ("Queue", false) => {
            let detail = "must not be empty if limited.limitResponse.type is Limited";
            report.required(format!("{path}.queuing"), detail);
        }
        ("Queue", true) => check_queuing(report, queuing, &format!("{path}.queuing")),
        ("Reject", false) => {}
        ("", _) => report.required(format!("{path}.type"), ""),
        _ => report.unsupported(format!("{path}.type"), &response["type"], &["Queue", "Reject"]),
    }
}

fn check_queuing(report: &mut Report<'_>, queuing: &Value, path: &str) {
    let number = |name: &str| queuing[name].as_i64().unwrap_or(0);
    let (queues, hand) = (number("queues"), number("handSize"));
    for name in ["queueLengthLimit", "queues", "handSize"] {
        if number(name) <= 0 {
            report.invalid(format!("{path}.{name}"), &queuing[name], "must be positive");
        }
    }
    if queues > QUEUES_MAX {
        let detail = format!("must not be greater than {QUEUES_MAX}");
        report.invalid(format!("{path}.queues"), &queuing["queues"], &detail);
    }
    let fault = if hand > queues {
        format!("should not be greater than queues ({queues})")
    } else if has_too_many_bits(queues, hand) {
        format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS_MAX}"
        )
    } else {
        return;
    };
    if hand > 0 {
        report.invalid(format!("{path}.handSize"), &queuing["handSize"], &fault);
    }
}

/// Returns whether the choice of some queues of all takes more bits than a hash has.
fn has_too_many_bits(queues: i64, hand: i64) -> bool {
    let (Ok(queues), Ok(hand)) = (u32::try_from(queues), u32::try_from(hand)) else { return false };
    queues > 0 && (f64::from(queues).log2() * f64::from(hand)).ceil() > HASH_BITS_MAX
}

#[cfg(test)]
mod tests;
