//! Requests for one object of a kind, whichever scope it has.

use std::borrow::Cow;

use http::{HeaderValue, header::CONTENT_TYPE};
use kube::{
    Client,
    api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy},
    core::{Request, Status},
};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    cache::Told,
    kind::{Key, Kind},
};

fn at<C: Kind>(key: &Key) -> Request {
    Request::new(C::url_path(&(), key.namespace()))
}

/// The object, if it is there.
pub(crate) async fn get<C: Kind>(client: &Client, key: &Key) -> kube::Result<Option<C>> {
    let parameters = GetParams::default();
    let request = match C::metadata_api() {
        true => at::<C>(key).get_metadata(key.name(), &parameters),
        false => at::<C>(key).get(key.name(), &parameters),
    };
    match client.request(request.map_err(kube::Error::BuildRequest)?).await {
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// Server-side apply, of the object or of a part of it.
pub(crate) async fn apply<C: Kind>(
    client: &Client,
    key: &Key,
    part: Option<&str>,
    configuration: &Value,
    manager: &str,
    forces: bool,
) -> kube::Result<Told<C>> {
    let parameters = PatchParams { force: forces, ..PatchParams::apply(manager) };
    patch(client, key, part, &parameters, &Patch::Apply(configuration)).await
}

/// A new object, whose name may be generated.
pub(crate) async fn create<C: Kind>(client: &Client, object: &C, manager: &str) -> kube::Result<Told<C>> {
    let parameters = PostParams { dry_run: false, field_manager: Some(manager.to_owned()) };
    let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    let request = at::<C>(&Key::of(object)).create(&parameters, body);
    told(client, request.map_err(kube::Error::BuildRequest)?).await
}

/// The object, or a part of it, as a whole. The server compares its revision.
pub(crate) async fn replace<C: Kind>(
    client: &Client,
    part: Option<&str>,
    object: &C,
    manager: &str,
) -> kube::Result<Told<C>> {
    let parameters = PostParams { dry_run: false, field_manager: Some(manager.to_owned()) };
    let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    let key = Key::of(object);
    let request = match part {
        Some(part) => at::<C>(&key).replace_subresource(part, key.name(), &parameters, body),
        None => at::<C>(&key).replace(key.name(), &parameters, body),
    };
    told(client, request.map_err(kube::Error::BuildRequest)?).await
}

/// A merge patch of the object, or of a part of it.
pub(crate) async fn merge<C: Kind>(
    client: &Client,
    key: &Key,
    part: Option<&str>,
    change: &Value,
    manager: &str,
) -> kube::Result<Told<C>> {
    let parameters = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
    patch(client, key, part, &parameters, &Patch::Merge(change)).await
}

/// A JSON patch of the object, or of a part of it.
pub(crate) async fn steps<C: Kind>(
    client: &Client,
    key: &Key,
    part: Option<&str>,
    steps: &Value,
    manager: &str,
) -> kube::Result<Told<C>> {
    let parameters = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
    let mut request = patching::<C>(key, part, &parameters, &Patch::Merge(steps))?;
    // Said here, as kube knows JSON patches only together with a crate that makes them.
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json-patch+json"));
    told(client, request).await
}

async fn patch<C: Kind>(
    client: &Client,
    key: &Key,
    part: Option<&str>,
    parameters: &PatchParams,
    change: &Patch<&Value>,
) -> kube::Result<Told<C>> {
    told(client, patching::<C>(key, part, parameters, change)?).await
}

fn patching<C: Kind>(
    key: &Key,
    part: Option<&str>,
    parameters: &PatchParams,
    change: &Patch<&Value>,
) -> kube::Result<http::Request<Vec<u8>>> {
    let request = match part {
        Some(part) => at::<C>(key).patch_subresource(part, key.name(), parameters, change),
        None => at::<C>(key).patch(key.name(), parameters, change),
    };
    request.map_err(kube::Error::BuildRequest)
}

/// Deletes the object with this UID. Gives the object if it is not gone at once.
pub(crate) async fn delete<C: Kind>(client: &Client, key: &Key, uid: &str) -> kube::Result<Option<Told<C>>> {
    let parameters = DeleteParams {
        preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default()
    };
    let request = at::<C>(key).delete(key.name(), &parameters).map_err(kube::Error::BuildRequest)?;
    match client.request_text(request).await {
        Ok(text) => {
            let is_object = serde_json::from_str(&text).is_ok_and(|Answer { kind }| kind != "Status");
            let told = is_object.then(|| read::<C>(&text)).transpose()?;
            Ok(told.filter(|told| told.object.meta().deletion_timestamp.is_some()))
        }
        Err(kube::Error::Api(status)) if status.code == 404 || is_of_another(&status) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a conflict is about the UID: the object was replaced by another of the same name.
fn is_of_another(status: &Status) -> bool {
    status.code == 409 && status.message.contains("UID in precondition")
}

/// What an answer is.
#[derive(Deserialize)]
struct Answer<'t> {
    #[serde(borrow, default)]
    kind: Cow<'t, str>,
}

async fn told<C: Kind>(client: &Client, request: http::Request<Vec<u8>>) -> kube::Result<Told<C>> {
    read(&client.request_text(request).await?)
}

fn read<C: Kind>(text: &str) -> kube::Result<Told<C>> {
    Told::read(text).map_err(kube::Error::SerdeError)
}
