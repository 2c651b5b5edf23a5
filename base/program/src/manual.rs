//! The command `manual`: man pages and completions, from the command line's own definition.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::Shell;

/// Write the command's manual pages and its completions for shells into a folder
#[derive(Args)]
pub struct Manual {
    /// Folder to write into; it is created if it does not exist
    folder: PathBuf,
}

impl Manual {
    /// Writes a page for each command of the program, and a file for each shell.
    ///
    /// # Errors
    /// If the folder or a file can't be written.
    pub fn execute(self, mut program: Command) -> Result<bool> {
        let folder = &self.folder;
        fs::create_dir_all(folder)
            .with_context(|| format!("could not create {}", folder.display()))?;
        program.build();
        let own = program.get_name().to_owned();
        for page in pages(&program) {
            let name = page.get_display_name().unwrap_or(&own).to_owned();
            write(folder, &format!("{name}.1"), |file| {
                clap_mangen::Man::new(page).render(file)
            })?;
        }
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            clap_complete::generate_to(shell, &mut program, &own, folder)
                .with_context(|| format!("could not write the completions for {shell}"))?;
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
    done.with_context(|| format!("could not write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_visible_commands_have_a_page() {
        let hidden = Command::new("manual").hide(true);
        let shown = Command::new("check");
        let mut command = Command::new("uc").subcommands([hidden, shown]);
        command.build();
        let pages = pages(&command);
        let names: Vec<_> = pages.iter().filter_map(Command::get_display_name).collect();
        assert_eq!(names, ["uc-check"]);
    }
}
