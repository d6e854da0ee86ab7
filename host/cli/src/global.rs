//! The options of every command.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::exit;

/// The options of every command: how to reach the host, the namespace, and the output format.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Global {
    /// The host to talk to: unix:PATH, `http://127.0.0.1:PORT` or `https://HOST:PORT` [default: the socket of
    /// this user's host]
    #[arg(long, global = true, env = "HOMEOSTAT_SERVER", value_name = "ADDRESS", hide_env_values = true)]
    pub(crate) server: Option<String>,
    /// File with the token for the host; HOMEOSTAT_TOKEN holds the token itself
    #[arg(long, global = true, env = "HOMEOSTAT_TOKEN_FILE", value_name = "FILE", hide_env_values = true)]
    pub(crate) token_file: Option<PathBuf>,
    /// File with the host's certificate, or with that of its issuer [default: the certificates that this
    /// machine trusts]
    #[arg(long, global = true, env = "HOMEOSTAT_CERTIFICATE_AUTHORITY", value_name = "FILE", hide_env_values = true)]
    pub(crate) certificate_authority: Option<PathBuf>,
    /// The namespace [default: default]
    #[arg(short, long, global = true, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// The output format
    #[arg(short, long, global = true, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
}

/// The output formats.
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
    /// Returns the namespace of the command line, or `default`.
    pub(crate) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or("default")
    }

    /// Returns the output format. `possible` lists the formats of the command; the first one is the default.
    ///
    /// # Errors
    /// A usage error that lists `possible`.
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
