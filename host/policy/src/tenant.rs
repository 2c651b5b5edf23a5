//! Tenants with defaults applied: numbers, ports, and settings of each port.

use std::collections::{BTreeMap, HashMap};

use uc_law::PortCoupling;

use crate::dupack::{Dupack, DupackKey};
use crate::effort::Effort;
use crate::fault::Faults;
use crate::file::{IdentityTable, Order, PortTable, SumOf, TenantTable};
use crate::hold::{Hold, HoldKey};
use crate::number::in_range;
use crate::pattern::Pattern;
use crate::tune::Tune;

/// A tenant of the host, with the ports that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Name of the tenant.
    pub name: String,
    /// Number of the tenant in the kernel, computed from the name alone, so it is the same on every
    /// host and after every change of the policy. Never 0, which stands for no tenant.
    pub number: u32,
    /// Patterns of the names of the tenant's ports.
    pub ports: Vec<Pattern>,
    /// Settings of each of the tenant's ports.
    pub settings: PortSettings,
    /// TCP settings of the tenant's containers; `None`: unchanged.
    pub tune: Option<Tune>,
}

/// The settings of a port that hold for all its flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortSettings {
    /// Weight in the groups that the port is in.
    pub weight: u8,
    /// Maximum number of flows that are translated at once, half-open ones apart; 0: as many as the table has free
    /// entries.
    pub flows_max: u32,
    /// Strict mode: whether no flow of the guest may go untranslated.
    pub strict: bool,
    /// Whether connections of the port's guest are split.
    pub split: bool,
    /// When the host sends the port's guest duplicate ACKs; `None`: never.
    pub dupack: Option<Dupack>,
    /// Packets of the port's guest that the host holds; `None`: none.
    pub hold: Option<Hold>,
    /// Set of windows whose sum `share` divides.
    pub sum: SumOf,
    /// Position of the port's programs among those that other software attaches.
    pub order: Order,
    /// Whether other software drops what the port's guest sends from addresses that are not its own.
    pub filtered_addresses: bool,
}

impl PortTable {
    /// Resolves the settings of the table `key`; a missing one is that of `defaults`.
    pub(crate) fn resolve(
        &self,
        key: &str,
        defaults: &PortTable,
        faults: &mut Faults<'_>,
    ) -> PortSettings {
        let weight = in_range(&format!("{key}.weight"), self.weight, 1..=255, faults);
        let most = 1 << 24;
        let flows = in_range(
            &format!("{key}.flows_max"),
            self.flows_max,
            1..=most,
            faults,
        );
        let dupack = self.dupack.as_ref().or(defaults.dupack.as_ref());
        let dupack = dupack.and_then(DupackKey::resolve);
        let split = self.split.or(defaults.split).unwrap_or(false);
        let hold = self.hold.as_ref().or(defaults.hold.as_ref());
        let hold = hold.and_then(HoldKey::resolve);
        self.check_techniques(key, [split, dupack.is_some(), hold.is_some()], faults);
        PortSettings {
            weight: weight.or(defaults.weight).unwrap_or(1) as u8,
            flows_max: flows.or(defaults.flows_max).unwrap_or(0) as u32,
            strict: self.strict.or(defaults.strict).unwrap_or(false),
            split,
            dupack,
            hold,
            sum: self.sum.or(defaults.sum).unwrap_or_default(),
            order: self.order.or(defaults.order).unwrap_or_default(),
            filtered_addresses: self
                .filtered_addresses
                .or(defaults.filtered_addresses)
                .unwrap_or(false),
        }
    }

    /// Checks the keys `dupack` and `hold`, and that the port has at most one of `split`, `dupack` and `hold`;
    /// `are`: which of them it has.
    fn check_techniques(&self, key: &str, are: [bool; 3], faults: &mut Faults<'_>) {
        if let Some(own) = &self.dupack {
            own.check(&format!("{key}.dupack"), faults);
        }
        if let Some(own) = &self.hold {
            own.check(&format!("{key}.hold"), faults);
        }
        let are_own = [
            self.split.is_some(),
            self.dupack.is_some(),
            self.hold.is_some(),
        ];
        for (first, second, why) in EXCLUSIVE {
            // Where both are inherited, the defaults have the fault.
            let own = [second, first].into_iter().find(|at| are_own[*at]);
            if let Some(own) = own.filter(|_| are[first] && are[second]) {
                let [name, first, second] = [own, first, second].map(|at| TECHNIQUES[at]);
                let message = format!(
                    "of {first} and {second} a port has one: {why}; set one of the two to false"
                );
                faults.add(&format!("{key}.{name}"), message);
            }
        }
    }
}

/// Keys of a port for each of which a command of the host works at the port.
const TECHNIQUES: [&str; 3] = ["split", "dupack", "hold"];
/// Pairs of [`TECHNIQUES`], by index, that exclude each other, with the reason.
const EXCLUSIVE: [(usize, usize, &str); 3] = [
    (
        0,
        1,
        "a split connection ends at this host, so its guest loses no tail on the network",
    ),
    (
        0,
        2,
        "a split connection ends at this host, so nothing between host and guest is to be held",
    ),
    (
        1,
        2,
        "both repair lost tails, and held ACKs would delay duplicate ACKs",
    ),
];

/// Returns the tenant's number: FNV-1a of the name in 32 bits, or 1 if that is 0.
fn number_of(name: &str) -> u32 {
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash.max(1)
}

/// Resolves the tenants of the file, and reports their errors.
pub(crate) fn resolve(
    tables: &[TenantTable],
    defaults: &PortTable,
    effort: &Effort,
    faults: &mut Faults<'_>,
) -> Vec<Tenant> {
    let tenants: Vec<Tenant> = tables
        .iter()
        .enumerate()
        .map(|(i, table)| {
            let key = format!("tenant.{i}");
            let name = name(&table.identity, &key, faults);
            let tune = table.identity.tune.as_ref();
            Tenant {
                number: number_of(&name),
                name,
                ports: ports(&table.identity, &key, faults),
                settings: table.port.resolve(&key, defaults, faults),
                tune: tune.map(|table| table.resolve(&format!("{key}.tune"), faults)),
            }
        })
        .collect();
    check_names(&tenants, faults);
    check_cgroups(&tenants, faults);
    check_claims(&tenants, effort, faults);
    tenants
}

fn name(identity: &IdentityTable, key: &str, faults: &mut Faults<'_>) -> String {
    let Some(name) = &identity.name else {
        if !faults.is_given(&format!("{key}.name")) {
            faults.add(key, "missing key `name`; add for example name = \"acme\"");
        }
        return String::new();
    };
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > 63 || !name.chars().all(good) {
        let message = format!(
            "`{name}` is not a valid name; use 1 to 63 letters, digits, `-`, `_` and `.`: it \
             becomes a \
             label of metrics"
        );
        faults.add(&format!("{key}.name"), message);
    }
    name.clone()
}

fn ports(identity: &IdentityTable, key: &str, faults: &mut Faults<'_>) -> Vec<Pattern> {
    let at = format!("{key}.ports");
    let Some(ports) = &identity.ports else {
        if !faults.is_given(&at) {
            let message = "missing key `ports`; add for example ports = [\"vnet3\", \"tap1*\"]";
            faults.add(key, message);
        }
        return Vec::new();
    };
    ports.read(&at, faults)
}

/// Checks that no two tenants have the same name, or numbers that give the same group ([`PortCoupling::of_tenant`]).
fn check_names(tenants: &[Tenant], faults: &mut Faults<'_>) {
    let mut first = BTreeMap::new();
    for (i, tenant) in tenants.iter().enumerate() {
        if tenant.name.is_empty() {
            continue;
        }
        let Some(other) = first.insert(PortCoupling::of_tenant(tenant.number), i) else {
            continue;
        };
        let line = faults.line(&format!("tenant.{other}"));
        let message = match tenants[other].name == tenant.name {
            true => format!(
                "duplicate tenant `{}`: the first is in line {line}; move all its ports there",
                tenant.name
            ),
            false => format!(
                "`{}` has the same number as `{}` (line {line}) by chance; rename one",
                tenant.name, tenants[other].name
            ),
        };
        faults.add(&format!("tenant.{i}.name"), message);
    }
}

/// Checks that no two tenants have the same pattern of control groups. Different patterns that match one control group
/// are found only on the host, which refuses that group.
fn check_cgroups(tenants: &[Tenant], faults: &mut Faults<'_>) {
    let mut first: BTreeMap<String, usize> = BTreeMap::new();
    for (i, tenant) in tenants.iter().enumerate() {
        let cgroups = tenant.tune.iter().flat_map(|tune| &tune.cgroups);
        for cgroup in cgroups {
            let other = *first.entry(cgroup.to_string()).or_insert(i);
            if other != i {
                let line = faults.line(&format!("tenant.{other}.tune"));
                let message = format!(
                    "`{cgroup}` is of another tenant already, in line {line}; a control group has one tenant: remove one of the two"
                );
                faults.add(&format!("tenant.{i}.tune.cgroups"), message);
            }
        }
    }
}

/// A tenant's pattern: indices of the tenant and of the pattern in its list.
type Claim<'a> = (usize, usize, &'a Pattern);

/// Checks that no port can belong to two tenants.
fn check_claims(tenants: &[Tenant], effort: &Effort, faults: &mut Faults<'_>) {
    let mut exact: HashMap<&Pattern, Claim<'_>> = HashMap::new();
    let (mut names, mut starred): (Vec<Claim<'_>>, Vec<Claim<'_>>) = (Vec::new(), Vec::new());
    for (i, tenant) in tenants.iter().enumerate() {
        for (j, pattern) in tenant.ports.iter().enumerate() {
            let claim = (i, j, pattern);
            let meets = |other: &&Claim<'_>| other.0 != i && pattern.meets(other.2);
            let other = match pattern.has_star() {
                // Names are compared with the stars before them, and stars with both.
                false => {
                    let same = exact.get(pattern).filter(|other| other.0 != i);
                    let wide = find(&starred, pattern, effort, meets);
                    same.into_iter()
                        .chain(wide)
                        .min_by_key(|other| (other.0, other.1))
                }
                true => {
                    let name = find(&names, pattern, effort, meets);
                    let wide = find(&starred, pattern, effort, meets);
                    name.into_iter()
                        .chain(wide)
                        .min_by_key(|other| (other.0, other.1))
                }
            };
            if let Some(&other) = other {
                add_claim(claim, other, tenants, faults);
            }
            if pattern.has_star() {
                starred.push(claim);
            } else {
                exact.entry(pattern).or_insert(claim);
                names.push(claim);
            }
        }
    }
}

/// Returns the first of the claims whose pattern meets this one; `None` if none does, or no comparison is left
/// ([`Effort`]).
fn find<'c, 'a>(
    claims: &'c [Claim<'a>],
    pattern: &Pattern,
    effort: &Effort,
    meets: impl Fn(&&'c Claim<'a>) -> bool,
) -> Option<&'c Claim<'a>> {
    let mut affordable = claims
        .iter()
        .take_while(|(_, _, claimed)| effort.spend(pattern.steps(claimed)));
    affordable.find(meets)
}

fn add_claim(
    (i, j, pattern): Claim<'_>,
    (other, _, claimed): Claim<'_>,
    tenants: &[Tenant],
    faults: &mut Faults<'_>,
) {
    let line = faults.line(&format!("tenant.{other}.ports"));
    let owner = &tenants[other].name;
    let message = match claimed == pattern {
        true => format!("`{pattern}` is claimed by `{owner}` already, in line {line}"),
        false => format!(
            "a port could match both `{pattern}` and `{claimed}` of `{owner}` in line {line}"
        ),
    };
    let message = format!("{message}; a port has one tenant: make them differ");
    let list = format!("tenant.{i}.ports.{j}");
    let key = match faults.is_given(&list) {
        true => list,
        false => format!("tenant.{i}.ports"),
    };
    faults.add(&key, message);
}
