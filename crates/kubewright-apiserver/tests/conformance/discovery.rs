//! Which groups, versions and resources there are, and how they are described.

use serde_json::{Value, json};

use crate::{definition::Definition, harness::on_a_server};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The entry of a list whose `key` is `value`.
#[track_caller]
fn entry<'a>(list: &'a Value, key: &str, value: &str) -> &'a Value {
    let found = list.as_array().into_iter().flatten().find(|entry| entry.pointer(key) == Some(&json!(value)));
    found.unwrap_or_else(|| panic!("no entry with {key} = {value}"))
}

#[test]
fn the_legacy_documents_name_versions_groups_and_resources() {
    on_a_server(async |t| {
        let core = t.get("/api").await.code(200);
        assert_eq!((core.text("/kind"), core.at("/versions")), ("APIVersions", &json!(["v1"])));
        let groups = t.get("/apis").await.code(200);
        assert_eq!((groups.text("/kind"), groups.text("/apiVersion")), ("APIGroupList", "v1"));
        let apps = entry(groups.at("/groups"), "/name", "apps");
        assert_eq!(apps["preferredVersion"], json!({"groupVersion": "apps/v1", "version": "v1"}));
        let group = t.get("/apis/apps").await.code(200);
        assert_eq!((group.text("/kind"), group.text("/name")), ("APIGroup", "apps"));
        let resources = t.get("/apis/apps/v1").await.code(200);
        assert_eq!(
            (resources.text("/kind"), resources.text("/groupVersion")),
            ("APIResourceList", "apps/v1")
        );
        let deployments = entry(resources.at("/resources"), "/name", "deployments");
        assert_eq!(deployments["shortNames"], json!(["deploy"]));
        let core = t.get("/api/v1").await.code(200);
        assert_eq!(core.text("/groupVersion"), "v1");
        assert_eq!(entry(core.at("/resources"), "/name", "pods")["namespaced"], true);
    });
}

#[test]
fn the_aggregated_document_has_its_media_type_an_etag_and_varies_by_accept() {
    on_a_server(async |t| {
        for path in ["/api", "/apis"] {
            let found = t.get_as(path, AGGREGATED).await.code(200);
            assert_eq!(found.header("content-type"), AGGREGATED);
            assert_eq!(found.text("/kind"), "APIGroupDiscoveryList");
            assert_eq!(found.text("/apiVersion"), "apidiscovery.k8s.io/v2");
            assert!(!found.header("etag").is_empty());
            assert!(found.header("vary").contains("Accept"), "{:?}", found.headers);
        }
        let found = t.get_as("/apis", AGGREGATED).await;
        let apps = entry(found.at("/items"), "/metadata/name", "apps");
        let deployments = entry(&apps["versions"][0]["resources"], "/resource", "deployments");
        assert_eq!(deployments["responseKind"]["kind"], "Deployment");
        assert_eq!(
            entry(&deployments["subresources"], "/subresource", "scale")["responseKind"]["kind"],
            "Scale"
        );
    });
}

#[test]
fn an_unchanged_aggregated_document_is_not_sent_again() {
    on_a_server(async |t| {
        let first = t.get_as("/api", AGGREGATED).await.code(200);
        let headers = [("accept", AGGREGATED), ("if-none-match", first.header("etag"))];
        let second = t.send(http::Method::GET, "/api", &headers, "").await.code(304);
        assert!(second.body.is_empty());
    });
}

#[test]
fn a_client_that_takes_both_forms_gets_the_aggregated_one() {
    on_a_server(async |t| {
        let found = t.get_as("/apis", &format!("{AGGREGATED},application/json")).await.code(200);
        assert_eq!(found.text("/kind"), "APIGroupDiscoveryList");
        let found = t.get_as("/apis", "application/json").await.code(200);
        assert_eq!(found.text("/kind"), "APIGroupList");
    });
}

#[test]
fn a_custom_resource_has_eight_verbs_and_the_names_of_its_definition() {
    on_a_server(async |t| {
        let names = json!({"singular": "mouse", "shortNames": [t.unique], "categories": ["rodents"]});
        let definition = Definition::free_form().named("mice", "Mouse").set("/names", names);
        let mice = t.define(definition).await;
        let path = format!("/apis/{}/v1", mice.group);
        let resources = t
            .until("the group lists its resource", async || {
                Some(t.get(&path).await).filter(|r| r.code == 200)
            })
            .await;
        let found = entry(resources.at("/resources"), "/name", "mice");
        let verbs = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
        assert_eq!(found["verbs"], json!(verbs));
        assert_eq!((&found["singularName"], &found["kind"]), (&json!("mouse"), &json!("Mouse")));
        assert_eq!((&found["shortNames"], &found["categories"]), (&json!([t.unique]), &json!(["rodents"])));
        let status = entry(resources.at("/resources"), "/name", "mice/status");
        assert_eq!(status["verbs"], json!(["get", "patch", "update"]));
    });
}

#[test]
fn a_definition_appears_in_the_aggregated_document_with_its_versions_in_order() {
    on_a_server(async |t| {
        let widgets = t.define(Definition::free_form().versions(&["v1alpha1", "v1", "v2beta1", "v2"])).await;
        let group = t
            .until("the group is in the document", async || {
                let document = t.get_as("/apis", AGGREGATED).await;
                let items = document.at("/items").as_array()?;
                items.iter().find(|group| group["metadata"]["name"] == json!(widgets.group)).cloned()
            })
            .await;
        let versions: Vec<&Value> =
            group["versions"].as_array().unwrap().iter().map(|v| &v["version"]).collect();
        assert_eq!(versions, ["v2", "v1", "v2beta1", "v1alpha1"]);
        assert_eq!(group["versions"][0]["resources"][0]["scope"], "Namespaced");
    });
}

#[test]
fn every_group_version_has_a_hashed_openapi_document() {
    on_a_server(async |t| {
        let index = t.get("/openapi/v3").await.code(200);
        for group_version in ["api/v1", "apis/apps/v1", "apis/batch/v1"] {
            let entry = &index.at("/paths")[group_version];
            let url = entry["serverRelativeURL"].as_str().expect("a URL");
            assert!(url.starts_with(&format!("/openapi/v3/{group_version}?hash=")), "{url}");
            let document = t.get(url).await.code(200);
            assert!(document.text("/openapi").starts_with("3.0"));
        }
    });
}

#[test]
fn openapi_carries_what_kubectl_needs_to_validate_and_apply() {
    on_a_server(async |t| {
        let document = t.get("/openapi/v3/apis/apps/v1").await.code(200);
        let path =
            &document.json["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
        let kind = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
        assert_eq!(path["x-kubernetes-group-version-kind"], kind);
        let parameter = entry(&path["parameters"], "/name", "fieldValidation");
        assert_eq!(parameter["in"], "query");
        let content = path["requestBody"]["content"].as_object().expect("media types");
        for media in ["json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"]
        {
            assert!(content.contains_key(&format!("application/{media}")), "{media}");
        }
        let schema = &document.json["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"];
        assert_eq!(schema["x-kubernetes-group-version-kind"], json!([kind]));
    });
}

#[test]
fn openapi_describes_a_custom_resource_by_its_own_schema() {
    on_a_server(async |t| {
        let properties = json!({"size": {"type": "integer", "description": "How large it is."}});
        let widgets = t.define(Definition::of_properties(properties)).await;
        let path = format!("/openapi/v3/apis/{}/v1", widgets.group);
        let document = t
            .until("the document is there", async || Some(t.get(&path).await).filter(|r| r.code == 200))
            .await;
        let schemas = document.at("/components/schemas").as_object().expect("schemas");
        let widget = schemas
            .values()
            .find(|s| s["x-kubernetes-group-version-kind"][0]["kind"] == "Widget")
            .expect("it");
        assert_eq!(widget["properties"]["spec"]["properties"]["size"]["description"], "How large it is.");
        let patch = &document.json["paths"][format!("{}/{{name}}", widgets.within("{namespace}"))]["patch"];
        let content = patch["requestBody"]["content"].as_object().expect("media types");
        assert!(!content.contains_key("application/strategic-merge-patch+json"));
        assert!(content.contains_key("application/apply-patch+yaml"));
    });
}

#[test]
fn the_version_is_made_of_numbers() {
    on_a_server(async |t| {
        let version = t.get("/version").await.code(200);
        for part in ["/major", "/minor"] {
            assert!(version.text(part).parse::<u32>().is_ok(), "{}", version.json);
        }
        assert!(version.text("/gitVersion").starts_with("v1."));
    });
}

#[test]
fn health_is_ok_as_text() {
    on_a_server(async |t| {
        for path in ["/healthz", "/readyz", "/livez", "/healthz/ping"] {
            let health = t.get_as(path, "*/*").await.code(200);
            assert_eq!(health.body(), "ok");
            assert!(health.header("content-type").starts_with("text/plain"));
        }
        assert!(t.get_as("/readyz?verbose", "*/*").await.code(200).body().contains("[+]ping ok"));
    });
}

#[test]
fn the_group_of_aggregated_servers_is_listed() {
    on_a_server(async |t| {
        let groups = t.get("/apis").await.code(200);
        entry(groups.at("/groups"), "/name", "apiregistration.k8s.io");
        let services = t.get("/apis/apiregistration.k8s.io/v1/apiservices").await.code(200);
        assert_eq!(services.text("/kind"), "APIServiceList");
    });
}
