//! What every operator promises, and this one, too.

use kubewright_cluster::{Promises, promises};
use myweb_operator::operator;

use super::{port, sample};

promises!(Promises::of(operator, &sample(port())));

#[tokio::test]
async fn a_resource_from_before_there_were_conditions_is_looked_after() {
    Promises::of(operator, &sample(port()))
        .a_resource_from_before_a_field_is_looked_after("/status/conditions")
        .await;
}
