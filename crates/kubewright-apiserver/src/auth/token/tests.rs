use serde_json::{Value, json};

use super::*;
use crate::error::ApiError;

fn now() -> Timestamp {
    "2026-06-01T12:00:00Z".parse().unwrap()
}

fn tokens() -> ServiceAccountTokens {
    ServiceAccountTokens::generate(DEFAULT_ISSUER).unwrap()
}

/// ServiceAccount, Pod and Secret `ns/x`, Node `n`; uids are the kind's resource.
fn world(kind: BoundKind, namespace: &str, name: &str) -> Option<BoundObject> {
    let expected = if kind == BoundKind::Node { ("", "n") } else { ("ns", "x") };
    ((namespace, name) == expected).then(|| BoundObject {
        uid: kind.resource().to_owned(),
        service_account: "x".to_owned(),
        node: "n".to_owned(),
        ..BoundObject::default()
    })
}

fn request(tokens: &ServiceAccountTokens, spec: Value) -> Result<Issued, ApiError> {
    tokens.request("ns", "x", &json!({"spec": spec}), now(), "some-id", &world)
}

fn token(tokens: &ServiceAccountTokens, spec: Value) -> String {
    request(tokens, spec).unwrap().object["status"]["token"].as_str().unwrap().to_owned()
}

fn after(seconds: i64) -> Timestamp {
    now() + jiff::SignedDuration::from_secs(seconds)
}

fn own() -> Vec<String> {
    vec![DEFAULT_ISSUER.to_owned()]
}

#[test]
fn a_token_looks_like_a_real_one() {
    let tokens = tokens();
    let issued =
        request(&tokens, json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "x"}}));
    let object = issued.unwrap().object;
    let token = object["status"]["token"].as_str().unwrap();
    let parts = Parts::split(token).unwrap();
    assert_eq!((parts.header.alg.as_str(), parts.header.kid.as_str()), ("ES256", tokens.key_id.as_str()));
    let at = now().as_second();
    assert_eq!(
        parts.payload,
        json!({
            "aud": [DEFAULT_ISSUER], "exp": at + 3600, "iat": at, "iss": DEFAULT_ISSUER, "jti": "some-id",
            "kubernetes.io": {
                "namespace": "ns",
                "node": {"name": "n", "uid": "nodes"},
                "pod": {"name": "x", "uid": "pods"},
                "serviceaccount": {"name": "x", "uid": "serviceaccounts"},
            },
            "nbf": at, "sub": "system:serviceaccount:ns:x",
        })
    );
    assert_eq!(object["spec"]["expirationSeconds"], 3600);
    assert_eq!(object["status"]["expirationTimestamp"], "2026-06-01T13:00:00Z");
    assert_eq!(object["metadata"]["creationTimestamp"], "2026-06-01T12:00:00Z");
    let (user, audiences) = tokens.verify(token, &own(), now(), &world).unwrap().unwrap();
    assert_eq!(audiences, own());
    assert_eq!(
        serde_json::to_value(&*user).unwrap(),
        json!({
            "username": "system:serviceaccount:ns:x", "uid": "serviceaccounts",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"],
            "extra": {
                "authentication.kubernetes.io/credential-id": ["JTI=some-id"],
                "authentication.kubernetes.io/node-name": ["n"],
                "authentication.kubernetes.io/node-uid": ["nodes"],
                "authentication.kubernetes.io/pod-name": ["x"],
                "authentication.kubernetes.io/pod-uid": ["pods"],
            },
        })
    );
}

#[test]
fn a_token_works_from_issue_to_expiry_give_or_take_a_minute() {
    let tokens = tokens();
    let token = token(&tokens, json!({"expirationSeconds": 600}));
    for (seconds, expected) in [
        (-61, Some("service account token is not valid yet")),
        (-60, None),
        (660, None),
        (661, Some("service account token has expired")),
    ] {
        let result = tokens.verify(&token, &own(), after(seconds), &world);
        assert_eq!(result.err().as_deref(), expected, "{seconds}");
    }
}

#[test]
fn a_kubelets_token_warns_early_and_lives_a_year() {
    let tokens = tokens();
    let bound = json!({"kind": "Pod", "apiVersion": "v1", "name": "x"});
    let object =
        request(&tokens, json!({"expirationSeconds": 3607, "boundObjectRef": bound})).unwrap().object;
    assert_eq!(object["status"]["expirationTimestamp"], "2026-06-01T13:00:07Z");
    let token = object["status"]["token"].as_str().unwrap();
    let payload = Parts::split(token).unwrap().payload;
    assert_eq!(payload["kubernetes.io"]["warnafter"], after(3607).as_second());
    assert_eq!(payload["exp"], after(365 * 24 * 60 * 60).as_second());
    let unbound = Parts::split(&self::token(&tokens, json!({"expirationSeconds": 3607}))).unwrap().payload;
    assert_eq!(unbound["exp"], after(3607).as_second());
}

#[test]
fn tokens_that_do_not_hold_say_why() {
    let tokens = tokens();
    let good = token(&tokens, json!({"audiences": ["api"]}));
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let (header, payload) = signed.split_once('.').unwrap();
    let with_header = |header: Value| format!("{}.{payload}.{signature}", BASE64.encode(header.to_string()));
    let mut other: Value = serde_json::from_slice(&BASE64.decode(payload).unwrap()).unwrap();
    other["sub"] = json!("system:serviceaccount:kube-system:admin");
    let forged = format!("{header}.{}.{signature}", BASE64.encode(other.to_string()));
    let crypto = Some("go-jose/go-jose: error in cryptographic primitive");
    for (what, token, audience, expected) in [
        ("good", good.clone(), "api", None),
        (
            "wrong audience",
            good.clone(),
            "other",
            Some("token audiences [\"api\"] is invalid for the target audiences [\"other\"]"),
        ),
        ("forged", forged, "api", crypto),
        ("unsigned", format!("{signed}."), "api", crypto),
        ("no algorithm", with_header(json!({"alg": "none"})), "api", crypto),
        (
            "other key",
            with_header(json!({"alg": "ES256", "kid": "x"})),
            "api",
            Some("invalid signature, no keys found"),
        ),
    ] {
        let result = tokens.verify(&token, &[audience.to_owned()], now(), &world);
        assert_eq!(result.err().as_deref(), expected, "{what}");
    }
    let foreign = ServiceAccountTokens::generate("https://elsewhere").unwrap();
    let foreign = self::token(&foreign, json!({"audiences": ["api"]}));
    for stranger in ["", "garbage", "a.b.c", "..", "a.b.c.d", foreign.as_str()] {
        assert_eq!(tokens.verify(stranger, &["api".to_owned()], now(), &world), Ok(None), "{stranger}");
    }
}

#[test]
fn a_token_dies_with_what_it_is_tied_to() {
    let tokens = tokens();
    let invalidated = "service account token has been invalidated".to_owned();
    for (kind, bound, name, gone, replaced) in [
        (
            BoundKind::ServiceAccount,
            "",
            "x",
            "serviceaccounts \"x\" not found".to_owned(),
            "service account UID (new) does not match claim (serviceaccounts)",
        ),
        (
            BoundKind::Pod,
            "Pod",
            "x",
            invalidated.clone(),
            "pod UID (new) does not match service account pod ref claim (pods)",
        ),
        (
            BoundKind::Secret,
            "Secret",
            "x",
            invalidated.clone(),
            "secret UID (new) does not match service account secret ref claim (secrets)",
        ),
        (
            BoundKind::Node,
            "Node",
            "n",
            invalidated.clone(),
            "node UID (new) does not match service account node ref claim (nodes)",
        ),
    ] {
        let spec = match bound {
            "" => json!({}),
            bound => json!({"boundObjectRef": {"kind": bound, "apiVersion": "v1", "name": name}}),
        };
        let token = token(&tokens, spec);
        let verify = |change: &dyn Fn(BoundObject) -> Option<BoundObject>| {
            let lookup = |asked: BoundKind, namespace: &str, name: &str| {
                let object = world(asked, namespace, name)?;
                if asked == kind { change(object) } else { Some(object) }
            };
            tokens.verify(&token, &own(), now(), &lookup).map(|verified| verified.is_some())
        };
        assert_eq!(verify(&Some), Ok(true), "{kind:?}");
        assert_eq!(verify(&|_| None), Err(gone.clone()), "{kind:?}");
        let renewed = verify(&|object| Some(BoundObject { uid: "new".to_owned(), ..object }));
        assert_eq!(renewed, Err(replaced.to_owned()));
        let dying = |seconds| verify(&|object| Some(BoundObject { deleted: Some(after(seconds)), ..object }));
        assert_eq!(dying(-60), Ok(true), "{kind:?}");
        assert!(dying(-61).is_err(), "{kind:?}");
    }
}

#[test]
fn a_bad_request_gets_no_token() {
    let tokens = tokens();
    let invalid =
        "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: ";
    for (spec, code, message) in [
        (json!({"expirationSeconds": 599}), 422,
            format!("{invalid}599: may not specify a duration less than 10 minutes")),
        (json!({"expirationSeconds": 4_294_967_297_i64}), 422,
            format!("{invalid}4294967297: may not specify a duration larger than 2^32 seconds")),
        (json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "none"}}), 404,
            "pods \"none\" not found".to_owned()),
        (json!({"boundObjectRef": {"kind": "Zork", "apiVersion": "v1", "name": "x"}}), 400,
            "cannot bind token to object of type /v1, Kind=Zork".to_owned()),
        (json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "a/v1", "name": "x"}}), 400,
            "cannot bind token to object of type a/v1, Kind=Pod".to_owned()),
        (json!({"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "x", "uid": "u"}}), 409,
            "Operation cannot be fulfilled on Secret \"x\": the UID in the bound object reference (u) does not \
             match the UID in record. The object might have been deleted and then recreated".to_owned()),
    ] {
        let error = request(&tokens, spec).unwrap_err();
        assert_eq!((error.code, error.message), (code, message));
    }
    let body = json!({"metadata": {"name": "y"}, "spec": {}});
    let error = tokens.request("ns", "x", &body, now(), "id", &world).unwrap_err();
    assert_eq!(
        error.message,
        "TokenRequest.authentication.k8s.io \"x\" is invalid: metadata.name: Invalid value: \"y\": must match \
         the service account name if specified"
    );
    let error = tokens.request("ns", "gone", &json!({}), now(), "id", &world).unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (404, "serviceaccounts \"gone\" not found"));
    let other = |_: BoundKind, _: &str, _: &str| {
        Some(BoundObject { service_account: "y".into(), ..Default::default() })
    };
    let body = json!({"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "x"}}});
    let error = tokens.request("ns", "x", &body, now(), "id", &other).unwrap_err();
    assert_eq!(
        error.message,
        "cannot bind token for serviceaccount \"x\" to pod running with different serviceaccount name."
    );
}

#[test]
fn a_long_wish_is_shortened_with_a_warning() {
    let tokens = tokens().with_max_seconds(3600);
    let issued = request(&tokens, json!({"expirationSeconds": 7200})).unwrap();
    assert_eq!(issued.object["spec"]["expirationSeconds"], 3600);
    assert_eq!(issued.warnings, ["requested expiration of 7200 seconds shortened to 3600 seconds"]);
}

#[test]
fn a_kept_key_verifies_older_tokens() {
    let first = tokens();
    let token = token(&first, json!({}));
    let again = ServiceAccountTokens::from_pem(DEFAULT_ISSUER, &first.to_pem()).unwrap();
    assert_eq!(again.key_set(), first.key_set());
    assert!(again.verify(&token, &own(), now(), &world).unwrap().is_some());
    assert_eq!(
        tokens().verify(&token, &own(), now(), &world),
        Err("invalid signature, no keys found".to_owned())
    );
}
