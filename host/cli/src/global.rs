//! The options that every command understands.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::exit;

/// Where the host is and what it asks for, which namespace is meant, and how results are printed.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Global {
    /// The host to talk to: unix:PATH, `http://127.0.0.1:PORT` or `https://HOST:PORT` [default: the socket of this user's host]
    #[arg(long, global = true, env = "HOMEOSTAT_SERVER", value_name = "ADDRESS", hide_env_values = true)]
    pub(crate) server: Option<String>,
    /// A file with the token that the host asks for; HOMEOSTAT_TOKEN has the token itself
    #[arg(long, global = true, env = "HOMEOSTAT_TOKEN_FILE", value_name = "FILE", hide_env_values = true)]
    pub(crate) token_file: Option<PathBuf>,
    /// A file with the certificate that the host shows, or of who vouches for it [default: whom this machine trusts]
    #[arg(long, global = true, env = "HOMEOSTAT_CERTIFICATE_AUTHORITY", value_name = "FILE", hide_env_values = true)]
    pub(crate) certificate_authority: Option<PathBuf>,
    /// The namespace [default: default]
    #[arg(short, long, global = true, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// How results are printed
    #[arg(short, long, global = true, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Format {
    /// Columns for people.
    Table,
    /// More columns.
    Wide,
    /// Whole documents as JSON.
    Json,
    /// Whole documents as YAML.
    Yaml,
    /// One `kind.group/name` per line.
    Name,
}

impl Global {
    /// Returns the namespace that is meant when none is named.
    pub(crate) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or("default")
    }

    /// Returns how to print, out of what a command can do; its first way is the default.
    ///
    /// # Errors
    /// A usage error that names the ways.
    pub(crate) fn format(&self, possible: &[Format]) -> anyhow::Result<Format> {
        let format = self.output.unwrap_or(possible[0]);
        if possible.contains(&format) {
            return Ok(format);
        }
        let names: Vec<String> = possible.iter().map(|format| format.name()).collect();
        Err(exit::usage(format!("this command cannot print `-o {}`: use {}", format.name(), names.join(", "))))
    }
}

impl Format {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}
