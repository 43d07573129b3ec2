//! Bugs of the same kinds that need no resource of their own.

use k8s_openapi::{
    api::{
        batch::v1::{CronJobSpec, JobSpec, JobTemplateSpec},
        core::v1::{
            Container, PersistentVolumeClaimSpec, PersistentVolumeClaimVolumeSource, PodSpec,
            PodTemplateSpec, Volume, VolumeResourceRequirements,
        },
    },
    apimachinery::pkg::api::resource::Quantity,
};
use kubewright::{Verb, prelude::*, workload::child_meta};
use kubewright_explore::{Fault, Oracle, explore};
use serde_json::json;

use super::{Done, SOME, is_found};
use crate::gadget::{Does, Doing, Gadget, GadgetStatus, SAMPLE, operator, text};

/// One of two ways to look after gadgets is found out.
pub(super) fn one_is_found(wrong: Doing, right: Doing, oracle: Oracle) {
    let operator = move |done| operator(if done == Done::Wrong { wrong } else { right });
    is_found(operator, SAMPLE, &[oracle]);
}

/// A Secret of a gadget.
pub(super) fn secret(gadget: &Gadget, value: &str) -> Secret {
    let data = [("value".to_owned(), value.to_owned())].into();
    Secret { metadata: child_meta(gadget, "secret"), string_data: Some(data), ..Secret::default() }
}

pub(crate) fn pod(image: &str) -> PodSpec {
    let container = Container { name: "main".into(), image: Some(image.into()), ..Container::default() };
    PodSpec { containers: vec![container], ..PodSpec::default() }
}

/// A pod that ends.
pub(super) fn once(image: &str) -> PodSpec {
    PodSpec { restart_policy: Some("Never".to_owned()), ..pod(image) }
}

/// Whether a gadget is still as it is seen: that may be the past.
pub(crate) async fn is_present(gadget: &Gadget, cx: &Context<Gadget>) -> Result<bool> {
    let now = cx.live().get::<Gadget>(&gadget.name_any()).await?;
    Ok(now.is_some_and(|now| {
        now.uid() == gadget.uid()
            && now.metadata.generation == gadget.metadata.generation
            && now.metadata.deletion_timestamp.is_none()
    }))
}

#[test]
fn an_error_is_swallowed_and_what_failed_never_tried_again() {
    let wrong: Doing = |gadget, cx| {
        Box::pin(async move {
            cx.apply(text(gadget)).await?;
            let _ = cx.apply(secret(gadget, &gadget.spec.text)).await;
            Ok(Next::on_change())
        })
    };
    let right: Doing = |gadget, cx| {
        Box::pin(async move {
            cx.apply(text(gadget)).await?;
            cx.apply(secret(gadget, &gadget.spec.text)).await?;
            Ok(Next::on_change())
        })
    };
    one_is_found(wrong, right, Oracle::EndState);
}

#[test]
fn what_was_made_once_is_not_looked_at_again() {
    let wrong: Doing = |gadget, cx| Box::pin(async move { keep(gadget, cx, false).await });
    let right: Doing = |gadget, cx| Box::pin(async move { keep(gadget, cx, true).await });
    one_is_found(wrong, right, Oracle::EndState);
}

async fn keep(gadget: &Gadget, cx: &Context<Gadget>, always: bool) -> Result<Next> {
    let is_made = gadget.status.as_ref().is_some_and(|status| status.note.is_some());
    if always || !is_made {
        cx.apply(secret(gadget, "always the same")).await?;
    }
    cx.apply(text(gadget)).await?;
    cx.status(GadgetStatus { note: Some("made".to_owned()), ..GadgetStatus::default() }).await?;
    Ok(Next::on_change())
}

#[test]
fn the_owner_of_what_has_a_generated_name_is_forgotten() {
    let wrong: Doing = |gadget, cx| Box::pin(async move { generate(gadget, cx, false).await });
    let right: Doing = |gadget, cx| Box::pin(async move { generate(gadget, cx, true).await });
    one_is_found(wrong, right, Oracle::Leaks);
}

async fn generate(gadget: &Gadget, cx: &Context<Gadget>, is_owned: bool) -> Result<Next> {
    let mut maps = if is_owned { cx.children::<ConfigMap>()? } else { cx.list::<ConfigMap>()? };
    maps.retain(|map| map.metadata.generate_name.is_some());
    maps.sort_by_key(|map| (map.metadata.creation_timestamp.clone(), map.name_any()));
    if maps.is_empty() {
        let (generate_name, namespace) = (Some(format!("{}-", gadget.name_any())), gadget.namespace());
        let metadata = ObjectMeta { generate_name, namespace, ..ObjectMeta::default() };
        let map = ConfigMap { metadata, ..ConfigMap::default() };
        if is_owned {
            cx.create(map).await?;
        } else {
            cx.create_free(map).await?;
        }
    }
    // After an answer that was lost there is one too many.
    for surplus in maps.iter().skip(1) {
        cx.delete(surplus).await?;
    }
    Ok(Next::on_change())
}

#[test]
fn a_generation_is_said_to_be_observed_before_anything_is_done() {
    let wrong: Doing = |gadget, cx| {
        Box::pin(async move {
            cx.status(GadgetStatus::default()).await?;
            cx.apply(text(gadget)).await?;
            Ok(Next::on_change())
        })
    };
    let right: Doing = |gadget, cx| {
        Box::pin(async move {
            cx.apply(text(gadget)).await?;
            cx.status(GadgetStatus::default()).await?;
            Ok(Next::on_change())
        })
    };
    one_is_found(wrong, right, Oracle::Status);
}

#[test]
fn what_has_only_been_applied_is_said_to_be_ready() {
    let wrong: Doing = |gadget, cx| Box::pin(async move { run(gadget, cx, true).await });
    let right: Doing = |gadget, cx| Box::pin(async move { run(gadget, cx, false).await });
    one_is_found(wrong, right, Oracle::Status);
}

async fn run(gadget: &Gadget, cx: &Context<Gadget>, hopes: bool) -> Result<Next> {
    let deployment = cx.apply(workload::deployment(gadget, 1, pod(&gadget.spec.text))).await?;
    let ready = condition("Ready", hopes || workload::is_complete(&deployment), "Runs", "");
    cx.status(GadgetStatus { conditions: vec![ready], ..GadgetStatus::default() }).await?;
    Ok(Next::on_change())
}

#[test]
fn a_password_is_made_again_after_a_crash() {
    let wrong: Doing = |gadget, cx| {
        Box::pin(async move {
            if gadget.status.as_ref().is_none_or(|status| status.note.is_none()) {
                cx.apply(secret(gadget, &password(gadget, cx))).await?;
            }
            cx.status(GadgetStatus { note: Some("made".to_owned()), ..GadgetStatus::default() }).await?;
            Ok(Next::on_change())
        })
    };
    let right: Doing = |gadget, cx| Box::pin(keep_password(gadget, cx));
    one_is_found(wrong, right, Oracle::Destruction);
}

/// Makes a password once.
pub(super) async fn keep_password(gadget: &Gadget, cx: &Context<Gadget>) -> Result<Next> {
    if cx.get::<Secret>(&child_name(gadget, "secret"))?.is_none() {
        match cx.create(secret(gadget, &password(gadget, cx))).await {
            Err(why) if why.status().is_some_and(|status| status.reason == "AlreadyExists") => {
                return Ok(Next::after(Duration::from_secs(5)));
            }
            made => drop(made?),
        }
    }
    cx.status(GadgetStatus { note: Some("made".to_owned()), ..GadgetStatus::default() }).await?;
    Ok(Next::on_change())
}

/// As random as it can be where a run has to be the same again.
fn password(gadget: &Gadget, cx: &Context<Gadget>) -> String {
    format!("{}-{}", gadget.uid().unwrap_or_default(), cx.clock().now())
}

#[test]
fn a_secret_is_logged_as_it_is_stored_or_for_debugging() {
    let right: Doing = |gadget, cx| {
        Box::pin(async move {
            cx.apply(token(gadget)).await?;
            Ok(Next::on_change())
        })
    };
    let stored: Doing = |gadget, cx| {
        Box::pin(async move {
            tracing::info!("applies {}", serde_json::to_string(&token(gadget))?);
            cx.apply(token(gadget)).await?;
            Ok(Next::on_change())
        })
    };
    let debugged: Doing = |gadget, cx| {
        Box::pin(async move {
            tracing::info!("applies {:?}", token(gadget));
            cx.apply(token(gadget)).await?;
            Ok(Next::on_change())
        })
    };
    one_is_found(stored, right, Oracle::Rights);
    one_is_found(debugged, right, Oracle::Rights);
}

fn token(gadget: &Gadget) -> Secret {
    let text = format!("a token for {}", gadget.spec.text);
    let data = [("token".to_owned(), k8s_openapi::ByteString(text.into_bytes()))].into();
    Secret { metadata: child_meta(gadget, "token"), data: Some(data), ..Secret::default() }
}

#[test]
fn what_is_stopped_for_a_change_is_started_only_by_whoever_stopped_it() {
    let wrong: Doing = |gadget, cx| {
        Box::pin(async move {
            let wanted = &*gadget.spec.text;
            let Some(current) = cx.get::<Deployment>(&gadget.name_any())? else {
                cx.apply(workload::deployment(gadget, 2, pod(wanted))).await?;
                return Ok(Next::on_change());
            };
            if image(&current) != wanted {
                cx.patch(&current, json!({"spec": {"replicas": 0}})).await?;
                let container = json!({"name": "main", "image": wanted});
                let template = json!({"spec": {"containers": [container]}});
                cx.patch(&current, json!({"spec": {"template": template}})).await?;
                cx.patch(&current, json!({"spec": {"replicas": 2}})).await?;
            }
            Ok(Next::on_change())
        })
    };
    let right: Doing = |gadget, cx| {
        Box::pin(async move {
            let current = cx.get::<Deployment>(&gadget.name_any())?;
            let runs_another = |current: &Deployment| {
                let status = current.status.clone().unwrap_or_default();
                let is_stopped = status.replicas.unwrap_or(0) == 0
                    && status.observed_generation >= current.metadata.generation;
                image(current) != gadget.spec.text && !is_stopped
            };
            let next = match current.filter(|current| runs_another(current)) {
                Some(current) => workload::deployment(gadget, 0, pod(&image(&current))),
                None => workload::deployment(gadget, 2, pod(&gadget.spec.text)),
            };
            cx.apply(next).await?;
            Ok(Next::on_change())
        })
    };
    one_is_found(wrong, right, Oracle::EndState);
}

fn image(deployment: &Deployment) -> String {
    let spec = deployment.spec.clone().unwrap_or_default();
    let containers = spec.template.spec.unwrap_or_default().containers;
    containers.into_iter().next().and_then(|container| container.image).unwrap_or_default()
}

const FINALIZER: &str = "test.example.com/cleanup";

#[test]
fn a_finalizer_comes_after_what_it_is_for() {
    let wrong: Doing = |gadget, cx| Box::pin(async move { furnish(gadget, cx, false).await });
    let right: Doing = |gadget, cx| Box::pin(async move { furnish(gadget, cx, true).await });
    let operator = move |done| {
        let controller = Controller::of::<Gadget>().reconciles_deleted().owns::<ConfigMap>();
        let controller = controller.needs::<Gadget>(&[Verb::Get, Verb::Patch]);
        let doing = if done == Done::Wrong { wrong } else { right };
        Operator::new("gadget-operator").controller(controller.run(Does(doing)))
    };
    is_found(operator, SAMPLE, &[Oracle::Leaks]);
}

/// Makes something that belongs to nobody, and cleans it up.
async fn furnish(gadget: &Gadget, cx: &Context<Gadget>, marks_first: bool) -> Result<Next> {
    let name = format!("free-{}", gadget.uid().unwrap_or_default());
    if gadget.metadata.deletion_timestamp.is_some() {
        if let Some(map) = cx.live().get::<ConfigMap>(&name).await? {
            cx.delete(&map).await?;
        }
        if !gadget.finalizers().is_empty() {
            cx.patch(&cx.object(), json!({"metadata": {"finalizers": []}})).await?;
        }
        return Ok(Next::on_change());
    }
    if !is_present(gadget, cx).await? {
        return Ok(Next::after(Duration::from_secs(5)));
    }
    let mark = json!({"metadata": {"finalizers": [FINALIZER]}});
    let is_marked = !gadget.finalizers().is_empty();
    if marks_first && !is_marked {
        cx.patch(&cx.object(), mark.clone()).await?;
    }
    if cx.live().get::<ConfigMap>(&name).await?.is_none() {
        let metadata =
            ObjectMeta { name: Some(name), namespace: gadget.namespace(), ..ObjectMeta::default() };
        cx.create_free(ConfigMap { metadata, ..ConfigMap::default() }).await?;
    }
    if !marks_first && !is_marked {
        cx.patch(&cx.object(), mark).await?;
    }
    // What belongs to nobody tells nobody that it is gone.
    Ok(Next::after(Duration::from_secs(60)))
}

#[test]
fn jobs_of_a_schedule_and_claims_that_do_not_shrink_are_no_fault() {
    struct Keeps;
    impl Reconciler<Gadget> for Keeps {
        async fn reconcile(&self, gadget: &Gadget, cx: &Context<Gadget>) -> Result<Next> {
            let metadata = child_meta(gadget, "");
            let template = PodTemplateSpec { spec: Some(once("backup")), ..PodTemplateSpec::default() };
            let job = JobSpec { template, ..JobSpec::default() };
            let spec = CronJobSpec {
                schedule: "* * * * *".to_owned(),
                job_template: JobTemplateSpec { spec: Some(job.clone()), ..JobTemplateSpec::default() },
                ..CronJobSpec::default()
            };
            cx.apply(CronJob { metadata: metadata.clone(), spec, ..CronJob::default() }).await?;
            cx.apply(Job { metadata: metadata.clone(), spec: Some(job), ..Job::default() }).await?;
            let current = cx.live().get::<PersistentVolumeClaim>(&gadget.name_any()).await?;
            let size = current.and_then(|claim| {
                let requests = claim.spec.clone()?.resources?.requests?;
                requests.get("storage")?.0.strip_suffix("Gi")?.parse().ok()
            });
            let size = gadget.spec.text.len().max(size.unwrap_or(0));
            let requests = [("storage".to_owned(), Quantity(format!("{size}Gi")))].into();
            let resources = VolumeResourceRequirements {
                requests: Some(requests),
                ..VolumeResourceRequirements::default()
            };
            let spec = PersistentVolumeClaimSpec {
                access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
                resources: Some(resources),
                ..PersistentVolumeClaimSpec::default()
            };
            // Only what is bound grows, and only what is used is bound.
            let source =
                PersistentVolumeClaimVolumeSource { claim_name: gadget.name_any(), ..Default::default() };
            let volume = Volume {
                name: "data".to_owned(),
                persistent_volume_claim: Some(source),
                ..Volume::default()
            };
            let pod = PodSpec { volumes: Some(vec![volume]), ..pod("nginx") };
            cx.apply(workload::deployment(gadget, 1, pod)).await?;
            let spec = Some(spec);
            cx.apply(PersistentVolumeClaim { metadata, spec, ..PersistentVolumeClaim::default() }).await?;
            Ok(Next::on_change())
        }
    }
    let operator = || {
        let controller = Controller::of::<Gadget>().owns::<CronJob>().owns::<Job>().owns::<Deployment>();
        Operator::new("gadget-operator").controller(controller.owns::<PersistentVolumeClaim>().run(Keeps))
    };
    explore(operator).sample(SAMPLE).runs(SOME).run().assert_survived();
    let deleted = [Fault::ChildDeleted, Fault::ChildDeletedLater];
    explore(operator).sample(SAMPLE).faults(deleted).run().assert_survived();
}

#[test]
fn what_was_noted_once_stays_in_the_status() {
    async fn note(gadget: &Gadget, cx: &Context<Gadget>, adds: bool) -> Result<Next> {
        cx.apply(text(gadget)).await?;
        let before = gadget.status.as_ref().and_then(|status| status.note.clone()).filter(|_| adds);
        let note = match before {
            Some(before) if before.split(',').any(|one| one == gadget.spec.text) => before,
            Some(before) => format!("{before},{}", gadget.spec.text),
            None => gadget.spec.text.clone(),
        };
        cx.status(GadgetStatus { note: Some(note), ..GadgetStatus::default() }).await?;
        Ok(Next::on_change())
    }
    let wrong: Doing = |gadget, cx| Box::pin(note(gadget, cx, true));
    let right: Doing = |gadget, cx| Box::pin(note(gadget, cx, false));
    one_is_found(wrong, right, Oracle::History);
}
