//! The files of the projects that `new` writes.

use crate::language::Language;

/// A file: its path in the project, and its text.
pub(super) type TemplateFile = (&'static str, &'static str);

/// The files of `templates/FOLDER`, each under its own path.
macro_rules! files {
    ($folder:literal: $($path:literal),+ $(,)?) => {
        &[$(($path, include_str!(concat!("../../templates/", $folder, "/", $path)))),+]
    };
}

const RUST: &[TemplateFile] = files!("rust": "Cargo.toml", "README.md", "src/lib.rs", "gitignore");
const PYTHON: &[TemplateFile] =
    files!("python": "README.md", "gitignore", "requirements.txt", "src/app.py", "src/homeostat.py");

const JS: &[TemplateFile] = files!(
    "js": "README.md", "gitignore", "jsconfig.json", "package-lock.json", "package.json", "src/app.js", "src/homeostat.js",
);

const GO: &[TemplateFile] = files!(
    "go": "README.md", "gitignore", "go.mod", "homeostat/abi_other.go", "homeostat/abi_wasip1.go", "homeostat/condition.go",
    "homeostat/controller.go", "homeostat/resource.go", "main.go",
);

const C: &[TemplateFile] = files!(
    "c": "README.md", "gitignore", "requirements.txt", "src/condition.c", "src/homeostat.c", "src/homeostat.h", "src/json.c", "src/main.c",
);

/// The files of every project.
const COMMON: &[TemplateFile] = files!("common": "cases.yaml", "controller.yaml", "greeting.yaml");

/// Returns the files of a project in a language, without the contract.
pub(super) fn files(language: Language) -> Vec<TemplateFile> {
    let own = match language {
        Language::Rust => RUST,
        Language::Python => PYTHON,
        Language::Js => JS,
        Language::Go => GO,
        Language::C => C,
    };
    COMMON.iter().chain(own).map(|(path, text)| (place(path), *text)).collect()
}

/// Returns the place of a template in the project.
fn place(path: &'static str) -> &'static str {
    match path {
        "cases.yaml" => "tests/cases.yaml",
        "controller.yaml" => "{{name}}.yaml",
        // Under its own name, git would obey it in the repository of Homeostat.
        "gitignore" => ".gitignore",
        other => other,
    }
}
