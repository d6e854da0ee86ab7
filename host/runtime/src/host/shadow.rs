//! Shadows of controllers.

use super::Host;
use crate::rollout::shadow::{ShadowReport, ShadowSlot};
use crate::{Definition, Error};

impl Host {
    /// Starts a shadow of the controller's stable version, replacing a running one. The candidate gets the
    /// same keys and answers, and none of its effects is applied. Its start hook does not run. A swap, an
    /// update, a removal and a suspension end the shadow.
    ///
    /// # Errors
    /// [`Error::UnknownController`], [`Error::ManagedKindChanged`], [`Error::Refused`],
    /// [`Error::KindDiffers`].
    pub async fn begin_shadow(&self, definition: Definition) -> Result<(), Error> {
        ShadowSlot::begin(&self.controller(&definition.name)?, definition).await
    }

    /// Ends the shadow of a controller, if there is one.
    ///
    /// # Errors
    /// [`Error::UnknownController`].
    pub fn end_shadow(&self, name: &str) -> Result<(), Error> {
        self.controller(name)?.shadow.end();
        Ok(())
    }

    /// Returns the report of the running shadow, else of the last one.
    ///
    /// # Errors
    /// [`Error::UnknownController`].
    pub fn shadow_report(&self, name: &str) -> Result<Option<ShadowReport>, Error> {
        let controller = self.controller(name)?;
        Ok(controller.shadow.report().or_else(|| controller.shadow.last_report()))
    }
}
