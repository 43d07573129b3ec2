//! `kubewright cluster` as people run it: flags, signals, files, and what survives a `kill -9`.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    os::unix::{fs::PermissionsExt as _, process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Node, Pod},
};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::json;
use tempfile::TempDir;

use crate::support::{Cluster, error_of, kubewright, run};

async fn maps(cluster: &Cluster) -> Api<ConfigMap> {
    Api::namespaced(cluster.client().await, "default")
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"name": name}})).expect("a ConfigMap")
}

#[test]
fn help_and_version_are_told() {
    let help = run(&["cluster", "--help"]);
    assert!(help.status.success());
    let text = String::from_utf8_lossy(&help.stdout).into_owned();
    for word in [
        "--api-only",
        "--nodes",
        "--listen",
        "--data-dir",
        "--token",
        "--kubeconfig",
        "--output",
        "Examples:",
    ] {
        assert!(text.contains(word), "{word} is not in {text}");
    }
    let version = run(&["--version"]);
    assert_eq!(
        String::from_utf8_lossy(&version.stdout),
        format!("kubewright {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn wrong_flags_are_refused_with_a_hint() {
    let output = run(&["cluster", "--api-only", "--lisen", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(error_of(&output).contains("--listen"), "{}", error_of(&output));
    let output = run(&["cluster", "--api-only", "--listen", "nowhere"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(error_of(&output).contains("--listen <ADDRESS:PORT>"), "{}", error_of(&output));
}

#[test]
fn a_port_in_use_is_one_clear_line() {
    let dir = TempDir::new().expect("a directory");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("its address").to_string();
    let kubeconfig = dir.path().join("kubeconfig");
    let output =
        run(&["cluster", "--api-only", "--listen", &address, "--kubeconfig", &kubeconfig.to_string_lossy()]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        error_of(&output),
        format!("error: {address} is in use: choose another port with --listen, or 0 for a free one\n")
    );
    assert!(!kubeconfig.exists());
}

#[test]
fn a_kubeconfig_that_can_not_be_written_is_one_clear_line() {
    let dir = TempDir::new().expect("a directory");
    let kubeconfig = dir.path().join("none").join("kubeconfig");
    let output = run(&["cluster", "--api-only", "--kubeconfig", &kubeconfig.to_string_lossy()]);
    assert_eq!(output.status.code(), Some(1));
    let error = error_of(&output);
    assert!(
        error.starts_with(&format!("error: can't write the kubeconfig {}: ", kubeconfig.display())),
        "{error}"
    );
    assert_eq!(error.lines().count(), 1);
}

#[test]
fn a_data_directory_that_can_not_be_used_is_one_clear_line() {
    let dir = TempDir::new().expect("a directory");
    let file = dir.path().join("file");
    fs::write(&file, "").expect("it is written");
    let kubeconfig = dir.path().join("kubeconfig");
    // A path below a file is as unusable for root as for anybody.
    let data = file.join("data");
    let output = run(&[
        "cluster",
        "--api-only",
        "--data-dir",
        &data.to_string_lossy(),
        "--kubeconfig",
        &kubeconfig.to_string_lossy(),
    ]);
    assert_eq!(output.status.code(), Some(1));
    let error = error_of(&output);
    assert!(error.starts_with("error: ") && error.contains(&*data.to_string_lossy()), "{error}");
    assert_eq!(error.lines().count(), 1);
}

#[test]
fn a_data_directory_is_used_by_one_at_a_time() {
    let dir = TempDir::new().expect("a directory");
    let data = dir.path().join("data").to_string_lossy().into_owned();
    let _first = Cluster::start(dir.path(), &["--data-dir", &data]);
    let kubeconfig = dir.path().join("second").to_string_lossy().into_owned();
    let output = run(&["cluster", "--api-only", "--data-dir", &data, "--kubeconfig", &kubeconfig]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(error_of(&output), format!("error: data directory {data} is in use by another process\n"));
}

#[test]
fn both_signals_end_it_cleanly() {
    for signal in ["INT", "TERM"] {
        let dir = TempDir::new().expect("a directory");
        let mut cluster = Cluster::start(dir.path(), &[]);
        cluster.signal(signal);
        let status = cluster.child.wait().expect("it ends");
        assert_eq!((status.code(), status.signal()), (Some(0), None), "SIG{signal}");
    }
}

#[test]
fn the_kubeconfig_is_private_and_says_where() {
    let dir = TempDir::new().expect("a directory");
    // An older, open file does not keep its rights.
    let path = dir.path().join("kubeconfig");
    fs::write(&path, "").expect("it is written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("it is opened up");
    let cluster = Cluster::start(dir.path(), &[]);
    let mode = fs::metadata(&cluster.kubeconfig).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let kubeconfig = fs::read_to_string(&cluster.kubeconfig).expect("it is text");
    let server = cluster.ready["server"].as_str().expect("the address");
    assert!(kubeconfig.contains(server));
    assert_eq!(cluster.ready["kubeconfig"], json!(cluster.kubeconfig));
    assert!(cluster.ready["readyMilliseconds"].as_f64().is_some_and(|time| time > 0.0));
}

#[test]
fn people_get_text() {
    let dir = TempDir::new().expect("a directory");
    let kubeconfig = dir.path().join("kubeconfig");
    let mut child = kubewright()
        .args(["cluster", "--api-only", "--kubeconfig", &kubeconfig.to_string_lossy()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut reader = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut text = String::new();
    while !text.contains("Ctrl-C") {
        assert_ne!(reader.read_line(&mut text).expect("a line"), 0, "{text}");
    }
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(status.success() && child.wait().expect("it ends").success());
    reader.read_to_string(&mut text).expect("the rest");
    assert!(text.starts_with("address     https://127.0.0.1:"), "{text}");
    assert!(
        text.contains(&format!("kubectl --kubeconfig {} get namespaces", kubeconfig.display())),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "no colours when piped");
}

#[tokio::test]
async fn every_acknowledged_write_survives_a_kill() {
    let dir = TempDir::new().expect("a directory");
    let data = dir.path().join("data").to_string_lossy().into_owned();
    let mut kept: Vec<(String, String)> = Vec::new();
    for round in 0..3 {
        let mut cluster = Cluster::start(dir.path(), &["--data-dir", &data]);
        let maps = maps(&cluster).await;
        assert_all(&maps, &kept).await;
        // A writer that is cut off in the middle, and the one who cuts it off after its fiftieth write.
        for index in 0..200 {
            if index == 50 {
                cluster.signal("KILL");
            }
            match maps.create(&PostParams::default(), &config_map(&format!("m{round}-{index:03}"))).await {
                Ok(created) => {
                    kept.push((created.name_any(), created.resource_version().expect("a revision")))
                }
                Err(_) => break,
            }
        }
        let status = cluster.child.wait().expect("it ends");
        assert_eq!(status.signal(), Some(9));
        assert!(kept.len() >= 50 * (round + 1), "{}", kept.len());
    }
    let cluster = Cluster::start(dir.path(), &["--data-dir", &data]);
    let maps = maps(&cluster).await;
    assert_all(&maps, &kept).await;
    // Revisions go on, and a watch from the last of them sees what comes.
    let created = maps.create(&PostParams::default(), &config_map("after")).await.expect("it is writable");
    let (last, revision) = kept.last().expect("there were writes");
    let newer: u64 =
        created.resource_version().and_then(|revision| revision.parse().ok()).expect("a revision");
    assert!(newer > revision.parse().expect("a number"), "{last}");
    let list = maps.list(&ListParams::default()).await.expect("a list");
    let mut events = Box::pin(
        maps.watch(&WatchParams::default(), &list.metadata.resource_version.expect("its revision"))
            .await
            .expect("a watch"),
    );
    maps.create(&PostParams::default(), &config_map("seen")).await.expect("it is writable");
    let event = futures_util::TryStreamExt::try_next(&mut events).await.expect("an event");
    assert!(matches!(event, Some(WatchEvent::Added(map)) if map.name_any() == "seen"));
}

/// Waits until a Deployment has so many available replicas.
async fn are_available(deployments: &Api<Deployment>, name: &str, replicas: i32) {
    let only = WatchParams::default().fields(&format!("metadata.name={name}"));
    let mut events = Box::pin(deployments.watch(&only, "0").await.expect("a watch"));
    while let Some(event) = futures_util::TryStreamExt::try_next(&mut events).await.expect("an event") {
        let (WatchEvent::Added(seen) | WatchEvent::Modified(seen)) = event else { continue };
        if seen.status.and_then(|status| status.available_replicas) == Some(replicas) {
            return;
        }
    }
    panic!("the watch has ended");
}

#[tokio::test]
async fn a_whole_cluster_goes_on_after_a_kill() {
    let dir = TempDir::new().expect("a directory");
    let data = dir.path().join("data").to_string_lossy().into_owned();
    let mut cluster = Cluster::run(dir.path(), &["--nodes", "2", "--data-dir", &data]);
    let client = cluster.client().await;
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await.expect("a list");
    assert_eq!(nodes.items.len(), 2);
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "default");
    let web = serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "nginx"}]},
        },
    }}));
    deployments.create(&PostParams::default(), &web.expect("a Deployment")).await.expect("it is created");
    are_available(&deployments, "web", 2).await;
    let pods = Api::<Pod>::namespaced(client, "default").list(&ListParams::default()).await.expect("a list");
    let before: Vec<_> = pods.iter().map(|pod| pod.uid()).collect();
    cluster.signal("KILL");
    cluster.child.wait().expect("it ends");

    let mut cluster = Cluster::run(dir.path(), &["--nodes", "2", "--data-dir", &data]);
    let client = cluster.client().await;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "default");
    let more = Patch::Merge(json!({"spec": {"replicas": 3}}));
    deployments.patch("web", &PatchParams::default(), &more).await.expect("it is scaled");
    are_available(&deployments, "web", 3).await;
    let pods = Api::<Pod>::namespaced(client, "default").list(&ListParams::default()).await.expect("a list");
    assert_eq!(pods.items.len(), 3);
    assert_eq!(pods.iter().filter(|pod| before.contains(&pod.uid())).count(), 2, "those that ran run on");
    cluster.signal("TERM");
    assert!(cluster.child.wait().expect("it ends").success());
}

async fn assert_all(maps: &Api<ConfigMap>, kept: &[(String, String)]) {
    let found = maps.list(&ListParams::default()).await.expect("a list").items;
    for (name, revision) in kept {
        let map = found
            .iter()
            .find(|map| map.name_any() == *name)
            .unwrap_or_else(|| panic!("{name} was acknowledged"));
        assert_eq!(map.resource_version().as_ref(), Some(revision), "{name}");
    }
}

/// The newest log of a data directory.
fn newest_log(data: &Path) -> PathBuf {
    let files = fs::read_dir(data).expect("it is there").map(|entry| entry.expect("an entry").path());
    let is_log =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log-"));
    files.filter(is_log).max().expect("there is a log")
}

#[tokio::test]
async fn a_torn_tail_is_cut_off() {
    let dir = TempDir::new().expect("a directory");
    let data = dir.path().join("data");
    let path = data.to_string_lossy().into_owned();
    let revision = {
        let cluster = Cluster::start(dir.path(), &["--data-dir", &path]);
        let created = maps(&cluster)
            .await
            .create(&PostParams::default(), &config_map("a"))
            .await
            .expect("it is writable");
        created.resource_version().expect("a revision")
    };
    // What a machine leaves that lost its power in the middle of a write.
    let log = newest_log(&data);
    let whole = fs::read(&log).expect("the log");
    fs::OpenOptions::new()
        .append(true)
        .open(&log)
        .and_then(|mut log| log.write_all(&whole[whole.len() / 2..][..40]))
        .expect("it is appended");
    let cluster = Cluster::start(dir.path(), &["--data-dir", &path]);
    let maps = maps(&cluster).await;
    assert_all(&maps, &[("a".to_owned(), revision)]).await;
    maps.create(&PostParams::default(), &config_map("b")).await.expect("it is writable");
}

#[test]
fn a_directory_of_a_newer_version_is_left_alone() {
    let dir = TempDir::new().expect("a directory");
    let data = dir.path().join("data");
    let path = data.to_string_lossy().into_owned();
    drop(Cluster::start(dir.path(), &["--data-dir", &path]));
    let log = newest_log(&data);
    let mut bytes = fs::read(&log).expect("the log");
    bytes[8] = 99;
    fs::write(&log, &bytes).expect("it is written");
    let kubeconfig = dir.path().join("other").to_string_lossy().into_owned();
    let output = run(&["cluster", "--api-only", "--data-dir", &path, "--kubeconfig", &kubeconfig]);
    assert_eq!(output.status.code(), Some(1));
    let error = error_of(&output);
    assert!(error.contains("format version 99") && error.contains("use the newer version"), "{error}");
    assert_eq!(fs::read(&log).expect("the log"), bytes, "nothing was changed");
}
