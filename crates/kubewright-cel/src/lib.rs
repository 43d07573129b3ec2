//! CEL as Kubernetes 1.36 runs it, for validation rules of custom resources, admission policies, match
//! conditions and message expressions.
//!
//! An [`Env`] says which variables there are; [`Env::compile`] turns a text into a [`Program`] or into the
//! error text that kube-apiserver would show; [`Program::eval`] runs it over borrowed JSON within a
//! [`Budget`]. Nothing here reads the clock, files or the network.
//!
//! ```
//! use std::sync::Arc;
//! use kubewright_cel::{Activation, Budget, DeclType, Env, Property, Val};
//!
//! let shape = Arc::new(DeclType::object([Property::new("replicas", DeclType::int())]));
//! let mut env = Env::new();
//! let declared = env.declare("selfType", shape.clone());
//! env.variable("self", declared);
//! let rule = env.compile("self.replicas <= 5")?;
//!
//! let object = serde_json::json!({"replicas": 7});
//! let activation = Activation::new().with("self", Val::from_json(&object, &shape)?);
//! let mut budget = Budget::new(Budget::PER_CALL);
//! assert_eq!(rule.eval(&activation, &mut budget)?.as_bool(), Some(false));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod admission;
mod ast;
mod checker;
mod cost;
mod env;
mod eval;
mod lexer;
mod library;
mod literal;
mod macros;
mod openapi;
mod parser;
mod plan;
mod schema;
mod source;
mod stack;
mod time;
mod types;
mod validate;
mod value;

pub use cost::CostRange;
pub use env::{Declared, Env, Program};
pub use eval::{Activation, Budget, EvalError};
pub use library::authorizer::{AuthorizationDecision, AuthorizationRequest, Authorizer};
pub use schema::{DeclType, ListIdentity, Property, escape_identifier, is_reserved};
pub use source::CompileError;
pub use time::{Span, Timestamp};
pub use types::Type;
pub use value::{Lazy, List, Map, Str, Val};
