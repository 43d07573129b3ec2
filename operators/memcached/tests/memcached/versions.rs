//! Two versions of a `Memcached`: neither loses what the other one lacks.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kubewright::conversion::round_trip;
use memcached_operator::{OLD_SAMPLE, SAMPLE, operator, v1alpha1, v1beta1};
use proptest::{collection::vec, option, prelude::*};
use serde_json::{Value, json};

fn metadata() -> impl Strategy<Value = ObjectMeta> {
    ("[a-z]{1,9}", option::of(vec(("[a-z]{1,9}", ".{0,9}"), 1..4))).prop_map(|(name, annotations)| {
        ObjectMeta {
            name: Some(name),
            annotations: annotations.map(|annotations| annotations.into_iter().collect()),
            ..ObjectMeta::default()
        }
    })
}

fn status() -> impl Strategy<Value = Option<v1beta1::MemcachedStatus>> {
    let status = (any::<Option<i64>>(), vec("[a-z]{1,9}", 0..4));
    option::of(status.prop_map(|(observed_generation, nodes)| v1beta1::MemcachedStatus {
        observed_generation,
        nodes,
        ..v1beta1::MemcachedStatus::default()
    }))
}

prop_compose! {
    fn old()(metadata in metadata(), size: i32, image: String, status in status()) -> v1alpha1::Memcached {
        v1alpha1::Memcached { metadata, spec: v1alpha1::MemcachedSpec { size, image }, status }
    }
}

prop_compose! {
    fn new()(metadata in metadata(), replicas: i32, image: String, memory_megabytes: Option<i32>, status in status())
        -> v1beta1::Memcached {
        let spec = v1beta1::MemcachedSpec { replicas, image, memory_megabytes };
        v1beta1::Memcached { metadata, spec, status }
    }
}

proptest! {
    #[test]
    fn the_new_version_has_a_place_for_everything(old in old()) {
        let kept = round_trip::<v1alpha1::Memcached, v1beta1::Memcached>(&old).unwrap();
        prop_assert_eq!(kept, [""; 0]);
    }

    #[test]
    fn the_old_version_lacks_the_memory_and_nothing_else(new in new()) {
        let expected: Vec<&str> = new.spec.memory_megabytes.iter().map(|_| ".spec.memoryMegabytes").collect();
        let kept = round_trip::<v1beta1::Memcached, v1alpha1::Memcached>(&new).unwrap();
        prop_assert_eq!(kept, expected);
    }

    #[test]
    fn what_a_client_of_the_old_version_changes_is_changed(new in new(), size: i32) {
        let mut old = operator().convert(&json!(new), "cache.example.com/v1alpha1").unwrap();
        old["spec"]["size"] = json!(size);
        let changed = operator().convert(&old, "cache.example.com/v1beta1").unwrap();
        let expected = v1beta1::MemcachedSpec { replicas: size, ..new.spec };
        prop_assert_eq!(&changed["spec"], &json!(expected));
        prop_assert_eq!(&changed["metadata"], &json!(new.metadata));
    }
}

#[test]
fn the_old_sample_asks_for_the_same_as_the_new_one() {
    let (old, new): (Value, Value) =
        (serde_saphyr::from_str(OLD_SAMPLE).unwrap(), serde_saphyr::from_str(SAMPLE).unwrap());
    let converted = operator().convert(&old, "cache.example.com/v1beta1").unwrap();
    assert_eq!(converted["spec"]["replicas"], new["spec"]["replicas"]);
    assert_ne!(converted["metadata"]["name"], new["metadata"]["name"], "both can be applied");
}
