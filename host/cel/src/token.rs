//! Splits the text of an expression into tokens.

use crate::{CompileError, syntax::Literal};

/// A token, and where it begins.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Token {
    pub(crate) at: usize,
    pub(crate) kind: TokenKind,
}

/// The kind of a token.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TokenKind {
    /// A name, `true`, `false`, `null` and `in` included.
    Name(String),
    /// A name between backquotes, which only a field can have.
    QuotedName(String),
    Literal(Literal),
    /// An operator or a bracket.
    Symbol(&'static str),
    End,
}

/// The symbols, longer ones before their beginnings.
const SYMBOLS: [&str; 26] = [
    "&&", "||", "==", "!=", "<=", ">=", "[?", ".?", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",", "(",
    ")", "[", "]", "{", "}",
];

/// Returns the tokens of an expression; the last one is the end.
pub(crate) fn tokens(source: &str) -> Result<Vec<Token>, CompileError> {
    let mut lexer = Lexer { source, at: 0 };
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next()?;
        let is_end = token.kind == TokenKind::End;
        tokens.push(token);
        if is_end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn next(&mut self) -> Result<Token, CompileError> {
        self.skip_space();
        let at = self.at;
        let kind = self.kind()?;
        Ok(Token { at, kind })
    }

    fn skip_space(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with("//") {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    fn kind(&mut self) -> Result<TokenKind, CompileError> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(TokenKind::End) };
        if let Some(prefix) = text_prefix(rest) {
            return self.text(prefix).map(TokenKind::Literal);
        }
        if first.is_ascii_digit() || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())) {
            return self.number().map(TokenKind::Literal);
        }
        if first == '_' || first.is_ascii_alphabetic() {
            let end = rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            self.at += end;
            return Ok(TokenKind::Name(rest[..end].to_owned()));
        }
        if let Some(quoted) = rest.strip_prefix('`') {
            let end = quoted.find('`').ok_or_else(|| self.error("a name between backquotes has no end"))?;
            let name = &quoted[..end];
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ');
            if name.is_empty() || !name.chars().all(is_plain) {
                return Err(self.error("a name between backquotes has letters, digits and `_.-/` only"));
            }
            self.at += end + 2;
            return Ok(TokenKind::QuotedName(name.to_owned()));
        }
        match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            Some(symbol) => {
                self.at += symbol.len();
                Ok(TokenKind::Symbol(symbol))
            }
            None => Err(self.error(&format!("token recognition error at: {first:?}"))),
        }
    }

    fn error(&self, reason: &str) -> CompileError {
        CompileError::at(self.source, self.at, &format!("Syntax error: {reason}"))
    }

    fn number(&mut self) -> Result<Literal, CompileError> {
        let rest = self.rest();
        if let Some(digits) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
            let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
            return self.integer(&digits[..end], 16, 2 + end);
        }
        let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let mut end = digits(rest);
        let mut is_double = false;
        if rest[end..].starts_with('.') && rest[end + 1..].starts_with(|c: char| c.is_ascii_digit()) {
            is_double = true;
            end += 1 + digits(&rest[end + 1..]);
        }
        if rest[end..].starts_with(['e', 'E']) {
            let sign = usize::from(rest[end + 1..].starts_with(['+', '-']));
            let exponent = digits(&rest[end + 1 + sign..]);
            if exponent > 0 {
                is_double = true;
                end += 1 + sign + exponent;
            }
        }
        if !is_double {
            return self.integer(&rest[..end], 10, end);
        }
        let number = rest[..end].parse().map_err(|_| self.error("invalid double literal"))?;
        self.at += end;
        Ok(Literal::Double(number))
    }

    /// Reads an integer whose digits end `end` bytes from here. An `u` behind them makes it unsigned.
    fn integer(&mut self, digits: &str, radix: u32, end: usize) -> Result<Literal, CompileError> {
        if self.rest()[end..].starts_with(['u', 'U']) {
            let number = u64::from_str_radix(digits, radix).map_err(|_| self.error("invalid uint literal"))?;
            self.at += end + 1;
            return Ok(Literal::Uint(number));
        }
        // One more than the largest integer, because a minus sign can precede it.
        let number = u64::from_str_radix(digits, radix).ok().filter(|number| *number <= 1 << 63);
        let number = number.ok_or_else(|| self.error("invalid int literal"))?;
        self.at += end;
        Ok(match i64::try_from(number) {
            Ok(number) => Literal::Int(number),
            Err(_) => Literal::IntBelowZero,
        })
    }

    fn text(&mut self, prefix: TextPrefix) -> Result<Literal, CompileError> {
        let start = self.at + prefix.bytes;
        let body = &self.source[start..];
        let mut text = Vec::new();
        let mut at = 0;
        loop {
            let rest = &body[at..];
            if rest.starts_with(prefix.quote) {
                self.at = start + at + prefix.quote.len();
                break;
            }
            let Some(next) = rest.chars().next() else { return Err(self.error("a string has no end")) };
            if prefix.quote.len() == 1 && matches!(next, '\n' | '\r') {
                return Err(self.error("a string has no end in its line"));
            }
            if next == '\\' && !prefix.is_raw {
                at += self.escape(rest, prefix.is_bytes, &mut text)?;
            } else {
                text.extend_from_slice(&rest.as_bytes()[..next.len_utf8()]);
                at += next.len_utf8();
            }
        }
        if prefix.is_bytes {
            return Ok(Literal::Bytes(text));
        }
        String::from_utf8(text).map(Literal::Text).map_err(|_| self.error("a string is not valid UTF-8"))
    }

    /// Reads the escape at the start of `rest`, and returns its length.
    fn escape(&self, rest: &str, is_bytes: bool, text: &mut Vec<u8>) -> Result<usize, CompileError> {
        let wrong = || self.error("a string has an unknown escape");
        let letter = rest[1..].chars().next().ok_or_else(wrong)?;
        let plain = match letter {
            'a' => Some(7),
            'b' => Some(8),
            'f' => Some(12),
            'n' => Some(b'\n'),
            'r' => Some(b'\r'),
            't' => Some(b'\t'),
            'v' => Some(11),
            '\\' | '?' | '"' | '\'' | '`' => u8::try_from(letter).ok(),
            _ => None,
        };
        if let Some(byte) = plain {
            text.push(byte);
            return Ok(2);
        }
        let (digits, radix, start) = match letter {
            'x' | 'X' => (2, 16, 2),
            'u' => (4, 16, 2),
            'U' => (8, 16, 2),
            '0'..='3' => (3, 8, 1),
            _ => return Err(wrong()),
        };
        let number = rest.get(start..start + digits).ok_or_else(wrong)?;
        let number = u32::from_str_radix(number, radix).map_err(|_| wrong())?;
        match u8::try_from(number) {
            Ok(byte) if is_bytes && digits < 4 => text.push(byte),
            _ => {
                let character = char::from_u32(number).ok_or_else(wrong)?;
                text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        Ok(start + digits)
    }
}

/// The beginning of a string or of bytes.
struct TextPrefix {
    quote: &'static str,
    is_raw: bool,
    is_bytes: bool,
    bytes: usize,
}

fn text_prefix(rest: &str) -> Option<TextPrefix> {
    let letters = rest.bytes().take(3).position(|byte| matches!(byte, b'"' | b'\''))?;
    let (is_raw, is_bytes) = match &rest[..letters] {
        "" => (false, false),
        "r" | "R" => (true, false),
        "b" | "B" => (false, true),
        "rb" | "rB" | "Rb" | "RB" | "br" | "bR" | "Br" | "BR" => (true, true),
        _ => return None,
    };
    let quotes = ["\"\"\"", "'''", "\"", "'"];
    let quote = quotes.into_iter().find(|quote| rest[letters..].starts_with(*quote))?;
    Some(TextPrefix { quote, is_raw, is_bytes, bytes: letters + quote.len() })
}
