//! The syntax tree of an expression, after macros are expanded.
//!
//! Every node has a number; where it stands in the text, its type and what it refers to are kept in
//! tables by that number, so that the tree itself is never changed.

/// The number of a node.
pub(crate) type Id = u32;

/// A node of the tree.
#[derive(Debug, Clone)]
pub(crate) struct Expr {
    pub(crate) id: Id,
    pub(crate) kind: Kind,
}

/// What a node is.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// Stands where the text could not be understood; a problem was reported.
    Error,
    Literal(Literal),
    Ident(String),
    Select {
        operand: Box<Expr>,
        field: String,
        test_only: bool,
    },
    Call {
        target: Option<Box<Expr>>,
        function: String,
        args: Vec<Expr>,
    },
    List(Vec<Element>),
    Map(Vec<Entry>),
    Struct {
        name: String,
        fields: Vec<Field>,
    },
    Comprehension(Box<Comprehension>),
}

/// A constant in the text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
}

/// An item of a list literal.
#[derive(Debug, Clone)]
pub(crate) struct Element {
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// An entry of a map literal.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) id: Id,
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// A field of an object literal.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) id: Id,
    pub(crate) value: Expr,
}

/// A fold over a list or map, which is what the iteration macros become.
#[derive(Debug, Clone)]
pub(crate) struct Comprehension {
    pub(crate) range: Expr,
    pub(crate) variable: String,
    pub(crate) second_variable: Option<String>,
    pub(crate) accumulator: String,
    pub(crate) init: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

impl Expr {
    /// `a.b.c` as one dotted name, if the node is nothing but names.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            Kind::Ident(name) => Some(name.clone()),
            Kind::Select { operand, field, test_only: false } => {
                Some(format!("{}.{field}", operand.qualified_name()?))
            }
            _ => None,
        }
    }
}

/// Operators, as the functions they call.
pub(crate) mod operator {
    pub(crate) const CONDITIONAL: &str = "_?_:_";
    pub(crate) const AND: &str = "_&&_";
    pub(crate) const OR: &str = "_||_";
    pub(crate) const NOT: &str = "!_";
    pub(crate) const NEGATE: &str = "-_";
    pub(crate) const EQUALS: &str = "_==_";
    pub(crate) const NOT_EQUALS: &str = "_!=_";
    pub(crate) const LESS: &str = "_<_";
    pub(crate) const LESS_EQUALS: &str = "_<=_";
    pub(crate) const GREATER: &str = "_>_";
    pub(crate) const GREATER_EQUALS: &str = "_>=_";
    pub(crate) const ADD: &str = "_+_";
    pub(crate) const SUBTRACT: &str = "_-_";
    pub(crate) const MULTIPLY: &str = "_*_";
    pub(crate) const DIVIDE: &str = "_/_";
    pub(crate) const MODULO: &str = "_%_";
    pub(crate) const IN: &str = "@in";
    pub(crate) const INDEX: &str = "_[_]";
    pub(crate) const OPT_INDEX: &str = "_[?_]";
    pub(crate) const OPT_SELECT: &str = "_?._";
    pub(crate) const NOT_STRICTLY_FALSE: &str = "@not_strictly_false";
    pub(crate) const MAP_INSERT: &str = "cel.@mapInsert";
    pub(crate) const SORT_BY_KEYS: &str = "@sortByAssociatedKeys";
}
