//! The works of the languages: the controller that `homeostat new` writes, in each of them.

use std::time::Duration;

use super::{Figure, Work};
use crate::arguments::{Size, Suite};

/// The languages, as `homeostat new --lang` names them.
const LANGUAGES: [&str; 5] = ["rust", "c", "go", "js", "python"];
/// The resources that a controller finds at its first start.
const RESOURCES: usize = 200;

pub(super) fn works() -> Vec<Work> {
    LANGUAGES.into_iter().map(work).collect()
}

fn work(language: &'static str) -> Work {
    let lower = |figure: &str, unit, value| Figure::lower(&format!("{figure}, {language}"), unit, value);
    let figures = vec![
        lower("component", "MiB", "mib"),
        lower("processor time until its code is ready", "s", "ready cpu s"),
        lower("first answer without a cache", "s", "first s"),
        lower("200 settled without a cache", "s", "settled s"),
        lower("optimised code", "s", "optimised s"),
        lower("processor time until optimised", "s", "optimised cpu s"),
        lower("processor time of a reconcile", "µs", "reconcile us"),
        lower("processor time of a reconcile in a kept instance", "µs", "kept us"),
        lower("memory of an instance", "MiB", "instance mib"),
    ];
    let size = Size { keys: RESOURCES, workers: 1, millis: 0 };
    let timeout = Duration::from_secs(300);
    Work { suite: Suite::Languages, name: language, size, figures, peers: Vec::new(), timeout, backend: None }
}
