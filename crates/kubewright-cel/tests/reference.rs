//! Compares with answers recorded from the real thing: cel-go as kube-apiserver 1.36 configures it.
//!
//! Each line of `tests/reference.jsonl` holds an expression, perhaps a schema and a value for `self`, and
//! what came out: compile errors, type, estimated cost, value or error, actual cost.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use kubewright_cel::{Activation, Budget, DeclType, Env, Type, Val};
use serde_json::{Value, json};

/// As Go's `%v` writes it.
fn go_number(number: f64) -> String {
    let scientific = format!("{number:e}");
    match scientific.split_once('e') {
        None if number.is_nan() => "NaN".into(),
        None => if number > 0.0 { "+Inf" } else { "-Inf" }.into(),
        Some((digits, exponent)) => match exponent.parse::<i32>().unwrap() {
            -4..6 => number.to_string(),
            exponent if exponent < 0 => format!("{digits}e-{:02}", -exponent),
            exponent => format!("{digits}e+{exponent:02}"),
        },
    }
}

fn shown(value: &Val<'_>) -> Value {
    match value {
        Val::Null => json!("NULL"),
        Val::Bool(value) => json!(value),
        Val::Int(value) => json!(format!("i:{value}")),
        Val::Uint(value) => json!(format!("u:{value}")),
        Val::Double(value) => json!(format!("d:{}", go_number(*value))),
        Val::String(text) => json!(format!("s:{}", &**text)),
        Val::Bytes(bytes) => {
            json!(format!("b:{}", bytes.iter().map(|b| format!("{b:02x}")).collect::<String>()))
        }
        Val::Timestamp(time) => json!(format!("t:{time}")),
        Val::Duration(span) => json!(format!("D:{span}")),
        Val::Optional(None) => json!(["none"]),
        Val::Optional(Some(value)) => json!(["some", shown(value)]),
        Val::List(list) => {
            let mut items = vec![json!("list")];
            items.extend(list.iter().map(|item| shown(&item.unwrap())));
            Value::Array(items)
        }
        Val::Map(map) => {
            let mut entries: Vec<String> = map
                .iter()
                .map(|entry| {
                    let (key, value) = entry.unwrap();
                    json!([shown(&key), shown(&value)]).to_string()
                })
                .collect();
            entries.sort();
            json!({ "map": entries })
        }
        _ => Value::Null,
    }
}

/// Differences between what comes out and what was recorded.
fn differences(case: &Value) -> Vec<String> {
    let text = |name: &str| case[name].as_str().unwrap_or_default().to_owned();
    let mut env = Env::new();
    let shape = case.get("schema").and_then(Value::as_object).map(|schema| {
        Arc::new(DeclType::from_openapi(schema, false).expect("the recorded schema declares a shape"))
    });
    match &shape {
        Some(shape) => {
            let declared = env.declare("selfType", shape.clone());
            env.variable("self", declared);
        }
        None => {
            env.variable("self", Type::Dyn);
        }
    }
    let mut found = Vec::new();
    let mut differ = |what: &str, ours: Value, recorded: Value| {
        if ours != recorded {
            found.push(format!("{what}:\n  ours     {ours}\n  recorded {recorded}"));
        }
    };
    let program = match env.compile(&text("expr")) {
        Ok(program) => program,
        Err(error) if error.is_instantiation() => {
            differ("error", json!(format!("program: {error}")), json!(text("error")));
            return found;
        }
        Err(error) => {
            differ("compile", json!(error.to_string()), json!(text("compile")));
            return found;
        }
    };
    differ("compile", json!(""), json!(text("compile")));
    let ty = program.return_type().to_string();
    let recorded = text("type").replace("google.protobuf.T", "t").replace("google.protobuf.D", "d");
    differ("type", json!(ty), json!(recorded.replace("null_type", "null")));
    let estimate = program.estimate_cost();
    differ("max", json!(estimate.max), json!(case["max"].as_u64().unwrap_or(0)));
    differ("min", json!(estimate.min), json!(case["min"].as_u64().unwrap_or(0)));

    let mut activation = Activation::new();
    if let Some(value) = case.get("self") {
        let value = match &shape {
            Some(shape) => Val::from_json(value, shape).unwrap(),
            None => Val::from_dyn_json(value),
        };
        activation = activation.with("self", value);
    }
    let mut budget = Budget::new(case["limit"].as_u64().unwrap_or(Budget::PER_CALL));
    match program.eval(&activation, &mut budget) {
        Ok(value) => {
            differ("error", json!(""), json!(text("error")));
            let ours = shown(&value);
            // Values of libraries are recorded in a form of their own.
            if !ours.to_string().contains("null") {
                let recorded = case["value"].to_string().replace("\"null\"", "\"NULL\"");
                differ("value", json!(ours.to_string()), json!(recorded));
            }
            differ("cost", json!(budget.used()), json!(case["cost"].as_u64().unwrap_or(0)));
        }
        Err(error) => differ("error", json!(error.to_string()), json!(text("error"))),
    }
    found
}

#[test]
fn answers_are_those_of_the_reference() {
    let cases = include_str!("reference.jsonl");
    let mut report = Vec::new();
    let mut count = 0;
    for line in cases.lines() {
        count += 1;
        let case: Value = serde_json::from_str(line).unwrap();
        let found = differences(&case);
        if !found.is_empty() {
            report.push(format!("{}\n{}", case["expr"], found.join("\n")));
        }
    }
    assert!(report.is_empty(), "{} of {count} differ\n\n{}", report.len(), report.join("\n\n"));
}
