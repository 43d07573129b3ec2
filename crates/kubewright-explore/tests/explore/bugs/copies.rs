//! What has to agree with something else: a copy with what it was made from, and a status with what it is about; and what
//! may differ all the same.

use k8s_openapi::api::core::v1::{ServicePort, ServiceSpec};
use kubewright::{Verb, prelude::*, workload::child_meta};
use kubewright_explore::{Fault, Oracle, explore};
use serde_json::json;

use super::{Done, SOME, gadgets::one_is_found, is_found};
use crate::gadget::{Doing, Gadget, GadgetStatus, SAMPLE, operator, text};

#[test]
fn two_secrets_have_the_same_password_only_if_both_are_made_at_once() {
    let wrong: Doing = |gadget, cx| Box::pin(async move { share(gadget, cx, false).await });
    let right: Doing = |gadget, cx| Box::pin(async move { share(gadget, cx, true).await });
    one_is_found(wrong, right, Oracle::EndState);
}

/// Sees to it that two Secrets have a password, and that it is the same one, if it looks.
async fn share(gadget: &Gadget, cx: &Context<Gadget>, looks: bool) -> Result<Next> {
    let secrets = ["server", "client"].map(|name| child_name(gadget, name));
    let password = |secret: &Secret| {
        let data = secret.data.as_ref()?.get("password")?;
        String::from_utf8(data.0.clone()).ok()
    };
    let there = [cx.get::<Secret>(&secrets[0])?, cx.get::<Secret>(&secrets[1])?];
    let known = there.iter().flatten().find_map(|secret| password(secret));
    let new = format!("{}-{}", gadget.uid().unwrap_or_default(), cx.clock().now());
    let value = known.filter(|_| looks).unwrap_or(new);
    for (secret, _) in secrets.into_iter().zip(there).filter(|(_, there)| there.is_none()) {
        let metadata = ObjectMeta { name: Some(secret), ..ObjectMeta::default() };
        let data = [("password".to_owned(), k8s_openapi::ByteString(value.clone().into_bytes()))].into();
        match cx.create(Secret { metadata, data: Some(data), ..Secret::default() }).await {
            Err(why) if why.status().is_some_and(|status| status.reason == "AlreadyExists") => {
                return Ok(Next::after(Duration::from_secs(5)));
            }
            made => drop(made?),
        }
    }
    Ok(Next::on_change())
}

/// Another controller has the password in a ConfigMap as well, as bytes.
struct Copies;

impl Reconciler<Gadget> for Copies {
    async fn reconcile(&self, gadget: &Gadget, cx: &Context<Gadget>) -> Result<Next> {
        let secret = cx.live().get::<Secret>(&child_name(gadget, "password")).await?;
        let is_own = |secret: &Seen<Secret>| {
            secret.owner_references().iter().any(|owner| Some(&owner.uid) == gadget.metadata.uid.as_ref())
        };
        let Some(data) = secret.filter(is_own).and_then(|secret| secret.data.clone()) else {
            return Ok(Next::after(Duration::from_secs(2)));
        };
        let copy = ConfigMap {
            metadata: child_meta(gadget, "copy"),
            binary_data: Some(data),
            ..ConfigMap::default()
        };
        cx.apply(copy).await?;
        Ok(Next::on_change())
    }
}

/// Has the address of a Service in a ConfigMap.
struct Notes(Done);

impl Reconciler<Gadget> for Notes {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, gadget: &Gadget, cx: &Context<Gadget>) -> Result<Next> {
        let ports = Some(vec![ServicePort { port: 80, ..ServicePort::default() }]);
        let service =
            cx.apply(workload::service(gadget, ServiceSpec { ports, ..ServiceSpec::default() })).await?;
        let address = service.spec.as_ref().and_then(|spec| spec.cluster_ip.clone()).unwrap_or_default();
        let data = Some([("address".to_owned(), address)].into());
        let note = ConfigMap { metadata: child_meta(gadget, "address"), data, ..ConfigMap::default() };
        if self.0 == Done::Right || cx.get::<ConfigMap>(&note.name_any())?.is_none() {
            cx.apply(note).await?;
        }
        Ok(Next::on_change())
    }
}

#[test]
fn an_address_is_noted_once_and_for_all() {
    let operator = |done| {
        let controller = Controller::of::<Gadget>().owns::<ConfigMap>().owns::<Service>();
        Operator::new("gadget-operator").controller(controller.run(Notes(done)))
    };
    is_found(operator, SAMPLE, &[Oracle::EndState]);
}

#[test]
fn bytes_are_copied_of_what_is_not_watched() {
    let makes: Doing = |gadget, cx| {
        Box::pin(async move {
            let name = child_name(gadget, "password");
            if cx.get::<Secret>(&name)?.is_none() {
                let password = format!("{}-{}", gadget.uid().unwrap_or_default(), cx.clock().now());
                let data = [("password".to_owned(), k8s_openapi::ByteString(password.into_bytes()))].into();
                let metadata = child_meta(gadget, "password");
                let made = cx.create(Secret { metadata, data: Some(data), ..Secret::default() }).await;
                if made.as_ref().err().and_then(Error::status).is_some_and(|status| status.code == 409) {
                    return Ok(Next::after(Duration::from_secs(2)));
                }
                made?;
            }
            Ok(Next::on_change())
        })
    };
    let operator = move |done| {
        let copies =
            Controller::of::<Gadget>().named("copies").owns::<ConfigMap>().needs::<Secret>(&[Verb::Get]);
        let copies = if done == Done::Right { copies.owns::<Secret>() } else { copies };
        operator(makes).controller(copies.run(Copies))
    };
    is_found(operator, SAMPLE, &[Oracle::EndState]);
}

#[test]
fn how_often_it_was_changed_may_show_in_a_child() {
    let right: Doing = |gadget, cx| {
        Box::pin(async move {
            let mut map = text(gadget);
            let generation = gadget.metadata.generation.unwrap_or_default().to_string();
            map.metadata.annotations = Some([("example.com/generation".to_owned(), generation)].into());
            cx.apply(map).await?;
            Ok(Next::on_change())
        })
    };
    explore(move || operator(right)).sample(SAMPLE).runs(SOME).run().assert_survived();
}

#[test]
fn a_generation_that_was_only_read_is_said_to_be_observed() {
    let wrong: Doing = |gadget, cx| {
        Box::pin(async move {
            cx.apply(text(gadget)).await?;
            // Meanwhile it may be another one.
            if let Some(newest) = cx.live().get::<Gadget>(&gadget.name_any()).await? {
                let observed = json!({"observedGeneration": newest.metadata.generation});
                let is_told = newest
                    .status
                    .as_ref()
                    .is_some_and(|status| status.observed_generation == newest.metadata.generation);
                if !is_told {
                    cx.patch_status(&newest, observed).await?;
                }
            }
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
fn a_gadget_that_is_paused_keeps_what_it_has() {
    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
    #[kube(group = "test.example.com", version = "v1", kind = "Player", namespaced)]
    struct PlayerSpec {
        song: String,
        #[serde(default)]
        paused: bool,
    }
    struct Plays;
    impl Reconciler<Player> for Plays {
        async fn reconcile(&self, player: &Player, cx: &Context<Player>) -> Result<Next> {
            if !player.spec.paused {
                let data = [("song".to_owned(), player.spec.song.clone())].into();
                let metadata = child_meta(player, "");
                cx.apply(ConfigMap { metadata, data: Some(data), ..ConfigMap::default() }).await?;
            }
            Ok(Next::on_change())
        }
    }
    const PLAYER: &str = "{apiVersion: test.example.com/v1, kind: Player, metadata: {name: sample}, \
                          spec: {song: hello, paused: false}}";
    let operator = || {
        Operator::new("player-operator").controller(Controller::of::<Player>().owns::<ConfigMap>().run(Plays))
    };
    explore(operator).sample(PLAYER).runs(SOME).run().assert_survived();
}

#[test]
fn trouble_that_is_over_is_not_told_any_more() {
    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
    #[kube(group = "test.example.com", version = "v1", kind = "Radio", namespaced, status = "RadioStatus")]
    struct RadioSpec {
        station: String,
    }
    #[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default)]
    struct RadioStatus {
        #[serde(skip_serializing_if = "Option::is_none")]
        trouble: Option<String>,
    }
    struct Tunes;
    impl Reconciler<Radio> for Tunes {
        async fn reconcile(&self, radio: &Radio, cx: &Context<Radio>) -> Result<Next> {
            let data = [("station".to_owned(), radio.spec.station.clone())].into();
            let metadata = child_meta(radio, "");
            let tuned = cx.apply(ConfigMap { metadata, data: Some(data), ..ConfigMap::default() }).await;
            let trouble = tuned.as_ref().err().map(ToString::to_string);
            cx.status(RadioStatus { trouble }).await?;
            tuned.map(|_| Next::on_change())
        }
    }
    const RADIO: &str =
        "{apiVersion: test.example.com/v1, kind: Radio, metadata: {name: sample}, spec: {station: one}}";
    let operator = || {
        Operator::new("radio-operator").controller(Controller::of::<Radio>().owns::<ConfigMap>().run(Tunes))
    };
    let faults = [Fault::InternalError, Fault::Denied];
    explore(operator).sample(RADIO).faults(faults).run().assert_survived();
}
