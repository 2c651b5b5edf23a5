//! A policy read from its text.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use uc_words::place::Document;
use uc_words::wording::{suggest, tidy};

use crate::agent::AgentTable;
use crate::effort::{self, Effort};
use crate::fault::{Faults, PolicyError};
use crate::file::{
    DefaultsTable, IdentityTable, PolicyFile, PortTable, RuleTable, SelectionTable, TenantTable,
    TreatmentTable,
};
use crate::policy::Policy;
use crate::read::{join, keys_of, known_only, read_table, split};
use crate::rule::Rule;
use crate::tenant::{self, Tenant};
use crate::{check, defaults, size};

/// Maximum number of tenants, and of rules.
const TABLES_MAX: usize = 4096;

/// Maximum length of a text whose syntax errors are all reported; of a longer one only the first is.
const RECOVERED_MAX_BYTES: usize = 1 << 16;

/// The origin of a policy, which determines its allowed content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    /// The policy file of a single host.
    File,
    /// A fleet's store, which has no settings of one host's agent.
    Fleet,
}

impl Policy {
    /// Reads the host's policy file as the agent does, which refuses a file that others could have written. Returns
    /// the policy and its text.
    ///
    /// # Errors
    /// [`PolicyError::Unread`], or [`PolicyError::Invalid`] with all faults.
    pub fn load(path: &Path) -> Result<(Policy, String), PolicyError> {
        let text = uc_files::read(path)?;
        Policy::parse(&path.display().to_string(), &text).map(|policy| (policy, text))
    }

    /// Reads a draft of the host's own file, whoever may have written it.
    ///
    /// # Errors
    /// As [`Policy::load`].
    pub fn load_draft(path: &Path) -> Result<Policy, PolicyError> {
        let text = uc_files::read_any(path)?;
        Policy::parse(&path.display().to_string(), &text)
    }

    /// Reads a fleet's policy from a file, before it is put into the fleet's store.
    ///
    /// # Errors
    /// As [`Policy::load`].
    pub fn load_fleet(path: &Path) -> Result<Policy, PolicyError> {
        let text = uc_files::read_any(path)?;
        Policy::parse_fleet(&path.display().to_string(), &text)
    }

    /// Parses a host's own policy; `name` stands for its file in messages.
    ///
    /// # Errors
    /// [`PolicyError::Invalid`] with all faults.
    pub fn parse(name: &str, text: &str) -> Result<Policy, PolicyError> {
        read(name, text, Home::File)
    }

    /// Parses the policy of a fleet, which has no `[agent]`.
    ///
    /// # Errors
    /// [`PolicyError::Invalid`] with all faults.
    pub fn parse_fleet(name: &str, text: &str) -> Result<Policy, PolicyError> {
        read(name, text, Home::Fleet)
    }
}

fn read(name: &str, text: &str, home: Home) -> Result<Policy, PolicyError> {
    // A long text that is no TOML may have an error in each of a million lines.
    let (table, errors) = match DeTable::parse(text) {
        Ok(table) => (table, Vec::new()),
        Err(_) if text.len() <= RECOVERED_MAX_BYTES => DeTable::parse_recoverable(text),
        Err(first) => (Spanned::new(0..0, DeTable::new()), vec![first]),
    };
    let document = Document::new(name, text, table);
    let mut faults = Faults::new(&document);
    for error in &errors {
        let offset = error.span().map_or(0, |span| span.start);
        let message = tidy(error.message());
        faults.add_at(offset, "", message);
    }
    if !errors.is_empty() {
        faults.into_result()?;
    }
    let mut faults = Faults::new(&document);
    if !size::check(document.table.get_ref(), &mut faults) {
        faults.into_result()?;
    }
    let mut faults = Faults::new(&document);
    let file = read_file(document.table.get_ref(), &mut faults);
    let policy = resolve(file, home, &mut faults);
    faults.into_result()?;
    Ok(policy)
}

/// Parses all tables of a policy file.
fn read_file(table: &DeTable<'_>, faults: &mut Faults<'_>) -> PolicyFile {
    let known = ["defaults", "tenant", "rule", "split", "canary", "agent"];
    let table = known_only(table, "", &known, faults);
    let defaults = one(&table, "defaults", faults);
    let agent = one(&table, "agent", faults);
    let split = one(&table, "split", faults);
    let canary = one(&table, "canary", faults);
    PolicyFile {
        defaults: defaults.map_or_else(DefaultsTable::default, |table| {
            let (treatment, port) = two(&table, "defaults", faults);
            DefaultsTable { treatment, port }
        }),
        tenants: many(&table, "tenant", faults)
            .into_iter()
            .map(|(path, table)| {
                let (identity, port) = two::<IdentityTable, PortTable>(&table, &path, faults);
                TenantTable { identity, port }
            })
            .collect(),
        rules: many(&table, "rule", faults)
            .into_iter()
            .map(|(path, table)| {
                let (selection, treatment) =
                    two::<SelectionTable, TreatmentTable>(&table, &path, faults);
                RuleTable {
                    selection,
                    treatment,
                }
            })
            .collect(),
        split: split.map(|table| read_table(&table, "split", faults)),
        canary: canary.map(|table| read_table(&table, "canary", faults)),
        agent: agent.map_or_else(AgentTable::default, |table| {
            read_table(&table, "agent", faults)
        }),
    }
}

/// Parses a table into two structures, each with keys of its own.
fn two<A, B>(table: &DeTable<'_>, path: &str, faults: &mut Faults<'_>) -> (A, B)
where
    A: for<'de> serde::Deserialize<'de> + Default,
    B: for<'de> serde::Deserialize<'de> + Default,
{
    let (first, second) = (keys_of::<A>(), keys_of::<B>());
    let known = known_only(table, path, &[first, second].concat(), faults);
    let (first, second) = split(known, first);
    (
        read_table(&first, path, faults),
        read_table(&second, path, faults),
    )
}

/// Returns the table `[key]` of the file; `None` if the file has none. A value that is no table adds a fault and gives
/// `None`, too.
fn one<'i>(table: &DeTable<'i>, key: &str, faults: &mut Faults<'_>) -> Option<DeTable<'i>> {
    match table.get(key)?.get_ref() {
        DeValue::Table(inner) => Some(inner.clone()),
        _ => {
            faults.add(key, format!("is not a table; write [{key}]"));
            None
        }
    }
}

/// Returns the tables `[[key]]`, each with its path such as `rule.2`; empty if the file has none. Adds a fault for
/// each value that is no table, and if there are more than [`TABLES_MAX`], which returns none of them.
fn many<'i>(table: &DeTable<'i>, key: &str, faults: &mut Faults<'_>) -> Vec<(String, DeTable<'i>)> {
    let Some(value) = table.get(key) else {
        return Vec::new();
    };
    let Some(list) = value.get_ref().as_array() else {
        faults.add(key, format!("is not a list of tables; write [[{key}]]"));
        return Vec::new();
    };
    if list.len() > TABLES_MAX {
        let count = list.len();
        let message = format!("{count} of [[{key}]]; a policy has at most {TABLES_MAX}");
        faults.add(key, message);
        return Vec::new();
    }
    let mut tables = Vec::new();
    for (i, value) in list.iter().map(Spanned::get_ref).enumerate() {
        let path = join(key, &i.to_string());
        match value.as_table() {
            Some(inner) => tables.push((path, inner.clone())),
            None => faults.add(&path, format!("is not a table; write [[{key}]]")),
        }
    }
    tables
}

fn resolve(file: PolicyFile, home: Home, faults: &mut Faults<'_>) -> Policy {
    check_home(&file, home, faults);
    defaults::check(&file, faults);
    let effort = Effort::new();
    let tenants = tenant::resolve(&file.tenants, &file.defaults.port, &effort, faults);
    let mut rules = Vec::with_capacity(file.rules.len() + 1);
    for (i, table) in file.rules.iter().enumerate() {
        let key = format!("rule.{i}");
        let (ports, matches) = table.selection.resolve(&key, faults);
        let tenant = table.selection.tenant.as_deref();
        rules.push(Rule {
            number: i + 1,
            line: faults.line(&key),
            tenant: tenant.and_then(|name| owner(name, &tenants, &key, faults)),
            ports,
            matches,
            treatment: table
                .treatment
                .resolve(&key, &file.defaults.treatment, faults),
        });
    }
    rules.push(defaults::rule(&file.defaults.treatment, faults));
    let port = file
        .defaults
        .port
        .resolve("defaults", &PortTable::default(), faults);
    let mut ports = file.tenants.iter().map(|tenant| &tenant.port);
    let is_split = ports.any(|port| port.split == Some(true)) || port.split;
    let split = file.split.as_ref();
    let split = split.map(|table| table.resolve(is_split, faults));
    let canary = file.canary.as_ref().map(|table| table.resolve(faults));
    let agent = file.agent.resolve(faults);
    let policy = Policy {
        file,
        tenants,
        rules,
        port,
        split: split.unwrap_or_default(),
        canary,
        agent,
    };
    check::check(&policy, home == Home::File, &effort, faults);
    if effort.is_spent() {
        faults.add("", effort::too_much());
    }
    policy
}

/// Checks that the policy has only tables that its origin, a host's file or a fleet's store, may have.
fn check_home(file: &PolicyFile, home: Home, faults: &mut Faults<'_>) {
    if home == Home::Fleet && faults.is_given("agent") {
        let message = "a fleet's policy says nothing of one host's agent; put it into the host's \
                       own file";
        faults.add("agent", message);
    }
    if home == Home::File && faults.is_given("canary") {
        let message = "hosts try a policy in turn only if it is a fleet's, in etcd; put it there \
                       (agent.etcd), or leave out [canary]";
        faults.add("canary", message);
    }
    if file.agent.etcd.is_none() {
        return;
    }
    for key in ["defaults", "tenant", "rule", "split"] {
        if faults.is_given(key) {
            let message = "agent.etcd says that the policy is in etcd, so this would never be in \
                           force; move it there, or leave out agent.etcd";
            faults.add(key, message);
        }
    }
}

/// Returns the index of the tenant of that name. If no tenant has it, adds a fault and returns `None`.
fn owner(name: &str, tenants: &[Tenant], key: &str, faults: &mut Faults<'_>) -> Option<usize> {
    let at = tenants.iter().position(|tenant| tenant.name == name);
    if at.is_none() && !faults.is_full() {
        let known: Vec<&str> = tenants.iter().map(|tenant| &*tenant.name).collect();
        let mend = suggest(name, &known);
        let message = format!("no [[tenant]] is called `{name}`; {mend}");
        faults.add(&format!("{key}.tenant"), message);
    } else if at.is_none() {
        faults.add_unsaid();
    }
    at
}

impl std::str::FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Policy, PolicyError> {
        Policy::parse("policy", text)
    }
}
