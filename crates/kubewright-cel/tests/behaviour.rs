//! What the recorded answers cannot show: limits, hostile input, and what the caller supplies.

#![allow(clippy::unwrap_used)]

use std::sync::{Arc, OnceLock};

use kubewright_cel::{
    Activation, AuthorizationDecision, AuthorizationRequest, Authorizer, Budget, DeclType, Env, EvalError,
    Lazy, Program, Property, Type, Val,
};
use serde_json::json;

fn eval<'a>(program: &Program, activation: &Activation<'a>) -> Result<Val<'a>, EvalError> {
    program.eval(activation, &mut Budget::new(Budget::PER_CALL))
}

#[test]
fn nesting_is_limited_before_the_stack_is() {
    let env = Env::new();
    let nested = |open: &str, inner: &str, close: &str, depth: usize| {
        format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
    };
    for (open, inner, close) in [
        ("(", "1", ")"),
        ("[", "1", "]"),
        ("{'a':", "1", "}"),
        ("dyn(", "1", ")"),
        ("!(", "true", ")"),
        ("-(", "1", ")"),
        ("true ? 1 : ", "1", ""),
        ("1 + (", "1", ")"),
        ("1 < (", "1", ")"),
        ("true && (", "true", ")"),
        ("[1].map(x, ", "1", ")"),
        ("[1].all(x, ", "true", ")"),
        ("optional.of(1).optMap(x, ", "1", ")"),
    ] {
        for depth in [100, 124, 240, 249, 100_000 / (open.len() + close.len() + 1)] {
            if let Ok(program) = env.compile(&nested(open, inner, close, depth)) {
                let _ = eval(&program, &Activation::new());
            }
        }
        let error = env.compile(&nested(open, inner, close, 300)).unwrap_err().to_string();
        assert!(
            error.contains("recursion limit exceeded: 250") || error.contains("max recursion depth exceeded"),
            "{open}: {error}"
        );
    }
    let chain = format!("[1]{}", ".map(x, x)".repeat(250));
    let _ = env.compile(&chain).map(|program| eval(&program, &Activation::new()));
    let error = env.compile(&"a".repeat(100_001)).unwrap_err().to_string();
    assert_eq!(
        error,
        "ERROR: <input>:-1:0: expression code point size exceeds limit: size: 100001, limit 100000"
    );
}

#[test]
fn a_program_that_costs_too_much_is_stopped() {
    let mut env = Env::new();
    let shape = Arc::new(DeclType::list(DeclType::int(), None, Default::default()));
    let declared = env.declare("selfType", shape.clone());
    env.variable("self", declared);
    let program = env.compile("self.all(x, self.all(y, x + y >= 0 || 1/0 > 1)) || true").unwrap();
    let list = json!((0..2000).collect::<Vec<_>>());
    let activation = Activation::new().with("self", Val::from_json(&list, &shape).unwrap());
    let mut budget = Budget::new(Budget::PER_CALL);
    let error = program.eval(&activation, &mut budget).unwrap_err();
    assert!(error.exceeds_budget());
    assert_eq!(error.to_string(), "operation cancelled: actual cost limit exceeded");
    assert!(budget.used() > Budget::PER_CALL);
}

#[test]
fn a_program_knows_the_variables_it_reads() {
    let mut env = Env::new();
    env.variable("self", Type::Int).variable("oldSelf", Type::Int);
    assert!(env.compile("self > oldSelf").unwrap().uses_variable("oldSelf"));
    assert!(!env.compile("[1].all(oldSelf, oldSelf == self)").unwrap().uses_variable("self2"));
    assert!(!env.compile("self > 1").unwrap().uses_variable("oldSelf"));
}

#[test]
fn an_old_value_can_be_declared_as_optional() {
    let mut env = Env::new();
    let shape = Arc::new(DeclType::object([Property::new("a", DeclType::int())]));
    let declared = env.declare("selfType", shape.clone());
    env.variable("self", declared.clone()).variable("oldSelf", declared.optional());
    let program = env.compile("oldSelf.hasValue() ? self == oldSelf.value() : self.a == 1").unwrap();
    let value = json!({"a": 1});
    let this = Val::from_json(&value, &shape).unwrap();
    let absent = Activation::new().with("self", this.clone()).with("oldSelf", Val::Optional(None));
    assert_eq!(eval(&program, &absent).unwrap().as_bool(), Some(true));
    let present =
        Activation::new().with("self", this.clone()).with("oldSelf", Val::Optional(Some(Arc::new(this))));
    assert_eq!(eval(&program, &present).unwrap().as_bool(), Some(true));
}

#[test]
fn data_that_breaks_its_schema_is_an_error_and_not_a_panic() {
    let shape = DeclType::object([
        Property::new("n", DeclType::int()),
        Property::new("d", DeclType::date_time()),
        Property::new("l", DeclType::list(DeclType::string(None, None), None, Default::default())),
    ]);
    let mut env = Env::new();
    let shape = Arc::new(shape);
    let declared = env.declare("selfType", shape.clone());
    env.variable("self", declared);
    for (text, value, message) in [
        ("self.n > 1", json!({"n": "x"}), "invalid data, expected int, got string"),
        (
            "self.l.size() > 1",
            json!({"l": 3}),
            "invalid data, expected an array for the provided schema with type=array",
        ),
        ("self.l[0] == 'a'", json!({"l": [null]}), "invalid data, got null for schema with nullable=false"),
        ("self.d > self.d", json!({"d": "soon"}), "Invalid date-time formatted string soon"),
    ] {
        let program = env.compile(text).unwrap();
        let activation = Activation::new().with("self", Val::from_json(&value, &shape).unwrap());
        assert_eq!(eval(&program, &activation).unwrap_err().to_string(), message);
    }
}

#[derive(Debug)]
struct OnlyPods;

impl Authorizer for OnlyPods {
    fn authorize(&self, request: &AuthorizationRequest) -> AuthorizationDecision {
        AuthorizationDecision {
            allowed: request.resource == "pods" && request.verb == "get",
            reason: format!("{request:?}"),
            error: None,
        }
    }
}

#[test]
fn an_expression_asks_the_authorizer_step_by_step() {
    let mut env = Env::new();
    env.variable("authorizer", Type::object("kubernetes.authorization.Authorizer"))
        .variable("authorizer.requestResource", Type::object("kubernetes.authorization.ResourceCheck"));
    let request = AuthorizationRequest { resource: "pods".into(), ..Default::default() };
    let activation = Activation::new()
        .with("authorizer", Val::authorizer(&OnlyPods))
        .with("authorizer.requestResource", Val::resource_check(&OnlyPods, request));
    for (text, expected) in [
        ("authorizer.group('').resource('pods').namespace('a').name('b').check('get').allowed()", true),
        ("authorizer.group('apps').resource('deployments').check('get').allowed()", false),
        ("authorizer.requestResource.check('get').allowed()", true),
        ("authorizer.path('/healthz').check('get').allowed()", false),
        (
            "authorizer.serviceAccount('ns', 'sa').group('').resource('pods').check('get').reason().contains('sa')",
            true,
        ),
        ("authorizer.group('').resource('pods').check('get').errored()", false),
    ] {
        let program = env.compile(text).unwrap();
        let mut budget = Budget::new(Budget::PER_CALL);
        let value = program.eval(&activation, &mut budget).unwrap();
        assert_eq!(value.as_bool(), Some(expected), "{text}");
        assert!(budget.used() >= 350_000);
    }
    let program = env.compile("authorizer.group('').resource(' ').check('get').allowed()").unwrap();
    assert_eq!(eval(&program, &activation).unwrap_err().to_string(), "resource must not be empty");
}

#[derive(Debug, Default)]
struct Variables {
    computed: OnceLock<String>,
}

impl Lazy for Variables {
    fn field(&self, name: &str) -> Option<Result<Val<'_>, EvalError>> {
        match name {
            "greeting" => Some(Ok(Val::from(self.computed.get_or_init(|| "hello".into()).as_str()))),
            "broken" => Some(Err(EvalError::new("it broke"))),
            _ => None,
        }
    }
}

#[test]
fn fields_of_a_lazy_object_are_computed_when_they_are_read() {
    let mut env = Env::new();
    let fields = [("greeting".to_owned(), Type::String), ("broken".to_owned(), Type::Int)];
    let ty = env.object_type("kubernetes.variables", fields);
    env.variable("variables", ty);
    let unread = Variables::default();
    let activation = Activation::new().with("variables", Val::Lazy(&unread));
    let program = env.compile("true || variables.broken > 1").unwrap();
    assert_eq!(eval(&program, &activation).unwrap().as_bool(), Some(true));
    assert!(unread.computed.get().is_none());

    let variables = Variables::default();
    let activation = Activation::new().with("variables", Val::Lazy(&variables));
    let program = env.compile("variables.greeting + '!'").unwrap();
    assert_eq!(eval(&program, &activation).unwrap().as_str(), Some("hello!"));
    let program = env.compile("variables.broken > 1").unwrap();
    assert_eq!(eval(&program, &activation).unwrap_err().to_string(), "it broke");
    let error = env.compile("variables.missing").unwrap_err().to_string();
    assert!(error.starts_with("ERROR: <input>:1:10: undefined field 'missing'"), "{error}");
}

#[test]
fn values_become_json_again() {
    let env = Env::new();
    for (text, expected) in [
        (
            "{'a': dyn([true, false]), 'b': dyn({'c': b'hi'})}",
            json!({"a": [true, false], "b": {"c": "aGk="}}),
        ),
        ("[dyn(1), dyn(2u), dyn(1.5), dyn('x'), dyn(null)]", json!([1, 2, 1.5, "x", null])),
        ("timestamp('2021-01-01T00:00:00Z')", json!("2021-01-01T00:00:00Z")),
        ("duration('90s')", json!("90s")),
        ("optional.of(1)", json!(1)),
    ] {
        let program = env.compile(text).unwrap();
        assert_eq!(eval(&program, &Activation::new()).unwrap().to_json(), Some(expected), "{text}");
    }
}

#[test]
fn a_program_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Program>();
    shared::<Env>();
    shared::<DeclType>();
}

#[test]
fn admission_has_its_variables() {
    let env = Env::for_admission().with_params().with_authorizer();
    let object = json!({"metadata": {"name": "x"}, "data": {"a": "1"}, "spec": {"replicas": 3}});
    let request = json!({
        "operation": "CREATE", "namespace": "ns", "dryRun": false,
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "userInfo": {"username": "bob", "groups": ["system:masters"]},
    });
    let namespace = json!({"metadata": {"name": "ns", "labels": {"env": "prod"}}});
    let activation = Activation::new()
        .with("object", Val::from_dyn_json(&object))
        .with("oldObject", Val::Null)
        .with("params", Val::Null)
        .with("request", Val::from_dyn_json(&request))
        .with("namespaceObject", Val::from_dyn_json(&namespace))
        .with("authorizer", Val::authorizer(&OnlyPods));
    for text in [
        "object.spec.replicas <= 3 && oldObject == null && params == null",
        "request.operation == 'CREATE' && request.namespace == 'ns' && !request.dryRun",
        "request.kind.kind == 'ConfigMap' && 'system:masters' in request.userInfo.groups",
        "namespaceObject.metadata.labels['env'] == 'prod'",
        "!has(object.data.missing) && object.?data.?missing.orValue('none') == 'none'",
        "authorizer.group('').resource('pods').check('get').allowed()",
    ] {
        let program = env.compile(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(*program.return_type(), Type::Bool);
        assert_eq!(eval(&program, &activation).unwrap().as_bool(), Some(true), "{text}");
    }
    let program = env.compile("object.data.missing == 'x'").unwrap();
    assert_eq!(eval(&program, &activation).unwrap_err().to_string(), "no such key: missing");
    let error = env.compile("request.kind.foo == 'x'").unwrap_err().to_string();
    assert!(error.starts_with("ERROR: <input>:1:13: undefined field 'foo'"), "{error}");
    assert!(Env::for_admission().compile("params.x").is_err());
}
