//! The default source of secrets.

use async_trait::async_trait;
use homeostat_component::Blob;

/// A secret source without secrets.
pub(crate) struct NoSecrets;

#[async_trait]
impl homeostat_component::layers::Secrets for NoSecrets {
    async fn get(&self, _: &str) -> Result<Blob, String> {
        Err("the host was started without secrets".to_owned())
    }
}
