//! `uc manual`: man pages and completions, from the command line's own definition.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::Shell;

/// Write the manual's pages and the shells' completions into a folder
#[derive(Args)]
pub struct Manual {
    /// The folder; it is created if it does not exist
    folder: PathBuf,
}

impl Manual {
    /// Writes a page for each command of `uc`, and a file for each shell.
    pub fn execute(self, mut uc: Command) -> Result<bool> {
        let folder = &self.folder;
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        uc.build();
        for page in pages(&uc) {
            let name = page.get_display_name().unwrap_or("uc").to_owned();
            write(folder, &format!("{name}.1"), |file| {
                clap_mangen::Man::new(page).render(file)
            })?;
        }
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            clap_complete::generate_to(shell, &mut uc, "uc", folder)
                .with_context(|| format!("write the completions for {shell}"))?;
        }
        Ok(true)
    }
}

/// Returns the command and all its visible subcommands.
fn pages(command: &Command) -> Vec<Command> {
    let below = command
        .get_subcommands()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help")
        .flat_map(pages);
    std::iter::once(command.clone()).chain(below).collect()
}

fn write(
    folder: &Path,
    name: &str,
    render: impl FnOnce(&mut File) -> std::io::Result<()>,
) -> Result<()> {
    let path = folder.join(name);
    let done = File::create(&path).and_then(|mut file| render(&mut file));
    done.with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn exactly_the_visible_commands_have_a_page() {
        let mut command = crate::Arguments::command();
        command.build();
        let names: Vec<String> = pages(&command)
            .iter()
            .filter_map(|page| page.get_display_name().map(str::to_owned))
            .collect();
        for name in ["uc-check", "uc-agent", "uc-attach"] {
            assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
        }
        assert!(!names.iter().any(|name| name.contains("manual")));
        assert!(!names.iter().any(|name| name.contains("machine")));
    }
}
