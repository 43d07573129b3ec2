//! That the promises of operators are kept by one that does, and that those who don't are found out.

#![allow(unreachable_pub, missing_docs, reason = "nobody sees it")]

use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kubewright::{prelude::*, workload::child_meta};
use kubewright_cluster::{Promises, TestCluster, promises};
use serde_json::json;

/// A text that is kept in a ConfigMap.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "test.kubewright.dev", version = "v1", kind = "Note", namespaced, status = "NoteStatus")]
pub struct NoteSpec {
    pub text: String,
    pub author: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct NoteStatus {
    pub observed_generation: Option<i64>,
    pub conditions: Vec<Condition>,
}

/// What may be wrong with an operator.
#[derive(Clone, Copy, PartialEq)]
enum Flaw {
    None,
    /// It looks only whether the child is there.
    Superficial,
    /// It acts only when the resource changes.
    Blind,
    /// It says something new every minute.
    Restless,
    /// It makes something that belongs to nobody.
    Careless,
    /// It asks for what it has no right to.
    Nosy,
    /// It hides what goes wrong.
    Secretive,
}

impl Reconciler<Note> for Flaw {
    async fn reconcile(&self, note: &Note, cx: &Context<Note>) -> Result<Next> {
        let is_there = cx.get::<ConfigMap>("note")?.is_some();
        let is_told =
            note.status.as_ref().and_then(|status| status.observed_generation) == note.metadata.generation;
        match self {
            Self::Superficial if is_there => {}
            Self::Blind if is_told => return Ok(Next::on_change()),
            Self::Secretive => {
                let _ = cx.apply(kept(note)).await;
            }
            _ => {
                cx.apply(kept(note)).await?;
            }
        }
        if *self == Self::Careless && cx.get::<ConfigMap>("copy")?.is_none() {
            let metadata = ObjectMeta {
                namespace: note.namespace(),
                name: Some("copy".to_owned()),
                ..ObjectMeta::default()
            };
            cx.create_free(ConfigMap { metadata, ..kept(note) }).await?;
        }
        if *self == Self::Nosy {
            let _ = cx.live().get::<Secret>("password").await;
        }
        let message = if *self == Self::Restless { cx.clock().now().to_string() } else { String::new() };
        let conditions = vec![
            condition("Available", true, "Kept", message),
            condition("Progressing", false, "Kept", ""),
            condition("Degraded", false, "Kept", ""),
        ];
        cx.status(NoteStatus { conditions, ..NoteStatus::default() }).await?;
        Ok(if *self == Self::Restless { Next::after(Duration::from_secs(60)) } else { Next::on_change() })
    }
}

fn kept(note: &Note) -> ConfigMap {
    let data = [("text".to_owned(), note.spec.text.clone())].into();
    ConfigMap { metadata: child_meta(note, ""), data: Some(data), ..ConfigMap::default() }
}

fn operator(flaw: Flaw) -> Operator {
    Operator::new("note-operator").controller(Controller::of::<Note>().owns::<ConfigMap>().run(flaw))
}

const SAMPLE: &str = r#"{"apiVersion": "test.kubewright.dev/v1", "kind": "Note", "metadata": {"name": "note"}, "spec": {"text": "hello"}}"#;

fn promises(flaw: Flaw) -> Promises {
    Promises::of(move || operator(flaw), SAMPLE)
}

promises!(promises(Flaw::None);
    a_child_changed_by_hand_is_put_right,
    a_deleted_child_comes_back,
    a_deleted_resource_leaves_nothing,
    an_error_of_the_server_is_told_until_it_passes,
    an_operator_may_be_killed_after_any_write,
    an_operator_that_is_removed_leaves_everything_as_it_is,
    children_belong_to_their_resource,
    what_is_as_it_should_be_is_left_alone,
);

#[tokio::test]
async fn a_resource_from_before_a_field_is_looked_after() {
    promises(Flaw::None).a_resource_from_before_a_field_is_looked_after("/spec/author").await;
}

#[tokio::test]
#[should_panic(expected = "ConfigMap note is put right")]
async fn who_only_looks_whether_a_child_is_there_is_found_out() {
    promises(Flaw::Superficial).a_child_changed_by_hand_is_put_right().await;
}

#[tokio::test]
#[should_panic(expected = "ConfigMap note is back")]
async fn who_does_not_look_again_is_found_out() {
    promises(Flaw::Blind).a_deleted_child_comes_back().await;
}

#[tokio::test]
#[should_panic(expected = "notes/note/status")]
async fn who_writes_for_nothing_is_found_out() {
    promises(Flaw::Restless).what_is_as_it_should_be_is_left_alone().await;
}

#[tokio::test]
#[should_panic(expected = "nothing is left")]
async fn who_leaves_something_behind_is_found_out() {
    promises(Flaw::Careless).a_deleted_resource_leaves_nothing().await;
}

#[tokio::test]
#[should_panic(expected = "made by the operator, and nobody's")]
async fn who_makes_what_is_nobodys_is_found_out() {
    promises(Flaw::Careless).children_belong_to_their_resource().await;
}

#[tokio::test]
#[should_panic(expected = "the operator lacks rights")]
async fn who_asks_for_more_than_its_rights_is_found_out() {
    promises(Flaw::Nosy).children_belong_to_their_resource().await;
}

#[tokio::test]
#[should_panic(expected = "configmaps fail, and that is told: None")]
async fn who_does_not_tell_what_fails_is_found_out() {
    promises(Flaw::Secretive).an_error_of_the_server_is_told_until_it_passes().await;
}

#[tokio::test]
async fn an_operator_may_do_what_its_manifests_let_it_do() {
    let cluster = TestCluster::start().await;
    let nosy = cluster.run(operator(Flaw::Nosy)).await;
    cluster.apply(SAMPLE).await;
    cluster.quiet().await;
    assert_eq!(nosy.forbidden()[0], "GET /api/v1/namespaces/default/secrets/password");
    assert!(nosy.writes().contains(&"PATCH /api/v1/namespaces/default/configmaps/note".to_owned()));
}

#[tokio::test]
async fn what_is_asked_for_is_shown_and_what_can_not_be_is_refused() {
    let cluster = TestCluster::start().await;
    let _operator = cluster.run(operator(Flaw::None)).await;
    cluster.apply_spec::<Note>("note", json!({"text": "hello"})).await;
    cluster.quiet().await;
    assert_eq!(cluster.status::<Note>("note").await.observed_generation, Some(1));
    assert!(cluster.conditions::<Note>("note").await.starts_with("Available=True Kept: \n"));
    assert_eq!(cluster.table::<Note>().await, "NAME   AGE\nnote   6s");
    let refusal = cluster.refusal::<Note>("note", json!({"author": "me"})).await;
    assert!(refusal.contains("spec.text: Required value"), "{refusal}");
}
