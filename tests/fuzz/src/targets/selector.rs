//! A selector prints as it was parsed, and a list has exactly the matching resources.

use homeostat_store::{LabelRequirement, Query, Selector, Store, Write};
use serde_json::json;

use crate::target::{Acceptance, Outcome, same};
use crate::test_store;

pub(crate) fn judge(input: &[u8]) -> Outcome {
    if let Ok(selector) = serde_json::from_slice::<Selector>(input) {
        let text = serde_json::to_string(&selector).map_err(|error| error.to_string())?;
        same("a selector reads as it was written", &serde_json::from_str(&text).ok().as_ref(), &Some(&selector))?;
        return listed(&selector);
    }
    let Ok(labels) = Selector::parse_labels(&String::from_utf8_lossy(input)) else { return Ok(Acceptance::Rejected) };
    let text = labels.iter().map(LabelRequirement::to_string).collect::<Vec<_>>().join(",");
    let selector = Selector { labels, ..Selector::default() };
    // A text may have more terms than a query allows.
    if selector.validate().is_ok() {
        same("labels read as they were written", &Selector::parse_labels(&text).as_ref(), &Ok(&selector.labels))?;
    }
    listed(&selector)
}

fn listed(selector: &Selector) -> Outcome {
    let store = test_store::store();
    let mut wanted = Vec::new();
    for (number, name) in ["web", "db", "cache"].into_iter().enumerate() {
        let document =
            test_store::widget(name, json!({"nodeName": name, "size": number, "on": number == 1, "a/b~c": "d"}));
        let written =
            test_store::submit(&store, Write::Create { document }, false).map_err(|error| error.to_string())?;
        wanted.push(written.resource);
    }
    wanted.retain(|resource| selector.matches(resource));
    wanted.sort_by_key(|resource| resource.key().name().to_owned());
    let query = Query { selector: selector.clone(), ..Query::all(test_store::kind()) };
    let page = test_store::wait(store.list(&query));
    same("a list accepts exactly the valid selectors", &page.is_ok(), &selector.validate().is_ok())?;
    let Ok(page) = page else { return Ok(Acceptance::Rejected) };
    same("a list has exactly the matching resources", &page.items, &wanted)?;
    Ok(Acceptance::Accepted)
}
