//! Turns a checked tree into what the evaluator runs: names resolved, constants computed, patterns
//! compiled, and operators told apart.

use regex::Regex;

use crate::{
    ast::{Comprehension, Expr, Kind, Literal, operator},
    checker::{Checked, Reference},
    eval::{Activation, Budget, evaluate},
    library::{self, Function, Implementation},
    macros,
    value::{Items, Str, Val},
};

/// A step of a program.
#[derive(Debug)]
pub(crate) enum Node {
    Const(Val<'static>),
    Variable(Box<str>),
    /// A variable of a fold.
    Local(usize),
    Select {
        operand: Box<Node>,
        field: Val<'static>,
        optional: bool,
    },
    Index {
        operand: Box<Node>,
        index: Box<Node>,
        optional: bool,
    },
    Has {
        operand: Box<Node>,
        field: Val<'static>,
    },
    Conditional(Box<(Node, Node, Node)>),
    And(Box<(Node, Node)>),
    Or(Box<(Node, Node)>),
    NotStrictlyFalse(Box<Node>),
    Equal {
        operands: Box<(Node, Node)>,
        negated: bool,
    },
    /// `in` with a list of constants.
    InConstant {
        value: Box<Node>,
        list: Vec<Val<'static>>,
    },
    /// `or` and `orValue` of optionals.
    OrElse {
        optional: Box<Node>,
        other: Box<Node>,
        unwrap: bool,
    },
    List(Vec<(Node, bool)>),
    Map(Vec<(Node, Node, bool)>),
    Call(Box<Call>),
    Fold(Box<Fold>),
}

/// A call of a function.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) function: &'static Function,
    /// The only overload that fits, if there is only one.
    pub(crate) overload: &'static str,
    pub(crate) args: Vec<Node>,
    /// The compiled pattern, if it is a constant.
    pub(crate) pattern: Option<Regex>,
    /// The call adds items to the accumulator of a fold, which is in this slot.
    pub(crate) appends_to: Option<usize>,
}

/// A fold over a list or map.
#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) range: Node,
    pub(crate) init: Node,
    pub(crate) condition: Node,
    pub(crate) step: Node,
    pub(crate) result: Node,
    pub(crate) two_variables: bool,
}

impl Node {
    /// Whether cel-go resolves the step as an attribute, which has costs of its own.
    pub(crate) fn is_attribute(&self) -> bool {
        matches!(
            self,
            Self::Variable(_)
                | Self::Local(_)
                | Self::Select { .. }
                | Self::Index { .. }
                | Self::Has { .. }
                | Self::Conditional(_)
        )
    }

    /// What the start of an attribute costs, besides its selections.
    pub(crate) fn root_cost(&self) -> u64 {
        match self {
            Self::Variable(_) | Self::Local(_) => 1,
            Self::Select { operand, .. } | Self::Index { operand, .. } => {
                if operand.is_attribute() {
                    operand.root_cost()
                } else {
                    1
                }
            }
            _ => 0,
        }
    }
}

impl Node {
    /// How deeply steps are nested in this one.
    pub(crate) fn depth(&self) -> usize {
        let deepest = |nodes: &mut dyn Iterator<Item = &Self>| nodes.map(Self::depth).max().unwrap_or(0);
        1 + match self {
            Self::Const(_) | Self::Variable(_) | Self::Local(_) => 0,
            Self::Select { operand, .. } | Self::Has { operand, .. } | Self::NotStrictlyFalse(operand) => {
                operand.depth()
            }
            Self::Index { operand, index, .. } => operand.depth().max(index.depth()),
            Self::Conditional(parts) => parts.0.depth().max(parts.1.depth()).max(parts.2.depth()),
            Self::And(terms) | Self::Or(terms) | Self::Equal { operands: terms, .. } => {
                terms.0.depth().max(terms.1.depth())
            }
            Self::InConstant { value, .. } => value.depth(),
            Self::OrElse { optional, other, .. } => optional.depth().max(other.depth()),
            Self::List(elements) => deepest(&mut elements.iter().map(|(element, _)| element)),
            Self::Map(entries) => deepest(&mut entries.iter().flat_map(|(key, value, _)| [key, value])),
            Self::Call(call) => deepest(&mut call.args.iter()),
            Self::Fold(fold) => {
                deepest(&mut [&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result].into_iter())
            }
        }
    }
}

/// Plans an expression; the error says why it can never run.
pub(crate) fn plan(expr: &Expr, checked: &Checked) -> Result<Node, String> {
    Planner { checked, locals: Vec::new() }.plan(expr)
}

struct Planner<'a> {
    checked: &'a Checked,
    /// Names of the variables of the folds around.
    locals: Vec<String>,
}

impl Planner<'_> {
    fn plan(&mut self, expr: &Expr) -> Result<Node, String> {
        match self.checked.reference(expr) {
            Some(Reference::Variable(name)) => return Ok(self.variable(name)),
            Some(Reference::Type(ty)) => {
                // The checker knows these short names, the runtime does not.
                return match expr.qualified_name().as_deref() {
                    Some(name @ ("timestamp" | "duration")) => {
                        Err(format!("reference to undefined type: {name}"))
                    }
                    _ => Ok(Node::Const(Val::Type(ty.clone()))),
                };
            }
            _ => {}
        }
        match &expr.kind {
            Kind::Literal(literal) => Ok(Node::Const(constant(literal))),
            Kind::Ident(name) => Ok(self.variable(name)),
            Kind::Select { operand, field, test_only } => {
                let operand = Box::new(self.plan(operand)?);
                let field = Val::from(field.clone());
                Ok(if *test_only {
                    Node::Has { operand, field }
                } else {
                    Node::Select { operand, field, optional: false }
                })
            }
            Kind::Call { target, function, args } => self.call(expr, target.as_deref(), function, args),
            Kind::List(elements) => {
                let nodes = elements
                    .iter()
                    .map(|element| Ok((self.plan(&element.value)?, element.optional)))
                    .collect::<Result<Vec<_>, String>>()?;
                let is_constant = nodes.iter().all(|(node, _)| matches!(node, Node::Const(_)));
                computed(Node::List(nodes), is_constant)
            }
            Kind::Map(entries) => {
                let nodes = entries
                    .iter()
                    .map(|entry| Ok((self.plan(&entry.key)?, self.plan(&entry.value)?, entry.optional)))
                    .collect::<Result<Vec<_>, String>>()?;
                let is_constant = nodes
                    .iter()
                    .all(|(key, value, _)| matches!((key, value), (Node::Const(_), Node::Const(_))));
                computed(Node::Map(nodes), is_constant)
            }
            Kind::Comprehension(fold) => self.fold(fold),
            Kind::Error | Kind::Struct { .. } => Err("expression cannot be run".into()),
        }
    }

    fn variable(&self, name: &str) -> Node {
        match self.locals.iter().rposition(|local| local == name) {
            Some(slot) => Node::Local(slot),
            None => Node::Variable(name.into()),
        }
    }

    fn pair(&mut self, args: &[Expr]) -> Result<(Node, Node), String> {
        match args {
            [one, two] => Ok((self.plan(one)?, self.plan(two)?)),
            _ => Err("operator needs two operands".into()),
        }
    }

    fn call(
        &mut self,
        expr: &Expr,
        target: Option<&Expr>,
        name: &str,
        args: &[Expr],
    ) -> Result<Node, String> {
        match name {
            operator::AND => return Ok(Node::And(Box::new(self.pair(args)?))),
            operator::OR => return Ok(Node::Or(Box::new(self.pair(args)?))),
            operator::EQUALS | operator::NOT_EQUALS => {
                let operands = Box::new(self.pair(args)?);
                return Ok(Node::Equal { operands, negated: name == operator::NOT_EQUALS });
            }
            operator::CONDITIONAL => {
                let [condition, yes, no] = args else { return Err("conditional needs three parts".into()) };
                let parts = (self.plan(condition)?, self.plan(yes)?, self.plan(no)?);
                return Ok(Node::Conditional(Box::new(parts)));
            }
            operator::INDEX | operator::OPT_INDEX | operator::OPT_SELECT => {
                let (operand, index) = self.pair(args)?;
                let (operand, optional) = (Box::new(operand), name != operator::INDEX);
                return Ok(match index {
                    Node::Const(field) => Node::Select { operand, field, optional },
                    index => Node::Index { operand, index: Box::new(index), optional },
                });
            }
            operator::NOT_STRICTLY_FALSE => {
                let [operand] = args else { return Err("operator needs one operand".into()) };
                return Ok(Node::NotStrictlyFalse(Box::new(self.plan(operand)?)));
            }
            _ => {}
        }
        let Some(Reference::Function { function, overloads, namespaced }) = self.checked.reference(expr)
        else {
            return Err(format!("no such overload: {name}"));
        };
        let overload = match overloads.as_slice() {
            [only] => only,
            _ => "",
        };
        let mut nodes = Vec::with_capacity(args.len() + 1);
        if let Some(target) = target
            && !namespaced
        {
            nodes.push(self.plan(target)?);
        }
        for arg in args {
            nodes.push(self.plan(arg)?);
        }
        self.function(function, overload, nodes)
    }

    fn function(
        &mut self,
        function: &'static Function,
        overload: &'static str,
        mut nodes: Vec<Node>,
    ) -> Result<Node, String> {
        if matches!(overload, "optional_or_optional" | "optional_orValue_value")
            && let (Some(other), Some(optional)) = (nodes.pop(), nodes.pop())
        {
            let unwrap = overload == "optional_orValue_value";
            return Ok(Node::OrElse { optional: Box::new(optional), other: Box::new(other), unwrap });
        }
        if overload == "in_list"
            && let [_, Node::Const(Val::List(list))] = nodes.as_slice()
            && let Items::Owned(items) = &list.items
            && items.iter().all(is_primitive)
        {
            let list = items.as_ref().clone();
            if list.is_empty() {
                return Ok(Node::Const(Val::Bool(false)));
            }
            return Ok(Node::InConstant { value: Box::new(nodes.swap_remove(0)), list });
        }
        let pattern = match (&function.implementation, nodes.get(1)) {
            (Implementation::Pattern(_), Some(Node::Const(Val::String(pattern)))) => {
                Some(library::pattern(pattern)?)
            }
            _ => None,
        };
        let appends_to = match nodes.as_slice() {
            [Node::Local(slot), Node::List(_)]
                if function.name == operator::ADD && self.locals[*slot] == macros::ACCUMULATOR =>
            {
                Some(*slot)
            }
            _ => None,
        };
        let converts_constant =
            library::is_type_conversion(function.name) && matches!(nodes.as_slice(), [Node::Const(_)]);
        let call = Call { function, overload, args: nodes, pattern, appends_to };
        computed(Node::Call(Box::new(call)), converts_constant)
    }

    fn fold(&mut self, fold: &Comprehension) -> Result<Node, String> {
        let range = self.plan(&fold.range)?;
        let init = self.plan(&fold.init)?;
        let outside = self.locals.len();
        self.locals.push(fold.accumulator.clone());
        self.locals.push(fold.variable.clone());
        self.locals.extend(fold.second_variable.clone());
        let condition = self.plan(&fold.condition)?;
        let step = self.plan(&fold.step)?;
        self.locals.truncate(outside + 1);
        let result = self.plan(&fold.result)?;
        self.locals.truncate(outside);
        let two_variables = fold.second_variable.is_some();
        Ok(Node::Fold(Box::new(Fold { range, init, condition, step, result, two_variables })))
    }
}

fn is_primitive(value: &Val<'_>) -> bool {
    matches!(value, Val::Bool(_) | Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::String(_))
}

/// The value of a node that depends on nothing, or the node.
fn computed(node: Node, is_constant: bool) -> Result<Node, String> {
    if !is_constant {
        return Ok(node);
    }
    let value = evaluate(&node, &Activation::new(), &mut Budget::new(u64::MAX));
    value.map(Node::Const).map_err(|error| error.to_string())
}

fn constant(literal: &Literal) -> Val<'static> {
    match literal {
        Literal::Null => Val::Null,
        Literal::Bool(value) => Val::Bool(*value),
        Literal::Int(value) => Val::Int(*value),
        Literal::Uint(value) => Val::Uint(*value),
        Literal::Double(value) => Val::Double(*value),
        Literal::String(text) => Val::String(Str::Shared(text.as_str().into())),
        Literal::Bytes(bytes) => Val::Bytes(bytes.as_slice().into()),
    }
}
