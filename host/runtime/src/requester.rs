//! Who writes, as admission webhooks are told, and what they say in return.

use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use serde_json::{Value, json};

/// The warnings that are kept for one request, and the longest text of one, in characters.
const WARNINGS_MAX: usize = 64;
const WARNING_CHARS_MAX: usize = 1024;

/// A `UserInfo`, which most requests do not need.
type UserInfo = LazyLock<Arc<Value>, Box<dyn FnOnce() -> Arc<Value> + Send>>;

/// The sender of a request, and the warnings for it.
#[derive(Debug)]
pub struct Requester {
    user: UserInfo,
    warnings: Mutex<Vec<String>>,
}

impl Requester {
    /// Returns the sender whom a `UserInfo` document of Kubernetes describes. It is made when a webhook or a policy matches.
    pub fn new(user_info: impl FnOnce() -> Value + Send + 'static) -> Self {
        Self { user: LazyLock::new(Box::new(|| Arc::new(user_info()))), warnings: Mutex::default() }
    }

    /// Returns the program around the host.
    pub(crate) fn host() -> Self {
        Self::new(|| json!({ "username": "homeostat:host", "groups": ["system:masters", "system:authenticated"] }))
    }

    /// Returns the guest of a controller.
    pub(crate) fn controller(name: &str) -> Self {
        let name = format!("homeostat:controller:{name}");
        let groups = ["homeostat:controllers", "system:authenticated"];
        Self::new(move || json!({ "username": name, "groups": groups }))
    }

    /// Returns the `UserInfo`.
    pub(crate) fn user(&self) -> &Arc<Value> {
        &self.user
    }

    /// Adds a warning, once, if there are not too many.
    pub(crate) fn warn(&self, text: &str) {
        let text: String = text.chars().take(WARNING_CHARS_MAX).collect();
        let mut warnings = self.warnings.lock();
        if warnings.len() < WARNINGS_MAX && !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    /// Removes the warnings, and returns them in their order.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock())
    }
}
