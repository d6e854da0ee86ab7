//! A host beside a real kube-apiserver: the same request goes to both, and the answers are compared.

mod mutation;
mod verdict;

use std::sync::Mutex;

use homeostat_testing::Dice;
use homeostat_tests::{Answer, Client, Cluster, HostProcess, Request, shared_bare_cluster};
use regex::Regex;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) use mutation::{Mutation, ways};
pub(crate) use verdict::{Decision, Verdict, comparable, owners, without_nulls, without_uids};

/// The type of a merge patch.
pub(crate) const MERGE: &str = "application/merge-patch+json";

/// A host and a kube-apiserver.
pub(crate) struct Pair {
    there: Mutex<Client>,
    here: Mutex<Client>,
    _host: HostProcess,
    _folders: [TempDir; 2],
}

impl Pair {
    /// Starts a host beside a kube-apiserver without controllers.
    pub(crate) fn start() -> Self {
        Self::start_beside(shared_bare_cluster())
    }

    /// Starts a host beside the kube-apiserver of a cluster.
    pub(crate) fn start_beside(cluster: &'static Cluster) -> Self {
        let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
        let [folder, scratch] = &folders;
        let host = HostProcess::start_on_port("http", folder.path(), scratch.path(), &[], &[]);
        let port = host.server().rsplit_once(':').unwrap().1.parse().unwrap();
        let (there, here) = (Mutex::new(cluster.client()), Mutex::new(Client::plain(port)));
        Self { there, here, _host: host, _folders: folders }
    }

    /// Sends a request to both. Returns the answers: theirs, ours.
    pub(crate) fn send(&self, request: &Request<'_>) -> [Answer; 2] {
        self.try_send(request, request)
            .unwrap_or_else(|| panic!("not answered there: {} {}", request.method, request.path))
    }

    /// Sends a request to each server at the same time. Returns the answers: theirs, ours; `None` where the kube-apiserver
    /// panics, which closes the connection.
    pub(crate) fn try_send(&self, there: &Request<'_>, here: &Request<'_>) -> Option<[Answer; 2]> {
        std::thread::scope(|scope| {
            let theirs = scope.spawn(|| self.try_send_there(there));
            let ours = self.send_here(here);
            Some([theirs.join().unwrap()?, ours])
        })
    }

    /// Sends a request to the kube-apiserver.
    pub(crate) fn send_there(&self, request: &Request<'_>) -> Answer {
        self.try_send_there(request)
            .unwrap_or_else(|| panic!("not answered there: {} {}", request.method, request.path))
    }

    /// Sends a request to the kube-apiserver, which closes the connection where it panics.
    pub(crate) fn try_send_there(&self, request: &Request<'_>) -> Option<Answer> {
        let token = Cluster::admin_token();
        self.there.lock().unwrap().send(&Request { token: Some(&token), ..*request })
    }

    /// Sends a request to the host.
    pub(crate) fn send_here(&self, request: &Request<'_>) -> Answer {
        let answer = self.here.lock().unwrap().send(request);
        answer.unwrap_or_else(|| panic!("not answered here: {} {}", request.method, request.path))
    }

    /// Sends a JSON body to both.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> [Answer; 2] {
        let body = body.to_string();
        let content_type = if method == "PATCH" { MERGE } else { "application/json" };
        self.send(&Request { method, content_type, body: body.as_bytes(), ..Request::get(path) })
    }

    /// Makes a resource on both. No server warns about it.
    pub(crate) fn make(&self, path: &str, document: &Value) {
        let made = self.ask("POST", path, document);
        assert_eq!(made.each_ref().map(|answer| answer.status), [201, 201], "{document}: {made:?}");
        assert!(made.iter().all(|answer| answer.warnings.is_empty()), "{document}: {made:?}");
    }

    /// Makes a namespace on both.
    pub(crate) fn make_namespace(&self, name: &str) {
        self.make("/api/v1/namespaces", &json!({ "metadata": { "name": name } }));
    }
}

/// Returns an object with the fields of another one too, which win.
pub(crate) fn with(mut object: Value, other: &Value) -> Value {
    object.as_object_mut().unwrap().extend(other.as_object().cloned().unwrap());
    object
}

/// Returns the lines that are only in one of two texts, or both texts if only the order of their lines differs.
pub(crate) fn difference(there: &str, here: &str) -> String {
    let only = |sign: &str, one: &str, other: &str| -> String {
        let lines = one.lines().filter(|line| !other.lines().any(|same| same == *line));
        lines.map(|line| format!("  {sign} {line}\n")).collect()
    };
    let found = only("-", there, here) + &only("+", here, there);
    if found.is_empty() && there != here { only("-", there, "") + &only("+", here, "") } else { found }
}

/// Returns how two answers differ in their [whole meaning](full_meaning), theirs and ours. `generated` is what each server
/// chooses for itself.
pub(crate) fn answer_difference(
    answers: [Answer; 2],
    last_words: &[&str],
    generated: Option<&Regex>,
) -> Option<String> {
    let [theirs, ours] = answers.map(|answer| {
        let meaning = serde_json::to_string_pretty(&full_meaning(&answer, last_words)).unwrap();
        generated.map_or(meaning.clone(), |generated| generated.replace_all(&meaning, "GENERATED").into_owned())
    });
    Some(difference(&theirs, &ours)).filter(|found| !found.is_empty())
}

/// Returns the whole meaning of an answer: of a refusal also its message, which is cut after one of `last_words`.
pub(crate) fn full_meaning(answer: &Answer, last_words: &[&str]) -> Value {
    let body = answer.json();
    let mut shown = comparable(body.clone());
    if body["kind"] == "Status" {
        let message = without_uids(body["message"].as_str().unwrap_or_default());
        let cut = last_words.iter().find_map(|words| Some(message.split_once(words)?.0.to_owned() + words));
        let details = if cut.is_some() { "null".to_owned() } else { without_uids(&body["details"].to_string()) };
        let details: Value = serde_json::from_str(&details).unwrap();
        let message = cut.unwrap_or(message);
        shown = json!({ "message": message, "reason": body["reason"], "code": body["code"], "details": details });
    }
    json!({ "status": answer.status, "document": shown, "owners": owners(&body), "warnings": answer.warnings })
}

/// Returns what a person asks for in place of the cases of every run.
#[expect(clippy::disallowed_methods, reason = "a person asks for other cases")]
pub(crate) fn asked(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Returns the number of the generated cases. `COMPARISON_SEED` asks for others than those of every run.
fn seed() -> u64 {
    asked("COMPARISON_SEED").map_or(0, |seed| seed.parse().unwrap())
}

/// Returns dice whose throws depend on a text, a number and `COMPARISON_SEED` alone.
pub(crate) fn dice_of(text: &str, start: u64) -> Dice {
    Dice::new(
        text.bytes().fold(start.wrapping_add(seed()), |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into())),
    )
}

/// Cases of a thousand that may differ in ways that a test recognises.
const NAMED_MAX: usize = 5;

/// The generated cases of a comparison, and those that differ.
#[derive(Default)]
pub(crate) struct Cases {
    pub(crate) compared: usize,
    /// Cases that differ in a way that `docs/kubernetes.md` names and a test recognises.
    pub(crate) named: usize,
    /// A text for each of the other cases that differ.
    pub(crate) different: Vec<String>,
}

impl Cases {
    /// Compares two verdicts on a case.
    pub(crate) fn add(&mut self, what: &str, theirs: &Verdict, ours: &Verdict) {
        self.compared += 1;
        if theirs != ours {
            let [theirs, ours] = [theirs, ours].map(Verdict::to_string);
            self.different.push(format!("{what}\n{}", difference(&theirs, &ours)));
        }
    }

    /// Fails unless at most `differences_max` of a thousand cases differ, and at most [`NAMED_MAX`] more in recognised ways.
    #[expect(clippy::print_stdout, reason = "a person who reads the output of a test gets the count and the cases")]
    pub(crate) fn assert_alike(&self, differences_max: usize) {
        let Self { compared, named, different } = self;
        let (count, texts) = (different.len(), different.join("\n"));
        println!("{texts}");
        println!("{count} of {compared} cases differ, and {named} more in ways that the test recognises");
        assert!(count * 1000 <= compared * differences_max, "{count} of {compared}:\n{texts}");
        assert!(named * 1000 <= compared * NAMED_MAX, "{named} of {compared} differ in recognised ways");
    }
}
