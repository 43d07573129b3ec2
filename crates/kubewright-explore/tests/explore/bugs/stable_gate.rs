//! Changes wait until all pods are ready. After a change with which they never are, none is made any more, not even the
//! one that undoes it.

use k8s_openapi::api::core::v1::{Container, PodSpec};
use kubewright::{prelude::*, workload};
use kubewright_explore::Oracle;

use super::{Done, is_found};

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "bugs.example.com", version = "v1", kind = "Site", namespaced)]
pub(crate) struct SiteSpec {
    pub image: String,
}

struct Serve(Done);

impl Reconciler<Site> for Serve {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, site: &Site, cx: &Context<Site>) -> Result<Next> {
        let current = cx.children::<Deployment>()?;
        if self.0 == Done::Wrong && !current.iter().all(|one| workload::is_complete(one)) {
            return Ok(Next::on_change());
        }
        let container = Container {
            name: "site".to_owned(),
            image: Some(site.spec.image.clone()),
            ..Container::default()
        };
        let pod = PodSpec { containers: vec![container], ..PodSpec::default() };
        cx.apply(workload::deployment(site, 1, pod)).await?;
        Ok(Next::on_change())
    }
}

fn operator(done: Done) -> Operator {
    Operator::new("site-operator").controller(Controller::of::<Site>().owns::<Deployment>().run(Serve(done)))
}

#[test]
fn what_is_broken_is_not_mended_because_it_is_broken() {
    let sample =
        "{apiVersion: bugs.example.com/v1, kind: Site, metadata: {name: sample}, spec: {image: nginx}}";
    is_found(operator, sample, &[Oracle::History]);
}
