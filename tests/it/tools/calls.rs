//! A call graph from the text of formatted sources. In these, an item ends with a brace at the indentation of
//! its beginning.

use std::collections::BTreeSet;

/// A function with its attributes and its calls.
pub(super) struct Function {
    /// The path of its file.
    pub(super) place: String,
    pub(super) name: String,
    /// The type of the `impl` around it.
    owner: Option<String>,
    takes_self: bool,
    /// Whether functions of other files can call it.
    is_shared: bool,
    /// Its attributes, the first line of each.
    pub(super) attributes: Vec<String>,
    /// The functions that it calls or passes on by name, in the form of [`Function::called`].
    calls: BTreeSet<String>,
}

impl Function {
    pub(super) fn is_test(&self) -> bool {
        self.attributes.iter().any(|attribute| attribute == "#[test]" || attribute.starts_with("#[tokio::test"))
    }

    /// Returns the form in which calls name it: `.method`, `Type::function` or `function`.
    fn called(&self) -> String {
        match &self.owner {
            Some(_) if self.takes_self => format!(".{}", self.name),
            Some(owner) => format!("{owner}::{}", self.name),
            None => self.name.clone(),
        }
    }
}

/// Returns the functions of a source. Any file may call the methods of a library. Methods of other sources
/// count as called only in their own file: other files get such a value from a function without `self`, which
/// counts.
pub(super) fn functions(place: &str, source: &str, is_library: bool) -> Vec<Function> {
    let text = without_literals(source);
    // Attributes keep their literals.
    let (originals, lines): (Vec<&str>, Vec<&str>) = (source.lines().collect(), text.lines().collect());
    let (mut found, mut attributes, mut owner, mut at) = (Vec::new(), Vec::new(), None, 0);
    while at < lines.len() {
        let (line, first) = (lines[at], at);
        at += 1;
        let trimmed = line.trim_start();
        let indent = &line[..line.len() - trimmed.len()];
        if trimmed.starts_with("#[") {
            attributes.push(originals[first].trim().to_owned());
            if !line.ends_with(']') {
                at += lines[at..].iter().position(|line| line.ends_with(']')).map_or(0, |length| length + 1);
            }
        } else if let Some((before, rest)) = trimmed.split_once("fn ").filter(|(before, _)| is_qualifiers(before)) {
            let end = format!("{indent}}}");
            if !line.ends_with(['}', ';']) {
                at += lines[at..].iter().position(|line| *line == end).map_or(0, |length| length + 1);
            }
            let body = lines[first..at].join("\n");
            let (head, _) = body.split_once('{').unwrap_or((&body, ""));
            let takes_self = head.contains("self,") || head.contains("self)") || head.contains("self\n");
            found.push(Function {
                place: place.to_owned(),
                name: rest.split(|c: char| !is_word(c)).next().unwrap_or_default().to_owned(),
                calls: calls(body.split_once('{').map_or("", |(_, body)| body), owner.as_deref()),
                is_shared: before.starts_with("pub") && (is_library || !takes_self),
                owner: owner.clone(),
                takes_self,
                attributes: std::mem::take(&mut attributes),
            });
        } else if trimmed.contains("suite!(") {
            at += lines[first..].iter().position(|line| line.ends_with(");")).unwrap_or(0);
            found.push(suite(place, &originals[first..at]));
            attributes.clear();
        } else if let Some(rest) = line.strip_prefix("impl") {
            let of = rest.rsplit_once(" for ").or_else(|| rest.split_once(' ')).map_or(rest, |(_, of)| of);
            owner = of.split(|c: char| !is_word(c)).next().map(str::to_owned);
        } else if line == "}" {
            owner = None;
        } else if !trimmed.is_empty() {
            attributes.clear();
        }
    }
    found
}

/// Returns an invocation of the conformance suite as one test. Its tests call the first argument, which makes a
/// store, and have the second one as their attribute.
fn suite(place: &str, lines: &[&str]) -> Function {
    let text: String = lines.iter().map(|line| line.trim()).collect();
    let (_, arguments) = text.split_once("suite!(").unwrap_or_default();
    let arguments = arguments.strip_suffix(");").unwrap_or(arguments);
    let (make, attribute) = arguments.split_once(',').unwrap_or((arguments, ""));
    let attribute = attribute.trim().trim_end_matches(',');
    Function {
        place: place.to_owned(),
        name: format!("suite!({make})"),
        calls: calls(&format!("{make}()"), None),
        is_shared: false,
        owner: None,
        takes_self: false,
        attributes: vec!["#[test]".to_owned(), format!("#[{attribute}]")],
    }
}

/// Returns whether all words of a text may precede `fn`.
fn is_qualifiers(text: &str) -> bool {
    text.split_whitespace().all(|word| ["pub", "pub(crate)", "pub(super)", "async", "const"].contains(&word))
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Returns the functions that a body calls, or passes on by name.
fn calls(body: &str, owner: Option<&str>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut rest = body;
    // The name before `::` and the current word.
    let mut path = None::<&str>;
    while let Some(start) = rest.find(is_word) {
        let gap = &rest[..start];
        let before = gap.chars().last().unwrap_or(' ');
        // Two dots begin the rest of a structure, and not a method.
        let is_method = before == '.' && !gap.ends_with("..");
        path = path.filter(|_| gap == "::");
        let word = &rest[start..];
        let end = word.find(|c: char| !is_word(c)).unwrap_or(word.len());
        let (name, after) = word.split_at(end);
        rest = after;
        let has_types = after.starts_with("::<");
        let is_called = has_types || after.starts_with('(') || (before == '(' && after.starts_with([')', ',']));
        let of = path.map(|of| if of == "Self" { owner.unwrap_or(of) } else { of });
        let of = of.filter(|of| of.starts_with(char::is_uppercase));
        if after.starts_with("::") && !has_types {
            path = Some(name);
        } else if let Some(of) = of {
            found.insert(format!("{of}::{name}"));
        } else if is_called {
            found.insert(if is_method { format!(".{name}") } else { name.to_owned() });
        }
    }
    found
}

/// Returns the indices of the functions that call one of `roots`, directly or through other functions.
pub(super) fn users(functions: &[Function], roots: &[&str]) -> BTreeSet<usize> {
    let root = |function: &Function| roots.contains(&function.name.as_str()) && function.owner.is_none();
    let mut users: BTreeSet<usize> =
        functions.iter().enumerate().filter(|(_, function)| root(function)).map(|(at, _)| at).collect();
    loop {
        let before = users.len();
        let calls_a_user = |function: &Function| {
            users
                .iter()
                .map(|at| &functions[*at])
                .any(|used| (used.is_shared || used.place == function.place) && function.calls.contains(&used.called()))
        };
        let more: Vec<usize> =
            functions.iter().enumerate().filter(|(_, function)| calls_a_user(function)).map(|(at, _)| at).collect();
        users.extend(more);
        if users.len() == before {
            return users;
        }
    }
}

/// Returns a source without its comments and literals, with the same line breaks.
fn without_literals(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(character) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(hashes) = raw(rest) {
            let end = format!("\"{}", "#".repeat(hashes));
            let begin = hashes + 2;
            rest[begin..].find(&end).map_or(rest.len(), |length| begin + length + end.len())
        } else if character == '"' {
            1 + quoted(&rest[1..], '"')
        } else if rest.starts_with("'\\") || rest.chars().nth(2) == Some('\'') && character == '\'' {
            1 + quoted(&rest[1..], '\'')
        } else {
            text.push(character);
            rest = &rest[character.len_utf8()..];
            continue;
        };
        text.extend(rest[..skipped].chars().filter(|character| *character == '\n'));
        rest = &rest[skipped..];
    }
    text
}

/// Returns the number of `#` if a raw string begins here.
fn raw(text: &str) -> Option<usize> {
    let after = text.strip_prefix('r')?;
    let opened = after.trim_start_matches('#');
    opened.starts_with('"').then_some(after.len() - opened.len())
}

/// Returns the length of the text after an opening quote, up to and with the closing one.
fn quoted(text: &str, end: char) -> usize {
    let mut is_escaped = false;
    for (at, character) in text.char_indices() {
        if character == end && !is_escaped {
            return at + 1;
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    text.len()
}
