//! Operators that are right, and look after what they make with clients of their own, in styles that are not those of the SDK.

use k8s_openapi::api::rbac::v1::{Role, RoleBinding, RoleRef, Subject};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
};
use kubewright::{Reader, Verb, prelude::*, workload::child_meta};
use kubewright_explore::{Fault, explore};
use serde_json::json;

use super::{SOME, gadgets::is_present};
use crate::gadget::{Gadget, SAMPLE, text};

const OF: &str = "example.com/of";

fn maps(cx: &Reader<Gadget>) -> Api<ConfigMap> {
    Api::namespaced(cx.client().clone(), cx.namespace())
}

/// Creates, and compares if there is something already.
struct CreatesFirst;

impl Reconciler<Gadget> for CreatesFirst {
    async fn reconcile(&self, gadget: &Gadget, cx: &Context<Gadget>) -> Result<Next> {
        if !is_present(gadget, cx).await? {
            return Ok(Next::after(Duration::from_secs(2)));
        }
        let mut wanted = text(gadget);
        wanted.metadata.owner_references = gadget.controller_owner_ref(&()).map(|owner| vec![owner]);
        match maps(cx).create(&PostParams::default(), &wanted).await {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
            made => return made.map(|_| Next::on_change()).map_err(Error::from),
        }
        let mut there = maps(cx).get(&wanted.name_any()).await?;
        if there.owner_references() != wanted.owner_references() {
            return Ok(Next::after(Duration::from_secs(2)));
        }
        if there.data != wanted.data {
            there.data = wanted.data;
            maps(cx).replace(&there.name_any(), &PostParams::default(), &there).await?;
        }
        Ok(Next::on_change())
    }
}

#[test]
fn what_is_there_may_be_found_out_by_creating_it() {
    let operator = || {
        let controller = Controller::of::<Gadget>().owns::<ConfigMap>().needs::<Gadget>(&[Verb::Get]);
        let verbs = [Verb::Get, Verb::Create, Verb::Update];
        Operator::new("gadget-operator").controller(controller.needs::<ConfigMap>(&verbs).run(CreatesFirst))
    };
    explore(operator).sample(SAMPLE).runs(SOME).run().assert_survived();
}

/// Calls what it makes after the UID of its gadget, and takes it away by that.
struct ByUid;

impl ByUid {
    async fn make(gadget: &Gadget, cx: &Context<Gadget>) -> Result<Next> {
        if is_present(gadget, cx).await? {
            let uid = gadget.uid().unwrap_or_default();
            let metadata = json!({"name": format!("text-{uid}"), "labels": {OF: uid}});
            let map = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": gadget.spec.text},
            });
            let parameters = PatchParams::apply("by hand").force();
            maps(cx).patch(&format!("text-{uid}"), &parameters, &Patch::Apply(&map)).await?;
        }
        Ok(Next::after(Duration::from_secs(60)))
    }
}

impl Reconciler<Gadget> for ByUid {
    async fn reconcile(&self, gadget: &Gadget, cx: &Context<Gadget>) -> Result<Next> {
        Self::make(gadget, cx).await
    }
}

impl Finalizer<Gadget> for ByUid {
    async fn finalize(&self, gadget: &Gadget, cx: Finalizing<Gadget>) -> Result<Finalized> {
        let own = ListParams::default().labels(&format!("{OF}={}", gadget.uid().unwrap_or_default()));
        maps(&cx).delete_collection(&DeleteParams::default(), &own).await?;
        Ok(cx.done())
    }
}

#[test]
fn all_that_is_labelled_with_a_uid_may_be_deleted_at_once() {
    let operator = || {
        let controller = Controller::of::<Gadget>()
            .needs::<Gadget>(&[Verb::Get])
            .needs::<ConfigMap>(&[Verb::Create, Verb::Patch, Verb::DeleteCollection])
            .finalizer("example.com/text", ByUid);
        Operator::new("gadget-operator").controller(controller.run(ByUid))
    };
    explore(operator).sample(SAMPLE).runs(SOME).run().assert_survived();
}

/// The same, but somebody else tidies up.
struct Swept;

impl Reconciler<Gadget> for Swept {
    async fn reconcile(&self, gadget: &Gadget, cx: &Context<Gadget>) -> Result<Next> {
        ByUid::make(gadget, cx).await
    }
}

/// Deletes what belongs to no gadget any more: what was there before it looked which gadgets there are.
async fn sweep(client: &kube::Client) -> kube::Result<()> {
    let (maps, gadgets): (Api<ConfigMap>, Api<Gadget>) =
        (Api::namespaced(client.clone(), "default"), Api::namespaced(client.clone(), "default"));
    let all = maps.list(&ListParams::default().labels(OF)).await?;
    let gadgets = gadgets.list(&ListParams::default()).await?;
    for map in all {
        if !gadgets.items.iter().any(|gadget| gadget.uid().as_ref() == map.labels().get(OF)) {
            let exactly = Preconditions { uid: map.uid(), resource_version: None };
            maps.delete(&map.name_any(), &DeleteParams::default().preconditions(exactly)).await?;
        }
    }
    Ok(())
}

#[test]
fn what_is_called_after_who_is_gone_may_be_swept_up() {
    let operator = || {
        let verbs = [Verb::Get, Verb::List, Verb::Create, Verb::Patch, Verb::Delete];
        let controller =
            Controller::of::<Gadget>().needs::<Gadget>(&[Verb::Get, Verb::List]).needs::<ConfigMap>(&verbs);
        Operator::new("gadget-operator").controller(controller.run(Swept)).task("sweep", |cx| async move {
            loop {
                if let Err(why) = sweep(&cx.client).await {
                    tracing::warn!("{why}");
                }
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_secs(20)) => {}
                    _ = cx.shutdown.requested() => return Ok(()),
                }
            }
        })
    };
    explore(operator).sample(SAMPLE).faults([Fault::CrashBeforePastChange]).run().assert_survived();
}

/// Makes an account, of which the server says how it is called, and notes that.
struct Accounts;

impl Reconciler<Gadget> for Accounts {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, gadget: &Gadget, cx: &Context<Gadget>) -> Result<Next> {
        let Some(account) = cx.children::<ServiceAccount>()?.into_iter().next() else {
            let generate_name = Some(format!("{}-", gadget.name_any()));
            let metadata = ObjectMeta { generate_name, ..ObjectMeta::default() };
            cx.create(ServiceAccount { metadata, ..ServiceAccount::default() }).await?;
            return Ok(Next::after(Duration::from_secs(1)));
        };
        let data = Some([("account".to_owned(), account.name_any())].into());
        cx.apply(ConfigMap { metadata: child_meta(gadget, "account"), data, ..ConfigMap::default() }).await?;
        Ok(Next::on_change())
    }
}

#[test]
fn who_is_made_again_is_called_otherwise() {
    let operator = || {
        let controller = Controller::of::<Gadget>().owns::<ConfigMap>().owns::<ServiceAccount>();
        Operator::new("gadget-operator").controller(controller.run(Accounts))
    };
    let faults = [Fault::ChildDeleted, Fault::ChildDeletedLater];
    explore(operator).sample(SAMPLE).faults(faults).run().assert_survived();
}

/// A team: who may read what is in a namespace.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "test.example.com", version = "v1", kind = "Team", namespaced)]
struct TeamSpec {
    people: Vec<String>,
}

/// Leaves those who are there where they are.
struct Binds;

impl Reconciler<Team> for Binds {
    async fn reconcile(&self, team: &Team, cx: &Context<Team>) -> Result<Next> {
        let group = "rbac.authorization.k8s.io".to_owned();
        let subject = |name: &String| Subject {
            api_group: Some(group.clone()),
            kind: "User".to_owned(),
            name: name.clone(),
            namespace: None,
        };
        let wanted: Vec<Subject> = team.spec.people.iter().map(subject).collect();
        let there = cx.get::<RoleBinding>(&team.name_any())?;
        let mut subjects = there.and_then(|there| there.subjects.clone()).unwrap_or_default();
        subjects.retain(|one| wanted.contains(one));
        subjects.extend(wanted.iter().filter(|one| !subjects.contains(one)).cloned().collect::<Vec<_>>());
        cx.apply(Role { metadata: child_meta(team, ""), rules: Some(Vec::new()) }).await?;
        let role_ref =
            RoleRef { api_group: Some(group.clone()), kind: "Role".to_owned(), name: team.name_any() };
        let metadata = child_meta(team, "");
        cx.apply(RoleBinding { metadata, role_ref, subjects: Some(subjects) }).await?;
        Ok(Next::on_change())
    }
}

#[test]
fn those_who_are_bound_to_a_role_are_in_no_order() {
    const TEAM: &str =
        "{apiVersion: test.example.com/v1, kind: Team, metadata: {name: sample}, spec: {people: [ann, bob]}}";
    let operator = || {
        let controller = Controller::of::<Team>().owns::<Role>().owns::<RoleBinding>();
        Operator::new("team-operator").controller(controller.run(Binds))
    };
    explore(operator).sample(TEAM).runs(SOME).run().assert_survived();
}
