use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kubewright::Controller;

fn main() {
    let _ = Controller::of_existing::<ConfigMap>().owns::<Namespace>();
}
