//! What every operator promises, and this one, too.

use kubewright_cluster::{Promises, TestCluster, promises};
use myweb_operator::operator;

use super::{port, sample};

promises!(
    Promises::of(operator, &sample(port()));
    a_child_changed_by_hand_is_put_right,
    a_crashing_pod_is_told_until_it_is_mended,
    a_deleted_child_comes_back,
    a_deleted_resource_leaves_nothing,
    a_lost_node_is_told_until_its_pods_are_elsewhere,
    a_lost_pod_is_replaced,
    a_missing_image_is_told_until_it_is_there,
    an_error_of_the_server_is_told_until_it_passes,
    an_operator_that_is_removed_leaves_everything_as_it_is,
    children_belong_to_their_resource,
    the_files_in_config_are_up_to_date,
    what_is_as_it_should_be_is_left_alone,
);

#[tokio::test]
async fn an_operator_may_be_killed_after_any_write() {
    // With the operator, its requests are cut off. kube-apiserver may then keep the port of a Service that came to
    // nothing, and finds out only minutes later.
    if TestCluster::is_left_out("the port of a request that was cut off is not free for minutes") {
        return;
    }
    Promises::of(operator, &sample(port())).an_operator_may_be_killed_after_any_write().await;
}

#[tokio::test]
async fn a_resource_from_before_there_were_conditions_is_looked_after() {
    Promises::of(operator, &sample(port()))
        .a_resource_from_before_a_field_is_looked_after("/status/conditions")
        .await;
}
