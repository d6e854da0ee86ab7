//! The tree of an expression.

use std::sync::Arc;

use crate::Pattern;

/// A constant.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    /// 2^63, which is an integer only behind a minus sign.
    IntBelowZero,
    Uint(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
}

/// A part of an expression.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// Where it begins in the source, in bytes.
    pub(crate) at: usize,
    pub(crate) kind: NodeKind,
    /// How many nodes are nested here, this one included.
    pub(crate) depth: usize,
}

impl Node {
    /// Creates a node.
    pub(crate) fn new(at: usize, kind: NodeKind) -> Self {
        let depth = 1 + kind.parts().map(|part| part.depth).max().unwrap_or(0);
        Self { at, kind, depth }
    }
}

/// The kind of a part of an expression.
#[derive(Debug, Clone)]
pub(crate) enum NodeKind {
    Literal(Literal),
    Name(String),
    /// `variables.name`. After the check, the index of a definition is in its place.
    Defined(usize),
    /// `of.field`, or `of.?field`.
    Select {
        of: Box<Node>,
        field: String,
        optional: bool,
    },
    /// `has(of.field)`.
    Has {
        of: Box<Node>,
        field: String,
    },
    /// `of[index]`, or `of[?index]`.
    Index {
        of: Box<Node>,
        index: Box<Node>,
        optional: bool,
    },
    /// A call of a function. After the check, `known` is the index of the function, and one of a library, such as `sets.contains`,
    /// has no target.
    Call {
        function: String,
        target: Option<Box<Node>>,
        arguments: Vec<Node>,
        known: Option<usize>,
        /// The pattern of a search, if it is a constant.
        pattern: Option<Arc<Pattern>>,
    },
    Not(Box<Node>),
    Negative(Box<Node>),
    Binary {
        operator: Operator,
        left: Box<Node>,
        right: Box<Node>,
    },
    Conditional {
        condition: Box<Node>,
        then: Box<Node>,
        otherwise: Box<Node>,
    },
    List(Vec<Entry>),
    /// Keys and values.
    Map(Vec<(Node, Entry)>),
    /// `Name{field: value}`.
    Message {
        name: Arc<str>,
        fields: Vec<MessageField>,
    },
    Fold(Box<Fold>),
    /// `of.optMap(name, body)`; `of.optFlatMap(name, body)` is flat.
    OptionalMap {
        of: Box<Node>,
        name: String,
        body: Box<Node>,
        is_flat: bool,
    },
}

impl NodeKind {
    /// Returns the nodes directly below.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Node> {
        let (mut some, mut many, mut entries): (Vec<&Node>, &[Node], &[Entry]) = (Vec::new(), &[], &[]);
        match self {
            Self::Literal(_) | Self::Name(_) | Self::Defined(_) => {}
            Self::Select { of, .. } | Self::Has { of, .. } | Self::Not(of) | Self::Negative(of) => some.push(of),
            Self::Index { of, index, .. } => some.extend([&**of, index]),
            Self::Call { target, arguments, .. } => {
                some.extend(target.as_deref());
                many = arguments;
            }
            Self::Binary { left, right, .. } => some.extend([&**left, right]),
            Self::Conditional { condition, then, otherwise } => some.extend([&**condition, then, otherwise]),
            Self::List(list) => entries = list,
            Self::Map(map) => some.extend(map.iter().flat_map(|(key, entry)| [key, &entry.value])),
            Self::Message { fields, .. } => some.extend(fields.iter().map(|field| &field.entry.value)),
            Self::Fold(fold) => {
                some.push(&fold.range);
                some.extend(fold.condition.iter().chain(&fold.result));
            }
            Self::OptionalMap { of, body, .. } => some.extend([&**of, body]),
        }
        some.into_iter().chain(many).chain(entries.iter().map(|entry| &entry.value))
    }
}

/// A value in a list or a map; an optional one, `?value`, can be absent.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) value: Node,
    pub(crate) optional: bool,
}

/// A field of a message.
#[derive(Debug, Clone)]
pub(crate) struct MessageField {
    /// Where the colon behind its name is.
    pub(crate) at: usize,
    pub(crate) name: Arc<str>,
    pub(crate) entry: Entry,
}

/// An operator with two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl Operator {
    /// The name of the function that the operator calls, as messages of Kubernetes have it.
    pub(crate) fn function(self) -> &'static str {
        match self {
            Self::Or => "_||_",
            Self::And => "_&&_",
            Self::Equal => "_==_",
            Self::NotEqual => "_!=_",
            Self::Less => "_<_",
            Self::LessOrEqual => "_<=_",
            Self::Greater => "_>_",
            Self::GreaterOrEqual => "_>=_",
            Self::In => "@in",
            Self::Add => "_+_",
            Self::Subtract => "_-_",
            Self::Multiply => "_*_",
            Self::Divide => "_/_",
            Self::Modulo => "_%_",
        }
    }
}

/// A macro that goes through a list or a map.
#[derive(Debug, Clone)]
pub(crate) struct Fold {
    pub(crate) kind: FoldKind,
    pub(crate) range: Node,
    /// The name of the item, or of the key of a map.
    pub(crate) first: String,
    /// With two names, the first is the index or the key, and the second the value.
    pub(crate) second: Option<String>,
    /// Which items count; none for all of them.
    pub(crate) condition: Option<Node>,
    /// The result for an item; none where items are only counted or kept.
    pub(crate) result: Option<Node>,
}

/// The kind of a fold, by its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FoldKind {
    All,
    Exists,
    ExistsOne,
    /// A list of results.
    List,
    /// A list of the items themselves.
    Filter,
    /// A list of the items themselves, in the order of their results.
    SortBy,
    /// A map with the same keys.
    Map,
    /// A map of the entries of all results, each of which is a map with one entry.
    MapEntries,
}
