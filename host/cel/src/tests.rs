//! Tests of expressions, with the answers of Kubernetes 1.36.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::*;

/// The type of a document for tests.
fn spec() -> Type {
    let field = |name: &str, value: Type| (name.to_owned(), Field { name: name.to_owned(), value });
    let part = Type::Object(Arc::new(ObjectType {
        fields: BTreeMap::from([field("name", Type::Text(40)), field("weight", Type::Int)]),
    }));
    let keyed = Type::List(Arc::new(ListType {
        item: part.clone(),
        identity: ItemIdentity::Fields(vec!["name".to_owned()]),
        count_max: 10,
    }));
    let set = Type::List(Arc::new(ListType { item: Type::Text(40), identity: ItemIdentity::Value, count_max: 10 }));
    let mut fields = BTreeMap::from([
        field("replicas", Type::Int),
        field("ratio", Type::Double),
        field("name", Type::Text(40)),
        field("ready", Type::Bool),
        field("size", Type::Dyn),
        field("at", Type::Timestamp),
        field("wait", Type::Duration),
        field("data", Type::Bytes(40)),
        field("hosts", Type::list(Type::Text(40), 100)),
        field("parts", Type::list(part, 100)),
        field("keyed", keyed),
        field("set", set),
        field("labels", Type::map(Type::Text(40), Type::Text(40), 100)),
        field("long", Type::list(Type::Text(u64::MAX), 1_000_000)),
    ]);
    fields.insert("__namespace__".to_owned(), Field { name: "namespace".to_owned(), value: Type::Text(40) });
    Type::Object(Arc::new(ObjectType { fields }))
}

fn document() -> Json {
    json!({
        "replicas": 3, "ratio": 0.5, "name": "web", "ready": true, "size": "50%", "at": "2024-02-29T12:30:00Z",
        "wait": "1h30m", "data": "aGVsbG8=", "hosts": ["b.example", "a.example"],
        "parts": [{"name": "x", "weight": 1}, {"name": "y", "weight": 2}],
        "keyed": [{"name": "x", "weight": 1}], "set": ["a", "b"], "labels": {"app": "web", "a/b": "c"},
        "namespace": "default",
    })
}

fn compiled(source: &str) -> Expression {
    Expression::compile(source, &[("self", spec())]).unwrap_or_else(|error| panic!("{source}: {error}"))
}

fn evaluated(source: &str, units: u64) -> Result<Output, EvaluationError> {
    let (document, of_type) = (document(), spec());
    let variables = [("self", Variable::Document(&document, &of_type))];
    compiled(source).evaluate(&variables, &mut Budget::new(units))
}

#[track_caller]
fn holds(sources: &[&str]) {
    for source in sources {
        assert_eq!(evaluated(source, 1_000_000), Ok(Output::Bool(true)), "{source}");
    }
}

#[track_caller]
fn fails(source: &str, reason: &str) {
    let error = evaluated(source, 1_000_000).expect_err("the evaluation fails");
    assert_eq!(error.to_string(), reason, "{source}");
}

#[track_caller]
fn refused(source: &str, reason: &str) {
    let error = Expression::compile(source, &[("self", spec())]).expect_err(source);
    assert!(error.to_string().contains(reason), "{source}: {error}");
}

#[test]
fn operators_have_the_precedence_of_cel() {
    holds(&[
        "1 + 2 * 3 == 7",
        "(1 + 2) * 3 == 9",
        "-2 - -3 == 1",
        "!false && true || false",
        "true ? 1 == 1 : false",
        "7 / 2 == 3 && -7 / 2 == -3 && 7 % 3 == 1 && -7 % 3 == -1",
        "1 in [1, 2] && !(3 in [1, 2])",
        "'a' in {'a': 1}",
        "10u > 9u && 1 < 2.5 && 2.5 > 1u",
        "0x10 == 16 && 1e3 == 1000.0 && .5 == 0.5",
        "-9223372036854775808 < 0",
        "r'\\d' == '\\\\d' && \"\\u00e4\" == 'ä' && b'\\xff'.size() == 1",
        "'''a\nb''' == 'a\\nb'",
        "'a' + 'b' == 'ab' && [1] + [2] == [1, 2]",
        "1 == 1 // a comment",
    ]);
}

#[test]
fn documents_are_read_by_their_types() {
    holds(&[
        "self.replicas == 3 && self.ratio < 1.0",
        "self.__namespace__ == 'default'",
        "self.labels['a/b'] == 'c' && self.labels.app == 'web'",
        "has(self.name) && !has(self.long) && has(self.labels.app) && !has(self.labels.no)",
        "type(self.size) == string && type(self.replicas) == int",
        "self.size.endsWith('%') && int(self.size.replace('%', '')) == 50",
        "self.at > timestamp('2024-01-01T00:00:00Z') && self.at.getMonth() == 1 && self.at.getDate() == 29",
        "self.at.getHours('Europe/Berlin') == 13 && self.at.getDayOfWeek() == 4 && self.at.getHours('+02:00') == 14",
        "self.wait == duration('90m') && self.wait.getMinutes() == 90 && string(self.wait) == '5400s'",
        "self.data == b'hello' && size(self.data) == 5",
        "self.parts[1].weight == 2",
        "self == self",
    ]);
    fails("self.long.size() == 1", "no such key: long");
    fails("self.parts[2].weight == 1", "index out of bounds: 2");
    fails("self.labels['no'] == ''", "no such key: no");
    fails("1 / (self.replicas - 3) == 0", "division by zero");
    fails("9223372036854775807 + self.replicas > 0", "integer overflow");
    fails("self.size > 5", "no such overload");
}

#[test]
fn macros_go_through_lists_and_maps() {
    holds(&[
        "self.hosts.all(h, h.endsWith('.example'))",
        "self.hosts.exists(h, h.startsWith('a'))",
        "self.parts.exists_one(p, p.weight == 2) && self.labels.existsOne(k, v, v == 'web')",
        "self.parts.map(p, p.weight) == [1, 2]",
        "self.parts.map(p, p.weight > 1, p.name) == ['y']",
        "self.parts.filter(p, p.name == 'x').size() == 1",
        "self.labels.all(k, k.size() > 0)",
        "self.hosts.all(i, h, i < 2 && h != '')",
        "self.labels.exists(k, v, k == 'app' && v == 'web')",
        "self.hosts.transformList(i, h, string(i) + h)[0] == '0b.example'",
        "self.labels.transformMap(k, v, v + '!')['app'] == 'web!'",
        "self.hosts.transformMapEntry(i, h, {h: i})['a.example'] == 1",
        "self.parts.sortBy(p, -p.weight)[0].name == 'y'",
        "[1, 0].exists(x, 4 / x == 4)",
        "[0, 2].exists(x, 4 / x == 2) && ![0, 1].all(x, 4 / x == 2)",
    ]);
    fails("[0, 2].all(x, 4 / x == 2)", "division by zero");
}

#[test]
fn an_error_does_not_matter_if_the_other_side_decides() {
    holds(&["1 / 0 == 1 || true", "!(1 / 0 == 1 && false)", "true || 1 / 0 == 1"]);
    fails("1 / 0 == 1 || false", "division by zero");
}

#[test]
fn lists_with_identities_have_no_order() {
    holds(&[
        "self.set == self.set && self.set + ['b', 'c'] == ['a', 'b', 'c']",
        "(self.keyed + [self.keyed[0]]).size() == 1",
    ]);
}

#[test]
fn optional_values_are_chained() {
    holds(&[
        "!self.?long.hasValue() && self.?name.value() == 'web'",
        "self.?name.orValue('no') == 'web' && self.labels[?'no'].orValue('x') == 'x'",
        "self.?name.optMap(n, n + '!').orValue('') == 'web!'",
        "self.?long.optFlatMap(l, l[?0]).orValue('none') == 'none'",
        "optional.of(1).or(optional.of(2)).value() == 1 && optional.none().orValue(3) == 3",
        "[?self.?name, 'x'] == ['web', 'x'] && {?'a': optional.none()}.size() == 0",
        "self.hosts[?5].hasValue() == false && self.hosts.first().value() == 'b.example'",
        "optional.ofNonZeroValue('') == optional.none() && [optional.of(1), optional.none()].unwrapOpt() == [1]",
    ]);
    fails("self.?long.value().size() == 1", "optional.none() dereference");
}

#[test]
fn functions_of_texts_answer_as_in_kubernetes() {
    holds(&[
        "'äb'.size() == 2 && 'tacocat'.indexOf('c') == 2 && 'tacocat'.lastIndexOf('c') == 4",
        "'hello'.charAt(4) == 'o' && 'hello'.charAt(5) == '' && 'hello'.substring(1, 3) == 'el'",
        "'a,b'.split(',') == ['a', 'b'] && 'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'ab'.split('') == ['a', 'b']",
        "['a', 'b'].join('-') == 'a-b' && ' x '.trim() == 'x' && 'Ab'.lowerAscii() == 'ab'",
        "'aaa'.replace('a', 'b', 2) == 'bba' && '%d-%s-%.2f'.format([1, 'x', 2.5]) == '1-x-2.50'",
        "'%s %x'.format([[1, 2], 255]) == '[1, 2] ff'",
        "strings.quote('a\"b') == '\"a\\\\\"b\"'",
        "'abc 123'.matches('[0-9]+') && 'abc 123'.find('[0-9]+') == '123' && 'a1b2'.findAll('[0-9]') == ['1', '2']",
        "[3, 1].min() == 1 && [1, 2].sum() == 3 && [1, 2].isSorted() && ['a', 'b'].indexOf('b') == 1",
        "[1, 2, 2].distinct() == [1, 2] && [2, 1].sort() == [1, 2] && [[1], [2]].flatten() == [1, 2]",
        "[1, 2, 3].slice(1, 2) == [2] && lists.range(3) == [0, 1, 2] && [1, 2].reverse() == [2, 1]",
        "sets.contains([1, 2], [1]) && sets.equivalent([1, 2], [2, 1, 1]) && !sets.intersects([1], [2])",
        "int('5') == 5 && double('0.5') == 0.5 && string(1.0) == '1' && bool('true') && uint(3) == 3u",
    ]);
}

#[test]
fn libraries_of_kubernetes_answer_as_there() {
    holds(&[
        "url('https://user@example.com:80/a%20b?x=1&x=2').getHost() == 'example.com:80'",
        "url('https://example.com:80/p').getHostname() == 'example.com' && url('https://e.com/p').getPort() == ''",
        "url('/p?x=1').getQuery() == {'x': ['1']} && isURL('https://x') && !isURL('x y') && !isURL('../x')",
        "isIP('1.2.3.4') && !isIP('1.2.3') && ip('::1').family() == 6 && ip.isCanonical('::1')",
        "ip('127.0.0.1').isLoopback() && cidr('10.0.0.0/8').containsIP('10.1.2.3') && !isCIDR('10.0.0.0/33')",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && cidr('10.1.0.0/8').masked() == cidr('10.0.0.0/8')",
        "quantity('1Gi').isGreaterThan(quantity('500Mi')) && quantity('2k').add(1000).asInteger() == 3000",
        "isQuantity('1Gi') && !isQuantity('1 Gi') && quantity('1k') == quantity('1000')",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && !isSemver('1.2') && isSemver('v1.2', true)",
        "semver('1.2.3-rc.1').compareTo(semver('1.2.3')) == -1 && semver('1.2.3').minor() == 2",
        "!format.dns1123Label().validate('web').hasValue() && format.dns1123Label().validate('Web').hasValue()",
        "format.named('labelValue').value().validate('') == optional.none() && !format.named('no').hasValue()",
    ]);
}

#[test]
fn names_and_types_are_checked_at_compilation() {
    refused("self.nmae == 'x'", "ERROR: <input>:1:5: undefined field 'nmae'\n | self.nmae == 'x'\n | ....^");
    refused("nobody == 1", "undeclared reference to 'nobody' (in container '')");
    refused("self.name.shout()", "undeclared reference to 'shout'");
    refused("self.name == 1", "found no matching overload for '_==_' applied to '(string, int)'");
    refused("self.replicas + 'x'", "found no matching overload for '_+_' applied to '(int, string)'");
    refused("self.name.startsWith(1)", "found no matching overload for 'startsWith' applied to 'string.(int)'");
    refused("self.hosts.all(h, h.size())", "expected type 'bool' but found 'int'");
    refused("[1, 'a'].size() == 2", "expected type 'int' but found 'string'");
    refused("self.replicas.all(x, true)", "cannot be range of a comprehension");
    refused("self.name.matches('(')", "is not a regular expression");
    refused("int('x') == 1", "program instantiation failed: type conversion error");
    refused("timestamp('never') == self.at", "program instantiation failed: invalid timestamp");
    refused("'%d'.format(['x']) == ''", "decimal clause can only be used on integers");
    refused("'%s %s'.format(['x']) == ''", "index 1 out of range");
    refused("1 +", "<input>:1:4: Syntax error: mismatched input '<EOF>' expecting {'[', '{'");
    refused("1 1", "<input>:1:3: Syntax error: extraneous input a literal expecting <EOF>");
    refused("self.hosts.all(h.x, true)", "argument must be a simple name");
    refused("has(self)", "invalid argument to has() macro");
    refused("'x", "a string has no end");
    refused("Foo{a: 1} == null", "undeclared reference to 'Foo'");
    refused("for == 1", "reserved identifier: for");
    refused(&"(".repeat(100), "nested deeper than 80 levels");
    refused(&format!("1 == {}1", "1+".repeat(40_000)), "longer than 65536 bytes");
}

#[test]
fn long_chains_of_operators_do_not_overflow_the_stack() {
    refused(&format!("0 < {}1", "1 + ".repeat(300)), "nested deeper than 250 levels");
    let source = format!("0 < {}1 && ({}false)", "1 + ".repeat(240), "true && self.ready || ".repeat(2_000));
    let work = move || evaluated(&source, 1_000_000);
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(work).expect("a thread starts");
    assert_eq!(thread.join().expect("the stack suffices"), Ok(Output::Bool(true)));
}

#[test]
fn nested_formats_are_checked_once() {
    let source = format!("{}1{} == ''", "'%s'.format([".repeat(38), "])".repeat(38));
    assert!(compiled(&source).cost_max() > 0);
}

#[test]
fn large_maps_are_found_by_their_keys() {
    let source = "lists.range(20000).transformMap(i, v, v) == lists.range(20000).transformMap(i, v, v)";
    assert_eq!(evaluated(source, 1_000_000), Ok(Output::Bool(true)));
    holds(&["{1: 'a'}[dyn(1u)] == 'a' && {1: 'a'}[dyn(1.0)] == 'a' && {'a': 1, 'a': 2}['a'] == 2 && 1 in {1: 2}"]);
    fails("{self.at: 1}.size() == 1", "unsupported key type: google.protobuf.Timestamp");
}

#[test]
fn a_variable_hides_a_library_of_its_name() {
    holds(&["['1.2.3.4'].all(ip, ip.size() == 7)", "self.hosts.all(format, format.endsWith('e'))"]);
}

#[test]
fn an_evaluation_ends_when_its_budget_is_used_up() {
    let source = "lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, a + b + c >= 0)))";
    assert_eq!(evaluated(source, 100_000), Err(EvaluationError::Exhausted));
    // Calls that make much from little pay for it.
    for source in [
        "self.hosts.all(h, lists.range(90000).size() > 0) && lists.range(20000).size() > 0",
        "lists.range(1000).all(a, 'aaaaaaaaaa'.replace('a', self.name + 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb').size() > 0)",
    ] {
        assert_eq!(evaluated(source, 20_000), Err(EvaluationError::Exhausted), "{source}");
    }
    // A pattern that is no constant is compiled each time.
    let search = "lists.range(1000).all(a, self.hosts.all(h, !h.matches('[a-z]' + self.name)))";
    assert_eq!(evaluated(search, 100_000), Err(EvaluationError::Exhausted));
    assert_eq!(evaluated("'webs'.matches('[a-z]eb' + 's') && !'w'.matches(self.name)", 10_000), Ok(Output::Bool(true)));
    // No operator takes an exhausted side for an error that does not matter.
    assert_eq!(evaluated(&format!("{source} || true"), 100_000), Err(EvaluationError::Exhausted));
    assert_eq!(evaluated(&format!("[1].exists(x, {source} || true)"), 100_000), Err(EvaluationError::Exhausted));
}

#[test]
fn the_largest_cost_grows_with_the_declared_sizes() {
    assert!(compiled("self.replicas > 0").cost_max() < 10);
    let bounded = compiled("self.hosts.all(h, h != self.name)").cost_max();
    assert!((500..5_000).contains(&bounded), "{bounded}");
    let unbounded = compiled("self.long.all(a, self.long.all(b, a == b))").cost_max();
    assert_eq!(unbounded, u64::MAX);
}

#[test]
fn the_cost_of_an_evaluation_is_within_its_largest_cost() {
    let (document, of_type) = (document(), spec());
    let sources = [
        "self.hosts.all(h, h.size() < 20 && h != self.name)",
        "self.parts.map(p, p.weight).sum() == 3",
        "self.hosts.exists(h, h.matches('^a.*$'))",
        "self.parts.filter(p, p.weight > 1).size() == 1 && self.name.contains('e')",
    ];
    for source in sources {
        let expression = compiled(source);
        let mut budget = Budget::new(1_000_000);
        let variables = [("self", Variable::Document(&document, &of_type))];
        assert_eq!(expression.evaluate(&variables, &mut budget), Ok(Output::Bool(true)), "{source}");
        let cost = 1_000_000 - budget.left();
        assert!(cost > 0 && cost <= expression.cost_max(), "{source}: {cost} of {}", expression.cost_max());
    }
}

#[test]
fn names_of_fields_are_escaped_as_in_kubernetes() {
    let cases = [
        ("namespace", Some("__namespace__")),
        ("foo-bar", Some("foo__dash__bar")),
        ("a.b/c", Some("a__dot__b__slash__c")),
        ("my__field", Some("my__underscores__field")),
        ("9lives", None),
        ("a b", None),
    ];
    for (name, expected) in cases {
        assert_eq!(escaped(name).as_deref(), expected, "{name}");
    }
}

#[test]
fn every_variable_that_an_expression_uses_is_known() {
    let variables = [("self", spec()), ("oldSelf", spec())];
    let expression = Expression::compile("self.hosts.all(h, h in oldSelf.hosts)", &variables).expect("well formed");
    assert!(expression.uses("oldSelf") && expression.uses("self") && !expression.uses("h2"));
    assert!(!compiled("self.replicas > 1").uses("oldSelf"));
}

#[test]
fn definitions_are_evaluated_once_where_they_are_used() {
    let object = json!({ "spec": { "replicas": 3, "items": [1, 2] } });
    let variables = [("object", Type::Dyn)];
    let mut definitions = Definitions::default();
    definitions.define("replicas", "object.spec.replicas", &variables).unwrap();
    definitions.define("double", "variables.replicas * 2", &variables).unwrap();
    definitions.define("fails", "object.none", &variables).unwrap();
    let unknown = definitions.define("late", "variables.later", &variables).unwrap_err();
    assert_eq!(unknown.reason, "undefined field 'later'");
    let run = |source: &str, units: u64| {
        let expression = Expression::compile_with(source, &variables, &definitions).unwrap();
        let values = [("object", Variable::Document(&object, &Type::Dyn))];
        expression.evaluate_with(&values, &definitions, &mut Budget::new(units))
    };
    assert_eq!(run("variables.double == 6 && variables.replicas == 3", 1_000), Ok(Output::Bool(true)));
    // The variable of the macro does not hide that of the definition.
    assert_eq!(run("object.spec.items.all(object, object < variables.replicas)", 1_000), Ok(Output::Bool(true)));
    assert_eq!(run("true || variables.fails == 1", 1_000), Ok(Output::Bool(true)));
    let failed = run("variables.fails == 1", 1_000).unwrap_err().to_string();
    assert_eq!(failed, "composited variable \"fails\" fails to evaluate: no such key: none");
    // Twice as many uses do not cost twice as much.
    let many = vec!["variables.double"; 200].join(" + ");
    assert!(run(&format!("{many} > 0"), 1_000).is_ok());
    assert!(Expression::compile("variables.double", &variables).is_err(), "there are none");
}

/// Evaluates an expression that makes a patch of the document.
fn patch_of(source: &str) -> Result<Json, String> {
    let (document, of_type) = (document(), Type::Dyn);
    let expression = Expression::compile_patch(source, &[("object", Type::Dyn)], &Definitions::default());
    let expression = expression.map_err(|error| error.to_string())?;
    let variables = [("object", Variable::Document(&document, &of_type))];
    let patch = expression.evaluate_patch(&variables, &Definitions::default(), &mut Budget::new(1_000_000));
    patch.map_err(|error| error.to_string())
}

#[test]
fn an_expression_makes_patches() {
    let cases = [
        ("Object{}", json!({})),
        ("Object{spec: Object.spec{replicas: object.replicas + 1}}", json!({ "spec": { "replicas": 4 } })),
        (
            "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'a', `args`: ['-g']}]}}",
            json!({ "spec": { "containers": [{ "name": "a", "args": ["-g"] }] } }),
        ),
        (
            "Object{metadata: Object.metadata{?labels: object.?labels}}",
            json!({ "metadata": { "labels": document()["labels"] } }),
        ),
        ("Object{?spec: optional.none()}", json!({})),
        ("Object{a: optional.none(), b: JSONPatch{}.op}", json!({ "a": null, "b": "" })),
        ("Object{a: '%s'.format([['x', object.name].join('-')])}", json!({ "a": "x-web" })),
        (
            "Object{spec: Object{n: [1, 2]}.n.sum() == 3 ? Object.spec{n: 1} : Object.spec{}}",
            json!({ "spec": { "n": 1 } }),
        ),
        (
            "has(Object{a: 1}.a) && !has(Object{}.a) && Object{}.?a == optional.none() ? Object{} : Object{a: 1}",
            json!({}),
        ),
        ("Object{a: Object.a{b: 1} == Object.a{b: 1}, b: Object{a: 1} != Object{}}", json!({ "a": true, "b": true })),
        (
            "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a~b/c'), value: 'x'}]",
            json!([{ "op": "add", "path": "/metadata/labels/a~0b~1c", "value": "x" }]),
        ),
        (
            "object.hosts.map(host, JSONPatch{op: 'remove', path: '/hosts/0'}) + [JSONPatch{op: 'copy', from: '/a', path: '/b'}]",
            json!([
                { "op": "remove", "path": "/hosts/0" }, { "op": "remove", "path": "/hosts/0" },
                { "op": "copy", "from": "/a", "path": "/b" },
            ]),
        ),
        (
            "[JSONPatch{op: 'add', path: '/a', value: Object.spec{x: {'k': [dyn(1.5), dyn(null), dyn(b'hi'), dyn(duration('90s')), object.labels]}}}]",
            json!([{ "op": "add", "path": "/a", "value": { "x": { "k": [1.5, null, "aGk=", "90s", document()["labels"]] } } }]),
        ),
        (
            "[JSONPatch{op: 'add', path: '/a', value: 9007199254740993}]",
            json!([{ "op": "add", "path": "/a", "value": "9007199254740993" }]),
        ),
    ];
    for (source, patch) in cases {
        assert_eq!(patch_of(source), Ok(patch), "{source}");
    }
}

#[test]
fn a_patch_has_known_messages_at_their_places() {
    let cases = [
        ("Other{}", "<input>:1:6: undeclared reference to 'Other' (in container '')"),
        ("Objects{}", "undeclared reference to 'Objects'"),
        ("Object{spec: Objects.spec{}}", "undeclared reference to 'Objects.spec'"),
        ("object{}", "'dyn' is not a type"),
        ("int{}", "'int' is not a message type"),
        ("[JSONPatch{op: 1}]", "<input>:1:14: expected type of field 'op' is 'string' but provided type is 'int'"),
        ("[JSONPatch{operation: 'add'}]", "expected type of field 'operation' is '' but provided type is 'string'"),
        ("Object{?a: 1}", "expected type 'optional_type(int)' but found 'int'"),
        ("Object{a: [1, object.replicas]}", "expected type 'int' but found 'dyn'"),
        ("variables.none", "<input>:1:10: undefined field 'none'"),
        ("true ? Object.spec{} : Object.status{}", "found no matching overload for '_?_:_'"),
        ("Object{a b}", "Syntax error"),
        ("Object{spec: Object.status{}}", "unexpected type name \"Object.status\", expected \"Object.spec\""),
        ("Object{a: [{'b': Object.a.b{}}]}", "unexpected type name \"Object.a.b\", expected \"Object.a\""),
        (
            "[JSONPatch{op: 'add', path: '/a', value: Object.a{b: Object{}}}]",
            "unexpected type name \"Object\", expected \"Object.a.b\"",
        ),
        ("Object{a: {1: 2}}", "a key is of the type int"),
        ("Object{a: 0.0 / 0.0}", "not finite"),
        ("Object{a: type(1)}", "has no JSON"),
        ("1", "no such overload"),
        ("[1]", "no such overload"),
        ("Object.spec{}", "no such overload"),
    ];
    for (source, reason) in cases {
        let error = patch_of(source).expect_err(source);
        assert!(error.contains(reason), "{source}: {error}");
    }
    for source in ["Object{} == Object{}", "jsonpatch.escapeKey('a') == 'a'"] {
        refused(source, "undeclared reference to");
    }
}

#[test]
fn a_value_with_a_part_many_times_costs_its_extent() {
    // Each step has the list of the one before twice, so that the last one has 2^60 items.
    let huge = |item: &str| format!("[{item}]{}", ".map(x, [x, x])".repeat(60));
    for source in [
        format!("{0} == {0}", huge("'a'")),
        format!("sets.contains({0}, {0})", huge("1")),
        format!("[{0}].distinct() == []", huge("1")),
        format!("[{0}].indexOf({0}) == 0", huge("1")),
        format!("{0} in [{0}]", huge("1")),
    ] {
        assert_eq!(evaluated(&source, 100_000), Err(EvaluationError::Exhausted), "{source}");
    }
    // A comparison with a small value looks at no more than it costs, however often it runs.
    for small in ["x != []", "[] == x", "x in []", "sets.contains([], x)"] {
        let source = format!("[{}].exists(x, lists.range(20000).all(i, {small} || i < 0))", huge("'a'"));
        assert!(evaluated(&source, 1_000_000).is_ok(), "{source}");
    }
    let error =
        evaluated(&format!("'%s'.format([{}]) == ''", huge("'a'")), 1_000_000).expect_err("the text is too long");
    assert_eq!(error.to_string(), "a text would be longer than 4194304 bytes");
    let error = patch_of(&format!("Object{{a: {}}}", huge("'a'"))).expect_err("the patch is too large");
    assert_eq!(error, "a patch would be larger than 4194304 bytes");
}

#[test]
fn definitions_nest_no_deeper_than_an_evaluation_may() {
    let mut definitions = Definitions::default();
    definitions.define("v0", "1", &[]).unwrap();
    let refused = (1..=1_000).find_map(|at| {
        let source = format!("[variables.v{}]", at - 1);
        definitions.define(&format!("v{at}"), &source, &[]).err().map(|error| (at, error.to_string()))
    });
    let (at, reason) = refused.expect("one is refused");
    assert_eq!(at, 125);
    assert!(reason.contains("nested deeper than 250 levels with its variables"), "{reason}");
    let source = "variables.v123 == variables.v123";
    let thread = std::thread::Builder::new().stack_size(2 << 20);
    let evaluated = thread.spawn(move || {
        let expression = Expression::compile_with(source, &[], &definitions).unwrap();
        expression.evaluate_with(&[], &definitions, &mut Budget::new(1_000_000))
    });
    assert_eq!(evaluated.unwrap().join().unwrap(), Ok(Output::Bool(true)));
}

#[test]
fn a_value_of_any_type_makes_the_result_of_a_call_one() {
    for source in
        ["optional.of(dyn([])).orValue(Object{})", "object.?list.orValue(Object{})", "[dyn(1)].first().orValue(2)"]
    {
        let expression = Expression::compile_patch(source, &[("object", Type::Dyn)], &Definitions::default());
        assert_eq!(*expression.unwrap().result(), Type::Dyn, "{source}");
    }
}
