//! What an expression may refer to, and the way from a text to a program.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    checker,
    cost::{self, CostRange},
    eval::{Activation, Budget, EvalError, evaluate},
    parser,
    plan::{self, Node},
    schema::{DeclType, ObjectTypes},
    source::{CompileError, Problems, Source},
    stack,
    types::Type,
    validate,
    value::Val,
};

/// The variables and object types an expression may use, besides the libraries that are always there.
#[derive(Debug, Clone, Default)]
pub struct Env {
    variables: BTreeMap<String, Declared>,
    objects: BTreeMap<Arc<str>, Arc<ObjectTypes>>,
    /// Where sizes are looked up.
    root: Option<Arc<DeclType>>,
}

/// The type of a variable, and how large its values can get if that is known.
#[derive(Debug, Clone)]
pub struct Declared {
    ty: Type,
    shape: Option<Arc<DeclType>>,
}

impl Declared {
    /// The same, but the value may be absent.
    pub fn optional(self) -> Self {
        Self { ty: Type::optional(self.ty), ..self }
    }
}

impl From<Type> for Declared {
    fn from(ty: Type) -> Self {
        Self { ty, shape: None }
    }
}

impl Env {
    /// An environment without variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the object types of a shape known. `name` names those that have no name of their own: the
    /// outermost object is called so, others are called after where they are in it.
    pub fn declare(&mut self, name: &str, shape: Arc<DeclType>) -> Declared {
        let ty = shape.cel_type(name, &mut self.objects);
        Declared { ty, shape: Some(shape) }
    }

    /// Makes an object type known by the types of its fields, for objects that are not JSON, such as
    /// `variables`.
    pub fn object_type(&mut self, name: &str, fields: impl IntoIterator<Item = (String, Type)>) -> Type {
        self.objects.insert(name.into(), Arc::new(fields.into_iter().collect()));
        Type::object(name)
    }

    /// Adds a variable. Cost estimates take sizes from the shape of the first variable that has one, also
    /// for what is reached by other variables: so does kube-apiserver, where the only other variable is
    /// the old value.
    pub fn variable(&mut self, name: &str, declared: impl Into<Declared>) -> &mut Self {
        let declared = declared.into();
        if self.root.is_none() {
            self.root.clone_from(&declared.shape);
        }
        self.variables.insert(name.into(), declared);
        self
    }

    /// Parses and checks an expression.
    ///
    /// # Errors
    ///
    /// What is wrong with it, worded as kube-apiserver words it.
    pub fn compile(&self, text: &str) -> Result<Program, CompileError> {
        stack::with_room(stack::nesting(text), || self.compile_here(text))
    }

    fn compile_here(&self, text: &str) -> Result<Program, CompileError> {
        let source = Source::new(text);
        let mut problems = Problems::default();
        let Some(parsed) = parser::parse(&source, &mut problems) else {
            return Err(problems.into_error(&source));
        };
        let checked = checker::check(self, &source, &parsed, &mut problems);
        if problems.is_empty() {
            validate::validate(&source, &parsed, &checked, &mut problems);
        }
        if !problems.is_empty() {
            return Err(problems.into_error(&source));
        }
        let root = plan::plan(&parsed.expr, &checked).map_err(CompileError::instantiation)?;
        Ok(Program {
            depth: root.depth(),
            root,
            return_type: checked.type_of(&parsed.expr).clone(),
            cost: cost::estimate(self, &parsed, &checked),
            variables: self.variables.keys().filter(|variable| checked.mentions(variable)).cloned().collect(),
        })
    }

    pub(crate) fn variable_type(&self, name: &str) -> Option<&Type> {
        self.variables.get(name).map(|declared| &declared.ty)
    }

    pub(crate) fn root_shape(&self) -> Option<&DeclType> {
        self.root.as_deref()
    }

    /// A type that is only known because shapes are declared: an object type, or the short name that
    /// kube-apiserver has for a scalar in a schema.
    pub(crate) fn type_named(&self, name: &str) -> Option<Type> {
        match name {
            "timestamp" if self.root.is_some() => Some(Type::Timestamp),
            "duration" if self.root.is_some() => Some(Type::Duration),
            _ => self.objects.contains_key(name).then(|| Type::object(name)),
        }
    }

    pub(crate) fn object_fields(&self, name: &str) -> Option<&ObjectTypes> {
        self.objects.get(name).map(AsRef::as_ref)
    }
}

/// An expression that is ready to run, any number of times and from any thread.
#[derive(Debug)]
pub struct Program {
    root: Node,
    depth: usize,
    return_type: Type,
    cost: CostRange,
    variables: Vec<String>,
}

impl Program {
    /// The type of what the expression returns.
    pub fn return_type(&self) -> &Type {
        &self.return_type
    }

    /// The least and the most that running the expression can cost, given the declared sizes.
    pub fn estimate_cost(&self) -> CostRange {
        self.cost
    }

    /// Whether the expression reads a variable.
    pub fn uses_variable(&self, name: &str) -> bool {
        self.variables.iter().any(|variable| variable == name)
    }

    /// Runs the expression. What it costs is added to the budget's use.
    ///
    /// # Errors
    ///
    /// Why there is no value, worded as kube-apiserver words it; the budget being used up is one reason.
    pub fn eval<'a>(&self, activation: &Activation<'a>, budget: &mut Budget) -> Result<Val<'a>, EvalError> {
        stack::with_room(self.depth / 2, || evaluate(&self.root, activation, budget))
    }
}
