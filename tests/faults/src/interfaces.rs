//! Simulated interfaces that appear, disappear and change, and the system calls that list them.

use std::collections::BTreeSet;

use crate::world::{Answer, Interface, World};

impl World {
    /// Adds, removes or renames a random interface, or changes its MTU.
    pub fn change_interfaces(&mut self) {
        let taken: BTreeSet<&String> = self.interfaces.values().map(|own| &own.name).collect();
        let free: Vec<String> = self
            .names
            .iter()
            .filter(|name| !taken.contains(name))
            .cloned()
            .collect();
        let indices: Vec<u32> = self.interfaces.keys().copied().collect();
        let name = self.dice.one_of(&free).cloned();
        match (
            self.dice.below(4),
            name,
            self.dice.one_of(&indices).copied(),
        ) {
            (0, Some(name), _) | (_, Some(name), None) => self.add_interface(name),
            (1, _, Some(index)) => self.remove_interface(index),
            (2, Some(name), Some(index)) => {
                self.note(|| format!("{index} is called {name}"));
                self.withdraw(index);
                if let Some(own) = self.interfaces.get_mut(&index) {
                    own.name = name;
                }
            }
            (_, _, Some(index)) => {
                let mtu = 1280 + self.dice.below(8000) as u32;
                if let Some(own) = self.interfaces.get_mut(&index) {
                    own.mtu = mtu;
                }
            }
            _ => {}
        }
    }

    /// Adds an interface.
    pub fn add_interface(&mut self, name: String) {
        let index = self.next_ifindex;
        self.next_ifindex += 1 + self.dice.below(3) as u32;
        self.note(|| format!("{index} {name} comes"));
        self.interfaces.insert(index, Interface { name, mtu: 1500 });
    }

    fn remove_interface(&mut self, index: u32) {
        self.note(|| format!("{index} goes"));
        self.interfaces.remove(&index);
        self.withdraw(index);
        self.bpf.remove_interface(index);
    }

    pub(crate) fn interfaces_now(&mut self) -> Answer<Vec<(u32, String)>> {
        self.may("if_nameindex", &[libc::ENOBUFS, libc::EMFILE])?;
        let each = self.interfaces.iter();
        Ok(each
            .map(|(index, own)| (*index, own.name.clone()))
            .collect())
    }

    pub(crate) fn name_of(&mut self, index: u32) -> Answer<String> {
        self.may("if_indextoname", &[libc::EMFILE])?;
        let own = self.interfaces.get(&index).ok_or(libc::ENXIO)?;
        Ok(own.name.clone())
    }

    pub(crate) fn index_of(&mut self, name: &str) -> Answer {
        self.may("if_nametoindex", &[libc::EMFILE])?;
        let mut each = self.interfaces.iter();
        let found = each.find(|(_, own)| own.name == name);
        found
            .map(|(index, _)| i64::from(*index))
            .ok_or(libc::ENODEV)
    }

    pub(crate) fn link_type(&mut self, name: &str) -> Answer<u16> {
        self.index_of(name).map(|_| libc::ARPHRD_ETHER)
    }
}
