//! A resource to explore with, and an operator that does with it what a test says.

use std::{future::Future, pin::Pin};

use kubewright::{Verb, prelude::*, workload::child_meta};

/// A gadget: a text that is kept in a ConfigMap.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "test.example.com", version = "v1", kind = "Gadget", namespaced, status = "GadgetStatus")]
pub struct GadgetSpec {
    pub text: String,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct GadgetStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

pub const SAMPLE: &str =
    "{apiVersion: test.example.com/v1, kind: Gadget, metadata: {name: sample}, spec: {text: hello}}";

pub type Reconciling<'a> = Pin<Box<dyn Future<Output = Result<Next>> + Send + 'a>>;
/// What is done with a gadget.
pub type Doing = for<'a> fn(&'a Gadget, &'a Context<Gadget>) -> Reconciling<'a>;

pub struct Does(pub Doing);

impl Reconciler<Gadget> for Does {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, gadget: &Gadget, cx: &Context<Gadget>) -> Result<Next> {
        (self.0)(gadget, cx).await
    }
}

/// An operator that does something with gadgets, and may do what gadgets need.
pub fn operator(doing: Doing) -> Operator {
    Operator::new("gadget-operator").controller(
        Controller::of::<Gadget>()
            .owns::<ConfigMap>()
            .owns::<Deployment>()
            .owns::<Secret>()
            .needs::<Gadget>(&[Verb::Get, Verb::Patch])
            .needs::<ConfigMap>(&[Verb::Get, Verb::Create, Verb::Patch])
            .run(Does(doing)),
    )
}

/// An operator that does all of it right.
pub fn keeper() -> Operator {
    operator(|gadget, cx| {
        Box::pin(async move {
            cx.apply(text(gadget)).await?;
            cx.status(GadgetStatus { note: Some(gadget.spec.text.clone()), ..GadgetStatus::default() })
                .await?;
            Ok(Next::on_change())
        })
    })
}

/// The ConfigMap of a gadget.
pub fn text(gadget: &Gadget) -> ConfigMap {
    let data = [("text".to_owned(), gadget.spec.text.clone())].into();
    ConfigMap { metadata: child_meta(gadget, ""), data: Some(data), ..ConfigMap::default() }
}
