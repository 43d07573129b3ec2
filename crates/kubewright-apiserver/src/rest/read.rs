//! Get: one object.

use super::{Scope, list::too_large, respond};
use crate::{decode::go::quote, error::ApiError, http::answer::Answer};

pub(crate) async fn get(scope: &Scope) -> Result<Answer, ApiError> {
    if let Some(text) = scope.query.get("resourceVersion").filter(|text| *text != "0") {
        let wanted: u64 = text.parse().map_err(|_| {
            ApiError::unexplained(format!(
                "resourceVersion: Invalid value: {}: strconv.ParseUint: parsing {}: invalid syntax",
                quote(text),
                quote(text)
            ))
        })?;
        scope.server.wait_for(wanted).await?;
    }
    let stored = scope.server.store.get(scope.storage(), &scope.key()).ok_or_else(|| scope.not_found())?;
    respond::stored(scope, 200, &stored).await
}

impl crate::server::Server {
    /// Waits for a revision a client has seen elsewhere; one that does not come is an error.
    pub(crate) async fn wait_for(&self, revision: u64) -> Result<(), ApiError> {
        const PATIENCE: std::time::Duration = std::time::Duration::from_secs(3);
        if self.store.revision() >= revision {
            return Ok(());
        }
        let reached = tokio::time::timeout(PATIENCE, self.store.wait_for_revision(revision)).await;
        reached.map_err(|_| too_large(revision, self.store.revision()))
    }
}
