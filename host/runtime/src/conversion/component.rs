//! Conversion by the component of a controller.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use homeostat_component::{Component, Digest, Fault, Limits};
use serde_json::Value;

use super::document_converter::{BatchSize, ConvertedDocuments, DocumentConverter};

/// Documents in one call of a component. Source: the contract. A call costs little, and this many documents of the
/// largest size fit into the default limits of a call.
const BATCH_MAX: BatchSize = BatchSize { documents: 64, bytes: 512 << 10 };

/// The stable version of a controller.
pub(crate) struct ControllerCode {
    pub(crate) component: Component,
    /// The limits of its calls.
    pub(crate) limits: Limits,
}

type FindCode = dyn Fn(&str) -> Option<ControllerCode> + Send + Sync;

/// Finds the code of a controller by its name. Until the host has started, it finds none.
#[derive(Default)]
pub(super) struct CodeFinder(OnceLock<Box<FindCode>>);

impl CodeFinder {
    pub(super) fn connect(&self, find: Box<FindCode>) {
        // A second host over the same kinds would be a bug; the first one stays.
        drop(self.0.set(find));
    }

    fn find(&self, controller: &str) -> Option<ControllerCode> {
        self.0.get()?(controller)
    }
}

/// The component of a controller.
pub(super) struct ComponentConverter {
    controller: Arc<str>,
    finder: Arc<CodeFinder>,
}

impl ComponentConverter {
    pub(super) fn new(controller: &str, finder: Arc<CodeFinder>) -> Self {
        Self { controller: controller.into(), finder }
    }
}

#[async_trait]
impl DocumentConverter for ComponentConverter {
    fn name(&self) -> String {
        format!("conversion by the controller {:?}", self.controller)
    }

    fn batch_max(&self) -> BatchSize {
        BATCH_MAX
    }

    fn code(&self) -> Option<Digest> {
        self.finder.find(&self.controller).map(|code| code.component.digest().clone())
    }

    async fn convert(&self, desired: &str, originals: &[&Value]) -> Result<ConvertedDocuments, String> {
        let code = self.finder.find(&self.controller);
        let ControllerCode { component, limits } = code.ok_or("this host does not run it")?;
        let texts: Vec<String> = originals.iter().map(ToString::to_string).collect();
        let report = component.convert(&self.controller, desired, &texts, &limits).await;
        let converted = report.result.map_err(|fault| match fault {
            Fault::Failure { message, .. } => format!("it says {message:?}"),
            fault => fault.to_string(),
        })?;
        let parsed = converted.iter().map(|text| serde_json::from_str(text));
        let documents = parsed.collect::<Result<_, _>>().map_err(|error| format!("its answer is not JSON: {error}"))?;
        Ok(ConvertedDocuments { documents, code: Some(component.digest().clone()) })
    }

    fn late(&self) -> String {
        "it did not answer in time".to_owned()
    }
}
