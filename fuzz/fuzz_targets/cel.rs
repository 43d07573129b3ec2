//! Any text as a CEL expression: compiled, and run over a value if it compiles.

#![no_main]

use std::sync::Arc;

use kubewright_cel::{Activation, Budget, DeclType, Env, ListIdentity, Property, Val};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let shape = Arc::new(DeclType::object([
        Property::new("text", DeclType::string(None, None)),
        Property::new("number", DeclType::int()),
        Property::new("list", DeclType::list(DeclType::string(None, None), None, ListIdentity::Atomic)),
    ]));
    let mut env = Env::new();
    let declared = env.declare("selfType", shape.clone());
    env.variable("self", declared);
    let Ok(program) = env.compile(text) else { return };
    let object = serde_json::json!({"text": "ü1", "number": 7, "list": ["a", "b", ""]});
    let value = Val::from_json(&object, &shape).expect("the value fits its shape");
    // Errors and an exhausted budget are answers, too.
    let _ = program.eval(&Activation::new().with("self", value), &mut Budget::new(Budget::PER_CALL));
});
