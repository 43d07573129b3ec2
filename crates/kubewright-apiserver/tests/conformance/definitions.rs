//! Custom resource definitions: what is accepted, and what their schemas do to objects.

use serde_json::{Value, json};

use crate::{
    definition::Definition,
    harness::{Server, media, on_a_server},
};

/// Tries to create a definition with these properties of `.spec`.
async fn attempt(t: &Server, definition: Definition) -> crate::reply::Reply {
    t.post(Definition::COLLECTION, definition.in_group(&t.unique).manifest()).await
}

#[test]
fn a_definition_is_named_after_its_plural_and_group() {
    on_a_server(async |t| {
        let mut manifest = Definition::free_form().in_group(&t.unique).manifest();
        manifest["metadata"]["name"] = json!("gadgets.example.com");
        let refused = t.post(Definition::COLLECTION, manifest).await.refused(422, "Invalid");
        refused
            .because("FieldValueInvalid", "metadata.name")
            .saying("must be spec.names.plural+\".\"+spec.group");
    });
}

#[test]
fn a_schema_must_be_structural() {
    on_a_server(async |t| {
        for (property, field) in [
            (json!({}), "a.type"),
            (json!({"type": "array"}), "a.items"),
            (
                json!({"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
                "a.additionalProperties",
            ),
            (json!({"type": "string", "$ref": "#/x"}), "a.$ref"),
            (json!({"type": "array", "uniqueItems": true, "items": {"type": "string"}}), "a.uniqueItems"),
            (
                json!({"type": "object", "anyOf": [{"properties": {"x": {"type": "string"}}}]}),
                "a.anyOf[0].properties[x].type",
            ),
            (json!({"type": "string", "pattern": "("}), "a.pattern"),
            (json!({"type": "integer", "default": "x"}), "a.default"),
        ] {
            let refused = attempt(&t, Definition::of_properties(json!({"a": property}))).await;
            assert_eq!(refused.code, 422, "{property} {}", refused.json);
            let expected = format!(
                "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[{}",
                field.replacen('a', "a]", 1)
            );
            // With one version the schema may be named without it.
            let short = expected.replace("spec.versions[0].schema", "spec.validation");
            let fields: Vec<&str> = refused.causes().into_iter().map(|(_, field)| field).collect();
            assert!(
                fields.iter().any(|field| *field == expected || *field == short),
                "{expected} is not among {fields:?}"
            );
        }
        let refused =
            attempt(&t, Definition::free_form().version("schema", Value::Null)).await.refused(422, "Invalid");
        refused.because("FieldValueRequired", "spec.versions[0].schema.openAPIV3Schema");
    });
}

#[test]
fn names_are_accepted_and_then_the_definition_is_established() {
    on_a_server(async |t| {
        let widgets = t.define(Definition::free_form().versions(&["v1", "v2"])).await;
        let found = t.get(&widgets.path()).await.code(200);
        let accepted = found.condition("NamesAccepted").expect("the condition");
        assert_eq!((&accepted["status"], &accepted["reason"]), (&json!("True"), &json!("NoConflicts")));
        let established = found.condition("Established").expect("the condition");
        assert_eq!(
            (&established["status"], &established["reason"]),
            (&json!("True"), &json!("InitialNamesAccepted"))
        );
        let names =
            json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"});
        assert_eq!((found.at("/status/acceptedNames"), found.at("/spec/names")), (&names, &names));
        assert_eq!(found.at("/status/storedVersions"), &json!(["v1"]));
        assert_eq!(found.at("/spec/conversion"), &json!({"strategy": "None"}));
    });
}

#[test]
fn a_name_that_is_taken_is_not_accepted() {
    on_a_server(async |t| {
        let widgets = t.define(Definition::free_form()).await;
        let second = Definition::free_form().named("gadgets", "Widget").in_group(&t.unique);
        t.post(Definition::COLLECTION, second.manifest()).await.code(201);
        let condition = t
            .until("the clash is seen", async || {
                t.get(&second.path())
                    .await
                    .condition("NamesAccepted")
                    .filter(|c| c["status"] == "False")
                    .cloned()
            })
            .await;
        let reason = condition["reason"].as_str().unwrap();
        assert!(["KindConflict", "ListKindConflict"].contains(&reason), "{condition}");
        assert_eq!(t.get(&second.everywhere()).await.code, 404);
        t.get(&widgets.everywhere()).await.code(200);
    });
}

#[test]
fn a_deletion_takes_the_objects_along() {
    on_a_server(async |t| {
        let widgets = t.define(Definition::free_form()).await;
        t.post(&widgets.within(&t.namespace), widgets.object("a", json!({}))).await.code(201);
        let deleted = t.delete(&widgets.path()).await.code(200);
        assert_eq!(
            deleted.at("/metadata/finalizers"),
            &json!(["customresourcecleanup.apiextensions.k8s.io"])
        );
        assert_eq!(
            deleted.condition("Terminating").map(|condition| &condition["status"]),
            Some(&json!("True"))
        );
        t.until("the definition is gone", async || (t.get(&widgets.path()).await.code == 404).then_some(()))
            .await;
        let again = t.define(Definition::free_form()).await;
        assert!(t.get(&again.within(&t.namespace)).await.code(200).names().is_empty());
    });
}

#[test]
fn without_its_definition_a_resource_does_not_exist() {
    on_a_server(async |t| {
        let widgets = Definition::free_form().in_group(&t.unique);
        let refused = t.post(&widgets.within(&t.namespace), widgets.object("a", json!({}))).await.code(404);
        assert_eq!(refused.body(), "404 page not found\n");
    });
}

#[test]
fn unknown_fields_are_pruned_unless_the_schema_keeps_them() {
    on_a_server(async |t| {
        let properties = json!({
            "strict": {"type": "object", "properties": {"known": {"type": "string"}}},
            "loose": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                "inner": {"type": "object", "properties": {"known": {"type": "string"}}}}},
        });
        let widgets = t.define(Definition::of_properties(properties)).await;
        let spec = json!({"other": 1, "strict": {"known": "1", "unknown": 1}, "loose": {"unknown": 1, "inner": {"known": "1", "unknown": 1}}});
        let created = t.post(&widgets.within(&t.namespace), widgets.object("a", spec)).await.code(201);
        assert_eq!(
            created.at("/spec"),
            &json!({"strict": {"known": "1"}, "loose": {"unknown": 1, "inner": {"known": "1"}}})
        );
    });
}

#[test]
fn nulls_are_dropped_for_defaults_unless_they_are_nullable() {
    on_a_server(async |t| {
        let properties = json!({
            "plain": {"type": "string", "default": "p"},
            "nullable": {"type": "string", "nullable": true, "default": "n"},
            "absent": {"type": "integer", "default": 7},
            "nested": {"type": "object", "default": {}, "properties": {"inner": {"type": "boolean", "default": true}}},
        });
        let widgets = t.define(Definition::of_properties(properties)).await;
        let created = t
            .post(
                &widgets.within(&t.namespace),
                widgets.object("a", json!({"plain": null, "nullable": null})),
            )
            .await
            .code(201);
        let expected = json!({"plain": "p", "nullable": null, "absent": 7, "nested": {"inner": true}});
        assert_eq!(created.at("/spec"), &expected);
    });
}

#[test]
fn the_schema_is_checked_in_full() {
    on_a_server(async |t| {
        let properties = json!({
            "s": {"type": "string", "minLength": 2, "maxLength": 3, "pattern": "^a"},
            "n": {"type": "integer", "minimum": 1, "maximum": 5, "multipleOf": 2},
            "e": {"type": "string", "enum": ["x", "y"]},
            "l": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}},
            "m": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 1},
            "r": {"type": "object", "required": ["x"], "properties": {"x": {"type": "string"}}},
            "d": {"type": "string", "format": "date-time"},
            "i": {"x-kubernetes-int-or-string": true},
            "o": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        });
        let widgets = t.define(Definition::of_properties(properties)).await;
        let path = widgets.within(&t.namespace);
        for (spec, reason, field) in [
            (json!({"s": "a"}), "FieldValueInvalid", "spec.s"),
            (json!({"s": "abcd"}), "FieldValueTooLong", "spec.s"),
            (json!({"s": "bc"}), "FieldValueInvalid", "spec.s"),
            (json!({"s": 1}), "FieldValueTypeInvalid", "spec.s"),
            (json!({"n": 0}), "FieldValueInvalid", "spec.n"),
            (json!({"n": 6}), "FieldValueInvalid", "spec.n"),
            (json!({"n": 3}), "FieldValueInvalid", "spec.n"),
            (json!({"n": 2.5}), "FieldValueTypeInvalid", "spec.n"),
            (json!({"e": "z"}), "FieldValueNotSupported", "spec.e"),
            (json!({"l": []}), "FieldValueInvalid", "spec.l"),
            (json!({"l": ["a", "b", "c"]}), "FieldValueTooMany", "spec.l"),
            (json!({"l": [1]}), "FieldValueTypeInvalid", "spec.l[0]"),
            (json!({"m": {"k": "v"}}), "FieldValueTypeInvalid", "spec.m.k"),
            (json!({"m": {"k": 1, "j": 2}}), "FieldValueTooMany", "spec.m"),
            (json!({"r": {}}), "FieldValueRequired", "spec.r.x"),
            (json!({"d": "yesterday"}), "FieldValueTypeInvalid", "spec.d"),
            (json!({"i": true}), "FieldValueTypeInvalid", "spec.i"),
            (json!({"o": {}}), "FieldValueRequired", "spec.o.a"),
        ] {
            let refused = t.post(&path, widgets.object("a", spec.clone())).await;
            assert_eq!(refused.code, 422, "{spec} {}", refused.json);
            refused.refused(422, "Invalid").because(reason, field);
        }
        let fine = json!({"s": "ab", "n": 4, "e": "x", "l": ["a"], "m": {"k": 1}, "r": {"x": ""}, "d": "2026-01-01T00:00:00Z", "i": "50%", "o": {"a": ""}});
        t.post(&path, widgets.object("a", fine)).await.code(201);
    });
}

#[test]
fn sets_and_maps_by_key_hold_no_duplicates() {
    on_a_server(async |t| {
        let properties = json!({
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}},
        });
        let widgets = t.define(Definition::of_properties(properties)).await;
        let path = widgets.within(&t.namespace);
        for (spec, field) in [
            (json!({"set": ["a", "a"]}), "spec.set[1]"),
            (json!({"map": [{"k": "a"}, {"k": "a"}]}), "spec.map[1]"),
        ] {
            t.post(&path, widgets.object("a", spec))
                .await
                .refused(422, "Invalid")
                .because("FieldValueDuplicate", field);
        }
    });
}

/// A definition whose spec has one rule.
fn ruled(properties: Value, rules: Value) -> Definition {
    Definition::of_spec(
        json!({"type": "object", "properties": properties, "x-kubernetes-validations": rules}),
    )
}

#[test]
fn rules_see_the_object_and_name_their_field() {
    on_a_server(async |t| {
        let properties = json!({"min": {"type": "integer"}, "max": {"type": "integer"}});
        let rules = json!([
            {"rule": "self.min <= self.max", "message": "min must not exceed max", "fieldPath": ".min", "reason": "FieldValueForbidden"},
            {"rule": "self.max < 100", "messageExpression": "'max is ' + (self.max > 500 ? 'far' : 'a bit') + ' too large'"},
        ]);
        let widgets = t.define(ruled(properties, rules)).await;
        let path = widgets.within(&t.namespace);
        let refused =
            t.post(&path, widgets.object("a", json!({"min": 3, "max": 2}))).await.refused(422, "Invalid");
        refused.because("FieldValueForbidden", "spec.min").saying("min must not exceed max");
        let refused =
            t.post(&path, widgets.object("a", json!({"min": 3, "max": 1000}))).await.refused(422, "Invalid");
        refused.because("FieldValueInvalid", "spec").saying("max is far too large");
        t.post(&path, widgets.object("a", json!({"min": 1, "max": 2}))).await.code(201);
    });
}

#[test]
fn rules_are_skipped_after_a_blocking_schema_error() {
    on_a_server(async |t| {
        let properties = json!({"n": {"type": "integer"}});
        let widgets = t.define(ruled(properties, json!([{"rule": "self.n > 5"}]))).await;
        let refused = t
            .post(&widgets.within(&t.namespace), widgets.object("a", json!({"n": "x"})))
            .await
            .refused(422, "Invalid");
        assert!(refused.causes().contains(&("FieldValueTypeInvalid", "spec.n")), "{}", refused.json);
        assert!(
            refused
                .text("/message")
                .contains("some validation rules were not checked because the object was invalid"),
            "{}",
            refused.json
        );
    });
}

#[test]
fn transition_rules_compare_with_the_old_state() {
    on_a_server(async |t| {
        let properties = json!({"n": {"type": "integer"}, "free": {"type": "string"}});
        let rules = json!([{"rule": "self.n >= oldSelf.n", "message": "n never shrinks"}]);
        let widgets = t.define(ruled(properties, rules)).await;
        let path = widgets.within(&t.namespace);
        t.post(&path, widgets.object("a", json!({"n": 5}))).await.code(201);
        t.merge(&format!("{path}/a"), json!({"spec": {"n": 4}}))
            .await
            .refused(422, "Invalid")
            .saying("n never shrinks");
        t.merge(&format!("{path}/a"), json!({"spec": {"n": 6}})).await.code(200);
    });
}

#[test]
fn what_is_unchanged_is_not_held_against_an_update() {
    on_a_server(async |t| {
        let properties = |n: Value| json!({"n": n, "m": {"type": "integer"}});
        let widgets = t.define(Definition::of_properties(properties(json!({"type": "integer"})))).await;
        let path = widgets.within(&t.namespace);
        t.post(&path, widgets.object("a", json!({"n": -1, "m": 1}))).await.code(201);
        let mut definition = t.get(&widgets.path()).await.json.clone();
        let strict =
            json!({"type": "integer", "minimum": 0, "x-kubernetes-validations": [{"rule": "self != -1"}]});
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] =
            properties(strict);
        t.put(&widgets.path(), definition).await.code(200);
        t.until("the new schema holds", async || {
            let probe = t.post(&format!("{path}?dryRun=All"), widgets.object("b", json!({"n": -1}))).await;
            (probe.code == 422).then_some(())
        })
        .await;
        t.merge(&format!("{path}/a"), json!({"spec": {"m": 2}})).await.code(200);
        t.merge(&format!("{path}/a"), json!({"spec": {"n": -2}})).await.refused(422, "Invalid");
    });
}

#[test]
fn a_rule_that_may_cost_too_much_is_refused() {
    on_a_server(async |t| {
        let strings = json!({"type": "array", "items": {"type": "string"}});
        let rules =
            json!([{"rule": "self.l.all(x, self.l.all(y, self.l.all(z, x.contains(y) || y.contains(z))))"}]);
        let refused = attempt(&t, ruled(json!({"l": strings}), rules)).await.refused(422, "Invalid");
        refused.saying("estimated rule cost");
        let joined = json!([{"rule": "['x','y'].join('-') == self.s"}]);
        attempt(&t, ruled(json!({"s": {"type": "string"}}), joined))
            .await
            .refused(422, "Invalid")
            .saying("estimated rule cost");
    });
}

#[test]
fn rules_that_do_not_compile_are_refused() {
    on_a_server(async |t| {
        let properties = json!({"s": {"type": "string", "maxLength": 9, "nullable": true}, "n": {"type": "integer"}, "l": {"type": "array", "maxItems": 5, "items": {"type": "integer"}}});
        for rule in [
            "self.missing == 1",
            "self.n == 'text'",
            "self.n +",
            "math.greatest(1, 2) == 2",
            "base64.encode(b'x') == 'eA=='",
            "cel.bind(x, 1, x == 1)",
            "'text'.reverse() == 'txet'",
            "self.s == null",
        ] {
            let refused = attempt(&t, ruled(properties.clone(), json!([{"rule": rule}]))).await;
            assert_eq!(refused.code, 422, "{rule} {}", refused.json);
            assert!(refused.text("/message").contains("compilation failed"), "{rule} {}", refused.json);
        }
    });
}

#[test]
fn the_libraries_of_kubernetes_are_there() {
    on_a_server(async |t| {
        let properties = json!({"q": {"type": "string", "maxLength": 20}, "l": {"type": "array", "maxItems": 5, "items": {"type": "integer"}}});
        let rules: Vec<Value> = [
            "isQuantity(self.q) && quantity(self.q).isGreaterThan(quantity('1'))",
            "sign(quantity(self.q)) == 1",
            "self.l.isSorted() && self.l.sum() > 0 && self.l.max() < 100",
            "self.q.matches('^[0-9]+[A-Za-z]*$')",
            "url('https://example.com/x').getHost() == 'example.com'",
            "ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.0.0.1')",
            "self.q.lowerAscii().replace('g', 'x') != ''",
            "self.l.all(x, x > 0) && self.l.exists_one(x, x == 1) && self.l.map(x, x * 2).size() > 0",
            "isSemver('1.2.3') && semver('1.2.3').isLessThan(semver('1.3.0'))",
        ]
        .iter()
        .map(|rule| json!({"rule": rule}))
        .collect();
        let widgets = t.define(ruled(properties, json!(rules))).await;
        let path = widgets.within(&t.namespace);
        t.post(&path, widgets.object("a", json!({"q": "2Gi", "l": [1, 2, 3]}))).await.code(201);
        let refused = t
            .post(&path, widgets.object("b", json!({"q": "2Gi", "l": [3, 2, 1]})))
            .await
            .refused(422, "Invalid");
        assert_eq!(refused.causes().len(), 1, "{}", refused.json);
    });
}

#[test]
fn a_table_has_the_name_and_the_columns_of_the_definition() {
    on_a_server(async |t| {
        let columns = json!([
            {"name": "Color", "type": "string", "jsonPath": ".spec.color", "description": "What color it is."},
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1},
        ]);
        let definition =
            Definition::of_properties(json!({"color": {"type": "string"}, "size": {"type": "integer"}}));
        let widgets = t.define(definition.version("additionalPrinterColumns", columns)).await;
        let path = widgets.within(&t.namespace);
        t.post(&path, widgets.object("a", json!({"color": "red"}))).await.code(201);
        let table = t.get_as(&path, media::TABLE).await.code(200);
        assert_eq!((table.text("/kind"), table.text("/apiVersion")), ("Table", "meta.k8s.io/v1"));
        let names: Vec<&Value> =
            table.at("/columnDefinitions").as_array().unwrap().iter().map(|c| &c["name"]).collect();
        assert_eq!(names, ["Name", "Color", "Size"]);
        assert_eq!(table.at("/rows/0/cells"), &json!(["a", "red", null]));
        assert_eq!(table.text("/rows/0/object/kind"), "PartialObjectMetadata");
        let table = t.get_as(&format!("{path}/a?includeObject=Object"), media::TABLE).await.code(200);
        assert_eq!(table.text("/rows/0/object/kind"), "Widget");
        let table = t.get_as(&format!("{path}?includeObject=None"), media::TABLE).await.code(200);
        assert_eq!(table.at("/rows/0/object"), &Value::Null);
    });
}

#[test]
fn without_columns_a_table_shows_the_age() {
    on_a_server(async |t| {
        let widgets = t.define(Definition::free_form()).await;
        let path = widgets.within(&t.namespace);
        t.post(&path, widgets.object("a", json!({}))).await.code(201);
        let table = t.get_as(&path, media::TABLE).await.code(200);
        let names: Vec<&Value> =
            table.at("/columnDefinitions").as_array().unwrap().iter().map(|c| &c["name"]).collect();
        assert_eq!(names, ["Name", "Age"]);
        assert_eq!(table.at("/rows/0/cells/0"), "a");
    });
}

#[test]
fn an_object_is_seen_in_every_served_version() {
    on_a_server(async |t| {
        let widgets = t.define(Definition::free_form().versions(&["v1", "v2"])).await;
        let (first, second) = (widgets.at("v1", &t.namespace), widgets.at("v2", &t.namespace));
        let created = t.post(&second, widgets.object_in("v2", "a", json!({"n": 1}))).await.code(201);
        assert_eq!(created.text("/apiVersion"), format!("{}/v2", widgets.group));
        let found = t.get(&format!("{first}/a")).await.code(200);
        assert_eq!(found.text("/apiVersion"), format!("{}/v1", widgets.group));
        assert_eq!((found.uid(), found.at("/spec/n")), (created.uid(), &json!(1)));
        let list = t.get(&second).await.code(200);
        assert_eq!(list.text("/items/0/apiVersion"), format!("{}/v2", widgets.group));
    });
}

#[test]
fn exactly_one_version_is_stored() {
    on_a_server(async |t| {
        let none = Definition::free_form().version("storage", json!(false));
        attempt(&t, none).await.refused(422, "Invalid").because("FieldValueInvalid", "spec.versions");
        let two = Definition::free_form().versions(&["v1", "v2"]).set("/versions/1/storage", json!(true));
        attempt(&t, two).await.refused(422, "Invalid").because("FieldValueInvalid", "spec.versions");
        let twice = Definition::free_form().versions(&["v1", "v1"]);
        attempt(&t, twice).await.code(422);
    });
}

#[test]
fn embedded_resources_are_checked_as_objects() {
    on_a_server(async |t| {
        let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
        let widgets = t.define(Definition::of_properties(json!({"e": embedded}))).await;
        let path = widgets.within(&t.namespace);
        t.post(&path, widgets.object("a", json!({"e": {"spec": {}}})))
            .await
            .refused(422, "Invalid")
            .because("FieldValueRequired", "spec.e.apiVersion");
        let fine =
            json!({"e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "anything": 1}});
        assert_eq!(t.post(&path, widgets.object("a", fine.clone())).await.code(201).at("/spec"), &fine);
    });
}

#[test]
fn a_protected_group_needs_an_approval() {
    on_a_server(async |t| {
        let mut definition = Definition::free_form();
        definition.group = format!("{}.k8s.io", t.unique);
        let mut manifest = definition.manifest();
        t.post(Definition::COLLECTION, &manifest)
            .await
            .refused(422, "Invalid")
            .because("FieldValueRequired", "metadata.annotations[api-approved.kubernetes.io]");
        manifest["metadata"]["annotations"] =
            json!({"api-approved.kubernetes.io": "unapproved, experimental"});
        t.post(Definition::COLLECTION, &manifest).await.code(201);
    });
}
