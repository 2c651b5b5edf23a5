//! Archives in cpio's format "newc", which the kernel unpacks as its first file system. Read first:
//! Documentation/driver-api/early-userspace/buffer-format.rst.

use std::io::{self, Write};

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

/// A writer of an archive, entry by entry.
#[derive(Debug)]
pub struct Archive<W> {
    out: W,
    inode: u32,
}

impl<W: Write> Archive<W> {
    /// Creates an empty archive.
    pub fn new(out: W) -> Self {
        Self { out, inode: 0 }
    }

    /// Adds a folder; its parents must come before it.
    pub fn folder(&mut self, path: &str) -> io::Result<()> {
        self.entry(path, FOLDER, 2, &[])
    }

    /// Adds an executable file.
    ///
    /// # Errors
    /// The writer's, or a file longer than the format allows.
    pub fn file(&mut self, path: &str, content: &[u8]) -> io::Result<()> {
        self.entry(path, PROGRAM, 1, content)
    }

    /// Closes the archive and returns the writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.entry("TRAILER!!!", 0, 1, &[])?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// Adds an entry: thirteen fields of eight hexadecimal digits, the name with a zero, the
    /// content; name and content are padded to four bytes.
    fn entry(&mut self, path: &str, mode: u32, links: u32, content: &[u8]) -> io::Result<()> {
        let length = u32::try_from(content.len()).map_err(io::Error::other)?;
        self.inode += 1;
        let name_bytes = path.len() as u32 + 1;
        let fields = [
            self.inode, mode, 0, 0, links, 0, length, 0, 0, 0, 0, name_bytes, 0,
        ];
        self.out.write_all(b"070701")?;
        for field in fields {
            write!(self.out, "{field:08X}")?;
        }
        self.out.write_all(path.as_bytes())?;
        self.out.write_all(&[0])?;
        // The header has 110 bytes.
        self.pad(110 + name_bytes as usize)?;
        self.out.write_all(content)?;
        self.pad(content.len())
    }

    fn pad(&mut self, length: usize) -> io::Result<()> {
        self.out.write_all(&[0; 3][..length.wrapping_neg() % 4])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_begins_at_a_multiple_of_four_and_has_its_lengths() {
        let mut archive = Archive::new(Vec::new());
        archive.folder("bin").unwrap();
        archive.file("bin/x", b"12345").unwrap();
        let bytes = archive.finish().unwrap();
        assert_eq!(bytes.len() % 4, 0);
        let starts: Vec<_> = (0..bytes.len())
            .filter(|at| bytes[*at..].starts_with(b"070701"))
            .collect();
        assert_eq!(starts, [0, 116, 240]);
        // The sixth and the eleventh field after the magic: file and name length.
        assert_eq!(&bytes[116 + 54..116 + 62], b"00000005");
        assert_eq!(&bytes[116 + 94..116 + 102], b"00000006");
        assert_eq!(&bytes[232..237], b"12345");
    }
}
