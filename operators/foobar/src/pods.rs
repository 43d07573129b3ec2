//! Pods that ask for it are told what a `FooBar` is about, before they are created.

use k8s_openapi::{api::core::v1::EnvVar, apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement};
use kubewright::prelude::*;

use crate::FooBar;

/// The label by which a pod names a `FooBar` of its namespace.
pub const LABEL: &str = "test.example.com/foobar";
/// The variable in which its containers find the target.
pub const VARIABLE: &str = "FOOBAR_TARGET";

/// Asked about pods with the label, and about no others: the rest of the cluster does not depend on this operator.
pub(crate) fn webhook() -> Webhook {
    let expressions =
        vec![LabelSelectorRequirement { key: LABEL.to_owned(), operator: "Exists".to_owned(), values: None }];
    let labelled = LabelSelector { match_expressions: Some(expressions), ..LabelSelector::default() };
    Webhook::defaulting::<Pod>(tell).reads::<FooBar>().operations([Operation::Create]).objects(labelled)
}

fn tell(pod: &mut Pod, admission: &Admission<Pod>) -> Result<Verdict> {
    let name = pod.labels().get(LABEL).cloned().unwrap_or_default();
    let namespace = admission.namespace.as_deref().unwrap_or_default();
    let Some(foobar) = admission.lookup().get::<FooBar>(&Key::new(namespace, &name))? else {
        let field = format!("metadata.labels[{LABEL}]");
        return Ok(Verdict::allowed().invalid(&field, name, "there is no FooBar of this name"));
    };
    let containers = pod.spec.iter_mut().flat_map(|spec| &mut spec.containers);
    for variables in containers.map(|container| container.env.get_or_insert_default()) {
        if variables.iter().all(|variable| variable.name != VARIABLE) {
            let value = Some(foobar.spec.target.clone());
            variables.push(EnvVar { name: VARIABLE.to_owned(), value, value_from: None });
        }
    }
    Ok(Verdict::allowed())
}
