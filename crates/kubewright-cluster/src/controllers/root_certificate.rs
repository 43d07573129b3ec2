//! The certificate by which pods know the API server: a config map in every namespace has it.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{ResourceExt as _, core::ObjectMeta};
use kubewright::{Context, Controller, Key, Next, Reconciler, Result, Watch};

use super::in_namespace;

/// The name of the config map.
const NAME: &str = "kube-root-ca.crt";
const ABOUT: &str = "kubernetes.io/description";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
    endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
    distributions of Kubernetes clusters.";

struct Publisher {
    certificate: String,
}

/// Publishes a certificate, given as PEM.
pub(super) fn controller(certificate: String) -> Controller {
    Controller::of_existing::<Namespace>()
        .named("root-ca-certificate-publisher")
        .watches_with(Watch::<ConfigMap>::new().fields(format!("metadata.name={NAME}")), in_namespace, [])
        .reports_as("root-ca-certificate-publisher")
        .run(Publisher { certificate })
}

impl Reconciler<Namespace> for Publisher {
    async fn reconcile(&self, namespace: &Namespace, cx: &Context<Namespace>) -> Result<Next> {
        let data = Some([("ca.crt".to_owned(), self.certificate.clone())].into());
        let found = cx.lookup().get::<ConfigMap>(&Key::new(&namespace.name_any(), NAME))?;
        let about = |map: &ConfigMap| map.annotations().get(ABOUT).is_some_and(|text| !text.is_empty());
        match found {
            Some(map) if map.data == data && about(&map) => {}
            Some(map) => {
                let mut map = ConfigMap { data, ..(*map).clone() };
                map.annotations_mut().insert(ABOUT.to_owned(), DESCRIPTION.to_owned());
                cx.replace(map).await?;
            }
            None => {
                let metadata = ObjectMeta {
                    name: Some(NAME.to_owned()),
                    namespace: namespace.metadata.name.clone(),
                    annotations: Some([(ABOUT.to_owned(), DESCRIPTION.to_owned())].into()),
                    ..ObjectMeta::default()
                };
                cx.create_free(ConfigMap { metadata, data, ..ConfigMap::default() }).await?;
            }
        }
        Ok(Next::on_change())
    }
}
