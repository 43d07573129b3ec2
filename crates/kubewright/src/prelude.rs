//! What most operators need, in one line.
//!
//! ```
//! use kubewright::prelude::*;
//!
//! #[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug)]
//! #[kube(group = "operator.example.com", version = "v1", kind = "Web", namespaced, status = "WebStatus", shortname = "web")]
//! #[serde(rename_all = "camelCase")]
//! pub struct WebSpec {
//!     pub image: String,
//!     #[x_kube(validation = Rule::new("self >= 30000 && self <= 32767").message("must be a node port"))]
//!     pub node_port: i32,
//! }
//!
//! #[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default)]
//! pub struct WebStatus {
//!     pub completed: bool,
//! }
//!
//! struct Serve;
//!
//! impl Reconciler<Web> for Serve {
//!     async fn reconcile(&self, web: &Web, cx: &Context<Web>) -> Result<Next> {
//!         let page = ConfigMap {
//!             metadata: ObjectMeta { name: Some(child_name(web, "page")), ..ObjectMeta::default() },
//!             ..ConfigMap::default()
//!         };
//!         cx.apply(page).await?;
//!         cx.status(WebStatus { completed: true }).await?;
//!         Ok(Next::on_change())
//!     }
//! }
//!
//! let operator = Operator::new("web-operator").controller(Controller::of::<Web>().owns::<ConfigMap>().run(Serve));
//! assert_eq!(operator.definitions().len(), 1);
//! ```

pub use std::{process::ExitCode, time::Duration};

pub use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment, StatefulSet},
        batch::v1::{CronJob, Job},
        core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount},
    },
    apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, ObjectMeta},
};
pub use kube::{CustomResource, CustomResourceExt, KubeSchema, Resource, ResourceExt, core::Rule};
pub use schemars::JsonSchema;
pub use serde::{Deserialize, Serialize};

pub use crate::{
    Admission, Context, Controller, Error, Event, Finalized, Finalizer, Finalizing, Index, Key, Next,
    Operation, Operator, Options, Predicate, Reconciler, Result, Seen, Verdict, Watch, Webhook, child_name,
    condition, workload,
};
