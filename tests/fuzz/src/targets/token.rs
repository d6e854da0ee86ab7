//! A continue token is refused, or the list continues after it: in order, and to an end.

use homeostat_store::{Error, Query, Store, Write};
use serde_json::json;

use crate::target::{Acceptance, Outcome, must};
use crate::test_store;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

pub(crate) fn judge(input: &[u8]) -> Outcome {
    let store = test_store::store();
    for name in NAMES {
        let document = test_store::widget(name, json!({}));
        let written = test_store::submit(&store, Write::Create { document }, false);
        written.map_err(|error| error.to_string())?;
    }
    let text = String::from_utf8_lossy(input);
    // A file of the corpus ends with a newline.
    let mut from = Some(text.trim_end_matches('\n').to_owned());
    let mut names: Vec<String> = Vec::new();
    let mut pages = 0;
    while let Some(token) = from {
        let query = Query { limit: Some(2), from: Some(token), ..Query::all(test_store::kind()) };
        let page = match test_store::wait(store.list(&query)) {
            Ok(page) => page,
            Err(Error::Invalid { .. } | Error::Expired { .. } | Error::FutureRevision { .. }) if pages == 0 => {
                return Ok(Acceptance::Rejected);
            }
            Err(error) => return Err(format!("page {pages} of a list: {error}")),
        };
        pages += 1;
        must("a list ends", pages <= NAMES.len())?;
        must("a page is of the past", page.revision <= test_store::revision(&store))?;
        names.extend(page.items.iter().map(|item| item.key().name().to_owned()));
        from = page.next;
    }
    must("a list has each name once, in order", names.is_sorted_by(|one, two| one < two))?;
    must("a list has existing resources only", names.iter().all(|name| NAMES.contains(&name.as_str())))?;
    Ok(Acceptance::Accepted)
}
