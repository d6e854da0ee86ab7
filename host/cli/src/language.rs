//! The languages that guests are written in, and how the files of a folder tell the language.

use std::path::Path;

use clap::ValueEnum;

/// A language that guests are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Language {
    /// Cargo and the SDK `homeostat-sdk`.
    Rust,
    /// `componentize-py`, from PyPI.
    Python,
    /// `componentize-js`, from npm.
    #[value(alias = "javascript")]
    Js,
    /// The ordinary Go, for `wasip1`.
    Go,
    /// Clang with wasi-libc: `ziglang` from PyPI, or the WASI SDK.
    C,
}

impl Language {
    /// Returns the language of the guest in `folder`, or `None` if the folder has no guest.
    ///
    /// A `Cargo.toml` is Rust. A guest of another language has the contract in `wit`, and `go.mod`, `package.json`,
    /// `src/app.py` or `src/main.c`.
    pub(crate) fn of(folder: &Path) -> Option<Self> {
        if folder.join("Cargo.toml").is_file() {
            return Some(Self::Rust);
        }
        if !folder.join("wit").is_dir() {
            return None;
        }
        [Self::Go, Self::Js, Self::Python, Self::C].into_iter().find(|language| folder.join(language.entry()).is_file())
    }

    /// Returns the name of the language as people write it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::Python => "Python",
            Self::Js => "JavaScript",
            Self::Go => "Go",
            Self::C => "C",
        }
    }

    /// Returns the file that tells the language, relative to the folder of the guest.
    fn entry(self) -> &'static str {
        match self {
            Self::Rust => "Cargo.toml",
            Self::Python => "src/app.py",
            Self::Js => "package.json",
            Self::Go => "go.mod",
            Self::C => "src/main.c",
        }
    }
}

#[cfg(test)]
mod tests;
