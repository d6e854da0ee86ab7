//! Parses an expression.

mod macros;

use crate::CompileError;
use crate::syntax::{Entry, Literal, MessageField, Node, NodeKind, Operator};
use crate::token::{Token, TokenKind, tokens};

/// Longest expression, in bytes.
const SOURCE_BYTES_MAX: usize = 64 << 10;
/// Deepest nesting of brackets. Source: cel-go allows 250 levels of its grammar, which has several for each pair.
const BRACKETS_MAX: usize = 80;
/// Deepest nesting of operations. `&&` and `||` nest only with the logarithm of their number.
const DEPTH_MAX: usize = 250;
/// Words that cannot be names. Source: the specification of CEL.
const RESERVED: [&str; 20] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "null",
    "package",
    "namespace",
    "return",
    "true",
    "var",
    "void",
];

/// Parses an expression. Its names and types are not checked.
///
/// # Errors
/// The first error, with its line and column.
pub(crate) fn parse(source: &str) -> Result<Node, CompileError> {
    if source.len() > SOURCE_BYTES_MAX {
        return Err(CompileError::at(source, 0, &format!("the expression is longer than {SOURCE_BYTES_MAX} bytes")));
    }
    let mut parser = Parser { source, tokens: tokens(source)?, next: 0, depth: 0 };
    let node = parser.conditional()?;
    match parser.peek() {
        TokenKind::End => Ok(node),
        // Without its last token, the expression would be whole.
        _ if parser.is_last() => Err(parser.unexpected_as("extraneous", "<EOF>")),
        _ => Err(parser.unexpected("<EOF>")),
    }
}

/// The tokens that begin an expression, as cel-go names them.
const START: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, \
    IDENTIFIER}";

struct Parser<'a> {
    source: &'a str,
    tokens: Vec<Token>,
    /// Index of the next token.
    next: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> &TokenKind {
        &self.tokens[self.next].kind
    }

    fn at(&self) -> usize {
        self.tokens[self.next].at
    }

    fn advance(&mut self) -> TokenKind {
        let token = self.tokens[self.next].kind.clone();
        if token != TokenKind::End {
            self.next += 1;
        }
        token
    }

    /// Takes a symbol if it is the next token.
    fn take(&mut self, symbol: &str) -> bool {
        let is_next = matches!(self.peek(), TokenKind::Symbol(next) if *next == symbol);
        self.next += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, symbol: &str) -> Result<(), CompileError> {
        if self.take(symbol) { Ok(()) } else { Err(self.unexpected(&format!("'{symbol}'"))) }
    }

    /// Returns whether nothing follows the next token.
    fn is_last(&self) -> bool {
        self.tokens.get(self.next + 1).is_none_or(|after| matches!(after.kind, TokenKind::End))
    }

    fn unexpected(&self, wanted: &str) -> CompileError {
        self.unexpected_as("mismatched", wanted)
    }

    fn unexpected_as(&self, how: &str, wanted: &str) -> CompileError {
        let found = match self.peek() {
            TokenKind::Name(name) => format!("'{name}'"),
            TokenKind::QuotedName(name) => format!("'`{name}`'"),
            TokenKind::Literal(_) => "a literal".to_owned(),
            TokenKind::Symbol(symbol) => format!("'{symbol}'"),
            TokenKind::End => "'<EOF>'".to_owned(),
        };
        self.error_at(self.at(), &format!("Syntax error: {how} input {found} expecting {wanted}"))
    }

    fn error_at(&self, at: usize, reason: &str) -> CompileError {
        CompileError::at(self.source, at, reason)
    }

    fn node(&self, at: usize, kind: NodeKind) -> Result<Node, CompileError> {
        let node = Node::new(at, kind);
        match node.depth {
            ..=DEPTH_MAX => Ok(node),
            _ => Err(self.error_at(at, &format!("the expression is nested deeper than {DEPTH_MAX} levels"))),
        }
    }

    fn conditional(&mut self) -> Result<Node, CompileError> {
        self.depth += 1;
        if self.depth > BRACKETS_MAX {
            return Err(
                self.error_at(self.at(), &format!("the expression is nested deeper than {BRACKETS_MAX} levels"))
            );
        }
        let mut node = self.binary(0)?;
        // As in cel-go, a conditional is where its question mark is.
        let at = self.at();
        if self.take("?") {
            let then = Box::new(self.binary(0)?);
            self.expect(":")?;
            let otherwise = Box::new(self.conditional()?);
            node = self.node(at, NodeKind::Conditional { condition: Box::new(node), then, otherwise })?;
        }
        self.depth -= 1;
        Ok(node)
    }

    /// Parses operators that bind at least as strongly as `least`.
    fn binary(&mut self, least: u8) -> Result<Node, CompileError> {
        let mut left = self.unary()?;
        while let Some((operator, strength)) = self.operator().filter(|(_, strength)| *strength >= least) {
            let at = self.at();
            self.advance();
            let right = self.binary(strength + 1)?;
            if !matches!(operator, Operator::Or | Operator::And) {
                left = self.node(at, NodeKind::Binary { operator, left: Box::new(left), right: Box::new(right) })?;
                continue;
            }
            let mut operands = vec![(at, left), (at, right)];
            while self.operator().is_some_and(|(next, _)| next == operator) {
                let at = self.at();
                self.advance();
                operands.push((at, self.binary(strength + 1)?));
            }
            left = self.balanced(operator, operands)?;
        }
        Ok(left)
    }

    /// Joins operands, which have the place of the operator before them, to a tree that is as flat as possible.
    fn balanced(&self, operator: Operator, mut operands: Vec<(usize, Node)>) -> Result<Node, CompileError> {
        let half = operands.len().div_ceil(2);
        if half == operands.len() {
            return operands.pop().map(|(_, node)| node).ok_or_else(|| self.unexpected(START));
        }
        let right = operands.split_off(half);
        let at = right[0].0;
        let (left, right) = (self.balanced(operator, operands)?, self.balanced(operator, right)?);
        self.node(at, NodeKind::Binary { operator, left: Box::new(left), right: Box::new(right) })
    }

    /// Returns the operator that is the next token, and how strongly it binds.
    fn operator(&self) -> Option<(Operator, u8)> {
        let symbol = match self.peek() {
            TokenKind::Symbol(symbol) => symbol,
            TokenKind::Name(name) if name == "in" => "in",
            _ => return None,
        };
        Some(match symbol {
            "||" => (Operator::Or, 1),
            "&&" => (Operator::And, 2),
            "==" => (Operator::Equal, 3),
            "!=" => (Operator::NotEqual, 3),
            "<" => (Operator::Less, 3),
            "<=" => (Operator::LessOrEqual, 3),
            ">" => (Operator::Greater, 3),
            ">=" => (Operator::GreaterOrEqual, 3),
            "in" => (Operator::In, 3),
            "+" => (Operator::Add, 4),
            "-" => (Operator::Subtract, 4),
            "*" => (Operator::Multiply, 5),
            "/" => (Operator::Divide, 5),
            "%" => (Operator::Modulo, 5),
            _ => return None,
        })
    }

    fn unary(&mut self) -> Result<Node, CompileError> {
        let at = self.at();
        let symbol = ["!", "-"].into_iter().find(|symbol| self.take(symbol));
        let Some(symbol) = symbol else { return self.member() };
        // Signs cancel each other in pairs, so that their number does not nest.
        let mut count = 1;
        while self.take(symbol) {
            count += 1;
        }
        if symbol == "-" && count == 1 {
            let negative = match self.peek() {
                TokenKind::Literal(Literal::Int(number)) => Some(Literal::Int(-number)),
                TokenKind::Literal(Literal::IntBelowZero) => Some(Literal::Int(i64::MIN)),
                TokenKind::Literal(Literal::Double(number)) => Some(Literal::Double(-number)),
                _ => None,
            };
            if let Some(literal) = negative {
                self.advance();
                let literal = self.node(at, NodeKind::Literal(literal))?;
                return self.selectors(literal);
            }
        }
        let node = self.member()?;
        if count % 2 == 0 {
            return Ok(node);
        }
        let of = Box::new(node);
        self.node(at, if symbol == "!" { NodeKind::Not(of) } else { NodeKind::Negative(of) })
    }

    fn member(&mut self) -> Result<Node, CompileError> {
        let node = self.primary()?;
        self.selectors(node)
    }

    /// Parses the fields, indexes and calls behind a value.
    fn selectors(&mut self, mut node: Node) -> Result<Node, CompileError> {
        loop {
            let at = self.at();
            let of = Box::new(node);
            if self.take(".") {
                let (field, is_quoted) = self.field()?;
                // As in cel-go, a call is where its arguments begin.
                let open = self.at();
                if !is_quoted && self.take("(") {
                    let arguments = self.arguments(")")?;
                    node = macros::member(self, open, *of, field, arguments)?;
                } else {
                    node = self.node(at, NodeKind::Select { of, field, optional: false })?;
                }
            } else if self.take(".?") {
                let (field, _) = self.field()?;
                node = self.node(at, NodeKind::Select { of, field, optional: true })?;
            } else if self.take("[") {
                let index = Box::new(self.conditional()?);
                self.expect("]")?;
                node = self.node(at, NodeKind::Index { of, index, optional: false })?;
            } else if self.take("[?") {
                let index = Box::new(self.conditional()?);
                self.expect("]")?;
                node = self.node(at, NodeKind::Index { of, index, optional: true })?;
            } else {
                return Ok(*of);
            }
        }
    }

    /// Parses the name of a field, and returns whether it is quoted.
    fn field(&mut self) -> Result<(String, bool), CompileError> {
        match self.peek() {
            TokenKind::Name(name) if name != "in" => {
                let name = name.clone();
                self.advance();
                Ok((name, false))
            }
            TokenKind::QuotedName(name) => {
                let name = name.clone();
                self.advance();
                Ok((name, true))
            }
            _ => Err(self.unexpected("a field")),
        }
    }

    fn arguments(&mut self, end: &str) -> Result<Vec<Node>, CompileError> {
        let mut arguments = Vec::new();
        while !self.take(end) {
            if !arguments.is_empty() {
                self.expect(",")?;
            }
            arguments.push(self.conditional()?);
        }
        Ok(arguments)
    }

    fn primary(&mut self) -> Result<Node, CompileError> {
        let at = self.at();

        if self.take("(") {
            let inner = self.conditional()?;
            self.expect(")")?;
            return Ok(inner);
        }
        if self.take("[") {
            let entries = self.list(false)?;
            return self.node(at, NodeKind::List(entries));
        }
        if self.take("[?") {
            let entries = self.list(true)?;
            return self.node(at, NodeKind::List(entries));
        }
        if self.take("{") {
            let entries = self.map()?;
            return self.node(at, NodeKind::Map(entries));
        }
        let is_rooted = self.take(".");
        match self.peek().clone() {
            TokenKind::Literal(Literal::IntBelowZero) => Err(self.error_at(at, "invalid int literal")),
            TokenKind::Literal(literal) if !is_rooted => {
                self.advance();
                self.node(at, NodeKind::Literal(literal))
            }
            TokenKind::Name(name) => {
                let literal = match name.as_str() {
                    "true" => Some(Literal::Bool(true)),
                    "false" => Some(Literal::Bool(false)),
                    "null" => Some(Literal::Null),
                    _ => None,
                };
                if let Some(literal) = literal {
                    self.advance();
                    return self.node(at, NodeKind::Literal(literal));
                }
                if RESERVED.contains(&name.as_str()) {
                    return Err(self.error_at(at, &format!("reserved identifier: {name}")));
                }
                self.advance();
                if self.take("(") {
                    let arguments = self.arguments(")")?;
                    return macros::global(self, at, name, arguments);
                }
                if self.begins_message() {
                    return self.message(name);
                }
                self.node(at, NodeKind::Name(name))
            }
            _ => Err(self.unexpected(START)),
        }
    }

    /// Returns whether the next tokens are the rest of the name of a message, and its opening brace.
    fn begins_message(&self) -> bool {
        let mut rest = &self.tokens[self.next..];
        while let [Token { kind: TokenKind::Symbol("."), .. }, Token { kind: TokenKind::Name(_), .. }, further @ ..] =
            rest
        {
            rest = further;
        }
        matches!(rest, [Token { kind: TokenKind::Symbol("{"), .. }, ..])
    }

    /// Parses the rest of a message, whose name begins with `name`.
    fn message(&mut self, mut name: String) -> Result<Node, CompileError> {
        while self.take(".") {
            name.push('.');
            name.push_str(&self.field()?.0);
        }
        // As in cel-go, a message is where its fields begin.
        let at = self.at();
        self.expect("{")?;
        let mut fields = Vec::new();
        while !self.take("}") {
            let optional = self.take("?");
            let (name, _) = self.field()?;
            let at = self.at();
            self.expect(":")?;
            fields.push(MessageField { at, name: name.into(), entry: Entry { value: self.conditional()?, optional } });
            if !self.take(",") {
                self.expect("}")?;
                break;
            }
        }
        self.node(at, NodeKind::Message { name: name.into(), fields })
    }

    /// Parses the rest of a list. `optional` is whether the first entry is.
    fn list(&mut self, mut optional: bool) -> Result<Vec<Entry>, CompileError> {
        let mut entries = Vec::new();
        while optional || !self.take("]") {
            optional |= self.take("?");
            entries.push(Entry { value: self.conditional()?, optional });
            optional = false;
            if !self.take(",") {
                self.expect("]")?;
                break;
            }
        }
        Ok(entries)
    }

    fn map(&mut self) -> Result<Vec<(Node, Entry)>, CompileError> {
        let mut entries = Vec::new();
        while !self.take("}") {
            let optional = self.take("?");
            let key = self.conditional()?;
            self.expect(":")?;
            entries.push((key, Entry { value: self.conditional()?, optional }));
            if !self.take(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(entries)
    }
}
