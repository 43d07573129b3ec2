//! Validating webhooks: all that a request concerns are asked at once.

use std::sync::Arc;

use super::{
    super::{attributes::Attributes, configurations::Read, matching::Objects},
    Webhook,
};
use crate::{error::ApiError, registry::Resource};
use futures_util::future::join_all;

/// Asks the webhooks whether the request may go on. Of several that refuse it, the first is heard.
pub(in super::super) async fn validate(
    request: &Attributes<'_>,
    configurations: &[Arc<Read<Vec<Webhook>>>],
    objects: Objects<'_>,
) -> Result<(), ApiError> {
    let mut asked: Vec<(&Webhook, Arc<Resource>)> = Vec::new();
    for webhook in configurations.iter().flat_map(|configuration| &configuration.content) {
        if let Some(matched) = webhook.concerns(request, objects, request.resource()).await? {
            asked.push((webhook, matched));
        }
    }
    let calls = asked.iter().map(|(webhook, matched)| ask(webhook, request, matched, objects));
    join_all(calls).await.into_iter().collect()
}

async fn ask(
    webhook: &Webhook,
    request: &Attributes<'_>,
    matched: &Resource,
    objects: Objects<'_>,
) -> Result<(), ApiError> {
    if std::ptr::eq(matched, &**request.resource()) {
        return webhook
            .ask(request, matched, objects)
            .await
            .map(|_| ())
            .or_else(|failure| webhook.judge(failure));
    }
    let object = request.converted(objects.object, request.resource(), matched).await?;
    let old = request.converted(objects.old, request.resource(), matched).await?;
    let objects = Objects { object: object.as_ref(), old: old.as_ref() };
    webhook.ask(request, matched, objects).await.map(|_| ()).or_else(|failure| webhook.judge(failure))
}
