//! What only a server inside the process can do: paused time, forks, hooks, seeds, compaction on demand.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    unreachable_pub,
    reason = "a test that can't go on says so by panicking"
)]

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use http::{Method, Request, Response};
use k8s_openapi::api::{
    authentication::v1::SelfSubjectReview,
    core::v1::{ConfigMap, Namespace, Node},
    rbac::v1::{ClusterRole, Role, RoleBinding},
};
use kube::{
    Api, Client, Config, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::watcher::{self, Event},
};
use kubewright_apiserver::{Answer, ApiServer, Body, BoxFuture, Cut, Hook, Next};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"n": "1"}})).unwrap()
}

fn maps(client: Client) -> Api<ConfigMap> {
    Api::namespaced(client, "default")
}

#[tokio::test]
async fn a_fork_goes_its_own_way() {
    let server = ApiServer::start().await.unwrap();
    let original = maps(server.client());
    original.create(&PostParams::default(), &config_map("shared")).await.unwrap();
    let fork = server.fork();
    let forked = maps(fork.client());
    assert_eq!(server.revision(), fork.revision());
    forked.create(&PostParams::default(), &config_map("only-there")).await.unwrap();
    original.delete("shared", &DeleteParams::default()).await.unwrap();
    assert!(original.get_opt("only-there").await.unwrap().is_none());
    assert!(forked.get_opt("shared").await.unwrap().is_some());
    // A fork has the history, too.
    let revision = forked.get("shared").await.unwrap().resource_version().unwrap();
    let mut events = Box::pin(
        forked.watch(&WatchParams::default().fields("metadata.name=only-there"), &revision).await.unwrap(),
    );
    assert!(
        matches!(events.try_next().await.unwrap(), Some(WatchEvent::Added(map)) if map.name_any() == "only-there")
    );
}

#[tokio::test]
async fn the_same_seed_and_requests_give_the_same_objects() {
    let run = async || {
        let origin = "2026-01-01T00:00:00Z".parse().unwrap();
        let server = ApiServer::builder().seed(7).starting_at(origin).start().await.unwrap();
        let map = serde_json::from_value(json!({"metadata": {"generateName": "g-"}})).unwrap();
        let created = maps(server.client()).create(&PostParams::default(), &map).await.unwrap();
        serde_json::to_string(&created).unwrap()
    };
    assert_eq!(run().await, run().await);
}

#[tokio::test(start_paused = true)]
async fn on_a_paused_clock_minutes_take_no_time() {
    let server = ApiServer::start().await.unwrap();
    let maps = maps(server.client());
    let started = Instant::now();
    let parameters = WatchParams::default().timeout(290);
    let mut events = Box::pin(maps.watch(&parameters, &server.revision().to_string()).await.unwrap());
    let mut bookmarks = 0;
    while let Some(event) = events.try_next().await.unwrap() {
        assert!(matches!(event, WatchEvent::Bookmark(_)), "{event:?}");
        bookmarks += 1;
    }
    assert!((4..=6).contains(&bookmarks), "about one a minute: {bookmarks}");
    assert!(started.elapsed() >= Duration::from_secs(289));
}

#[tokio::test(start_paused = true)]
async fn a_watcher_survives_a_compaction_by_listing_again() {
    let server = ApiServer::start().await.unwrap();
    let maps = maps(server.client());
    let config = watcher::Config::default().timeout(5);
    let mut events = Box::pin(watcher::watcher(maps.clone(), config));
    while !matches!(events.try_next().await.unwrap().unwrap(), Event::InitDone) {}
    // Other resources move on, and what the watcher has seen is forgotten.
    let nodes: Api<Node> = Api::all(server.client());
    for index in 0..5 {
        let node = serde_json::from_value(json!({"metadata": {"name": format!("n{index}")}})).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
    }
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    server.compact();
    loop {
        match events.try_next().await {
            Ok(Some(Event::Apply(map) | Event::InitApply(map))) if map.name_any() == "a" => break,
            Ok(Some(_)) | Err(_) => {}
            Ok(None) => panic!("a watcher never ends"),
        }
    }
}

/// Does to each request what a function says.
struct Meddler<F>(F);

enum Meddling {
    Pass,
    Fail(u16),
    Delay(Duration),
    CutBefore,
    CutAfter,
    Change,
}

impl<F: Fn(&Request<Bytes>) -> Meddling + Send + Sync + 'static> Hook for Meddler<F> {
    fn call<'a>(&'a self, mut request: Request<Bytes>, next: Next<'a>) -> BoxFuture<'a, Result<Answer, Cut>> {
        let meddling = self.0(&request);
        Box::pin(async move {
            match meddling {
                Meddling::Pass => next.run(request).await,
                Meddling::Fail(code) => {
                    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "meddled", "reason": "Meddled"});
                    Ok(Response::builder()
                        .status(code)
                        .body(Body::from(Bytes::from(status.to_string())))
                        .unwrap())
                }
                Meddling::Delay(time) => {
                    tokio::time::sleep(time).await;
                    next.run(request).await
                }
                Meddling::CutBefore => Err(Cut),
                Meddling::CutAfter => {
                    next.run(request).await?;
                    Err(Cut)
                }
                Meddling::Change => {
                    let body = String::from_utf8_lossy(request.body()).replace("\"1\"", "\"changed\"");
                    *request.body_mut() = Bytes::from(body);
                    next.run(request).await
                }
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_changes_delays_fails_and_cuts_requests() {
    let is_create = |request: &Request<Bytes>| {
        request.method() == Method::POST && request.uri().path().ends_with("configmaps")
    };
    let hook = Meddler(move |request: &Request<Bytes>| {
        let body = String::from_utf8_lossy(request.body()).into_owned();
        match () {
            () if !is_create(request) => Meddling::Pass,
            () if body.contains("failed") => Meddling::Fail(503),
            () if body.contains("delayed") => Meddling::Delay(Duration::from_secs(30)),
            () if body.contains("lost") => Meddling::CutBefore,
            () if body.contains("unanswered") => Meddling::CutAfter,
            () if body.contains("altered") => Meddling::Change,
            () => Meddling::Pass,
        }
    });
    let server = ApiServer::builder().hook(hook).start().await.unwrap();
    let maps = maps(server.client());
    let create = async |name: &str| maps.create(&PostParams::default(), &config_map(name)).await;
    assert!(matches!(create("failed").await, Err(kube::Error::Api(status)) if status.code == 503));
    let started = Instant::now();
    create("delayed").await.unwrap();
    assert_eq!(started.elapsed().as_secs(), 30);
    assert!(matches!(create("lost").await, Err(kube::Error::Service(_))));
    assert!(maps.get_opt("lost").await.unwrap().is_none());
    assert!(matches!(create("unanswered").await, Err(kube::Error::Service(_))));
    assert!(maps.get_opt("unanswered").await.unwrap().is_some());
    assert_eq!(create("altered").await.unwrap().data.unwrap()["n"], "changed");
}

#[tokio::test]
async fn a_hook_sees_every_request_and_who_asks() {
    struct Notes(Arc<Mutex<Vec<String>>>);
    impl Hook for Notes {
        fn call<'a>(&'a self, request: Request<Bytes>, next: Next<'a>) -> BoxFuture<'a, Result<Answer, Cut>> {
            self.0.lock().push(format!("{} {} {}", next.user().name, request.method(), request.uri().path()));
            Box::pin(next.run(request))
        }
    }
    let notes = Arc::new(Mutex::new(Vec::new()));
    let server = ApiServer::builder().hook(Notes(notes.clone())).start().await.unwrap();
    maps(server.client()).list(&ListParams::default()).await.unwrap();
    let robot = server.client_of_service_account("default", "robot");
    maps(robot).list(&ListParams::default()).await.unwrap_err();
    let expected = [
        "kubernetes-admin GET /api/v1/namespaces/default/configmaps",
        "system:serviceaccount:default:robot GET /api/v1/namespaces/default/configmaps",
    ];
    assert_eq!(*notes.lock(), expected);
}

#[tokio::test]
async fn a_service_account_does_what_its_role_says() {
    let server = ApiServer::start().await.unwrap();
    let robot = maps(server.client_of_service_account("default", "robot"));
    let forbidden = |error: kube::Error| matches!(error, kube::Error::Api(status) if status.is_forbidden());
    assert!(forbidden(robot.create(&PostParams::default(), &config_map("a")).await.unwrap_err()));
    let roles: Api<Role> = Api::namespaced(server.client(), "default");
    let role = json!({"metadata": {"name": "writer"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get"]}]});
    roles.create(&PostParams::default(), &serde_json::from_value(role).unwrap()).await.unwrap();
    let bindings: Api<RoleBinding> = Api::namespaced(server.client(), "default");
    let binding = json!({"metadata": {"name": "writer"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "writer"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}]});
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
    robot.create(&PostParams::default(), &config_map("a")).await.unwrap();
    robot.get("a").await.unwrap();
    assert!(forbidden(robot.delete("a", &DeleteParams::default()).await.unwrap_err()));
    bindings.delete("writer", &DeleteParams::default()).await.unwrap();
    assert!(forbidden(robot.get("a").await.unwrap_err()), "a right is gone at once");
}

#[tokio::test]
async fn roles_are_aggregated_by_their_labels() {
    let server = ApiServer::start().await.unwrap();
    let roles: Api<ClusterRole> = Api::all(server.client());
    let whole = json!({"metadata": {"name": "whole"}, "rules": [],
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"part-of": "whole"}}]}});
    roles.create(&PostParams::default(), &serde_json::from_value(whole).unwrap()).await.unwrap();
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
    let part = json!({"metadata": {"name": "part", "labels": {"part-of": "whole"}}, "rules": [rule]});
    roles.create(&PostParams::default(), &serde_json::from_value(part).unwrap()).await.unwrap();
    let rules = serde_json::to_value(roles.get("whole").await.unwrap().rules).unwrap();
    assert_eq!(rules, json!([rule]));
    roles.delete("part", &DeleteParams::default()).await.unwrap();
    assert!(roles.get("whole").await.unwrap().rules.is_none_or(|rules| rules.is_empty()));
}

#[tokio::test]
async fn a_client_certificate_tells_who_asks() {
    let server = ApiServer::start().await.unwrap();
    let listening = server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&listening.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let client = Client::try_from(config).unwrap();
    let reviews: Api<SelfSubjectReview> = Api::all(client);
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await.unwrap();
    let user = review.status.unwrap().user_info.unwrap();
    assert_eq!(user.username.as_deref(), Some("kubernetes-admin"));
    assert!(user.groups.unwrap().contains(&"system:masters".to_owned()));
    listening.stop().await;
}

#[tokio::test]
async fn two_servers_in_one_process_do_not_see_each_other() {
    let (one, two) = (ApiServer::start().await.unwrap(), ApiServer::start().await.unwrap());
    maps(one.client()).create(&PostParams::default(), &config_map("a")).await.unwrap();
    assert!(maps(two.client()).get_opt("a").await.unwrap().is_none());
    assert_ne!(one.token(), two.token());
}

#[tokio::test(start_paused = true)]
async fn every_cluster_begins_with_uids_and_times_of_its_own() {
    let first = async |seed, origin: &str| {
        let server =
            ApiServer::builder().seed(seed).starting_at(origin.parse().unwrap()).start().await.unwrap();
        let namespaces: Api<Namespace> = Api::all(server.client());
        namespaces.get("kube-system").await.unwrap()
    };
    let (one, other) = (first(1, "2026-01-01T00:00:00Z").await, first(2, "2027-01-01T00:00:00Z").await);
    assert_ne!(one.uid(), other.uid());
    assert_eq!(one.creation_timestamp().unwrap().0.to_string(), "2026-01-01T00:00:00Z");
    assert_eq!(other.creation_timestamp().unwrap().0.to_string(), "2027-01-01T00:00:00Z");
    assert_eq!(first(1, "2026-01-01T00:00:00Z").await, one);
}

#[tokio::test]
async fn what_is_kept_in_a_directory_is_there_again() {
    let dir = tempfile::tempdir().unwrap();
    let (revision, token, uid) = {
        let server = ApiServer::builder().data_dir(dir.path()).start().await.unwrap();
        let created = maps(server.client()).create(&PostParams::default(), &config_map("a")).await.unwrap();
        (server.revision(), server.token().to_owned(), created.uid())
    };
    // The task behind the client lets go of the server when it next runs.
    tokio::task::yield_now().await;
    let server = ApiServer::builder().data_dir(dir.path()).start().await.unwrap();
    assert!(server.revision() >= revision);
    assert_eq!((server.token(), maps(server.client()).get("a").await.unwrap().uid()), (token.as_str(), uid));
    let second = ApiServer::builder().data_dir(dir.path()).start().await;
    assert!(second.unwrap_err().to_string().contains("in use by another process"));
}
