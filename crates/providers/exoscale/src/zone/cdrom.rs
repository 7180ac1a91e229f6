//! One file from the top of an ISO 9660 disk: as much of the format as that takes.
//!
//! Names on such a disk are in capitals and short; the real ones are in an extension, either Rock
//! Ridge (a second name in each entry) or Joliet (a second tree of entries). Both are read,
//! whatever the tool that made the disk chose.

use std::io::{self, Read, Seek, SeekFrom};

use thiserror::Error;

const NAME: &str = "meta-data";
/// The unit of everything on the disk.
const SECTOR: usize = 2048;
/// Descriptors begin here.
const FIRST_DESCRIPTOR: u32 = 16;
/// A disk has two or three descriptors.
const DESCRIPTORS: u32 = 16;
/// A directory with a handful of files is one sector long.
const LONGEST_DIRECTORY: u32 = 64 * 1024;
/// The file holds a dozen lines.
const LONGEST_FILE: u32 = 64 * 1024;

#[derive(Debug, Error)]
pub(crate) enum CdromError {
    #[error("the disk cannot be read")]
    Unreadable(#[from] io::Error),
    #[error("it is not an ISO 9660 disk")]
    Format,
    #[error("there is no file {NAME} on the disk")]
    NoFile,
    #[error("the file {NAME} is too long")]
    TooLong,
    #[error("the file {NAME} names no zone")]
    NoZone,
    #[error("the drive does not answer")]
    TooSlow,
}

/// A piece of the disk: where it begins, in sectors, and how long it is, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    sector: u32,
    length: u32,
}

#[derive(Clone, Copy, Debug)]
struct Tree {
    root: Extent,
    joliet: bool,
}

pub(crate) fn meta_data(mut disk: impl Read + Seek) -> Result<String, CdromError> {
    let trees = trees(&mut disk)?;
    if trees.is_empty() {
        return Err(CdromError::Format);
    }
    for tree in trees {
        let root = read(&mut disk, tree.root, LONGEST_DIRECTORY)?;
        if let Some(file) = entries(&root).find_map(|entry| named(entry, tree.joliet)) {
            let bytes = read(&mut disk, file, LONGEST_FILE)?;
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    Err(CdromError::NoFile)
}

fn read(disk: &mut (impl Read + Seek), extent: Extent, limit: u32) -> Result<Vec<u8>, CdromError> {
    if extent.length > limit {
        return Err(CdromError::TooLong);
    }
    disk.seek(SeekFrom::Start(u64::from(extent.sector) * SECTOR as u64))?;
    let mut bytes = vec![0; extent.length as usize];
    disk.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The primary tree and those of Joliet.
fn trees(disk: &mut (impl Read + Seek)) -> Result<Vec<Tree>, CdromError> {
    let mut trees = Vec::new();
    for sector in FIRST_DESCRIPTOR..FIRST_DESCRIPTOR + DESCRIPTORS {
        let length = 2048;
        let descriptor = read(disk, Extent { sector, length }, length)?;
        if &descriptor[1..6] != b"CD001" {
            return Err(CdromError::Format);
        }
        // The escape sequences of Joliet: 16-bit names of level 1, 2 or 3.
        let joliet = matches!(&descriptor[88..91], b"%/@" | b"%/C" | b"%/E");
        let is_tree = match descriptor[0] {
            1 => true,
            2 => joliet,
            255 => break,
            _ => false,
        };
        if let Some(root) = extent(&descriptor[156..190]).filter(|_| is_tree) {
            let joliet = descriptor[0] == 2;
            trees.push(Tree { root, joliet });
        }
    }
    Ok(trees)
}

/// Where what an entry names is. Numbers are there twice, the little-endian form first.
fn extent(entry: &[u8]) -> Option<Extent> {
    let number = |at: usize| {
        let bytes = entry.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    Some(Extent {
        sector: number(2)?,
        length: number(10)?,
    })
}

/// The entries of a directory. None crosses the end of a sector: what is left of it is zeros.
fn entries(directory: &[u8]) -> impl Iterator<Item = &[u8]> {
    directory.chunks(SECTOR).flat_map(|sector| {
        let mut rest = sector;
        std::iter::from_fn(move || {
            let length = usize::from(*rest.first()?);
            if length == 0 || length > rest.len() {
                return None;
            }
            let (entry, after) = rest.split_at(length);
            rest = after;
            Some(entry)
        })
    })
}

/// Where the file is, if this is its entry.
fn named(entry: &[u8], joliet: bool) -> Option<Extent> {
    let is_directory = entry.get(25)? & 2 != 0;
    let length = usize::from(*entry.get(32)?);
    let name = entry.get(33..33 + length)?;
    let matches = if joliet {
        let units = name.chunks_exact(2);
        let units = units.map(|unit| u16::from_be_bytes([unit[0], unit[1]]));
        let text = String::from_utf16_lossy(&units.collect::<Vec<_>>());
        plain(&text) == NAME
    } else {
        // What follows the name begins at an even place.
        let system_use = entry
            .get(33 + length + (length + 1) % 2..)
            .unwrap_or_default();
        if let Some(name) = rock_ridge_name(system_use) {
            name == NAME.as_bytes()
        } else {
            let text = String::from_utf8_lossy(name).to_ascii_lowercase();
            plain(&text).replace('_', "-") == NAME
        }
    };
    (matches && !is_directory).then(|| extent(entry))?
}

/// A name without its version (`;1`) and without the dot of an empty ending.
fn plain(name: &str) -> &str {
    let name = name.split(';').next().unwrap_or_default();
    name.strip_suffix('.').unwrap_or(name)
}

/// The name in the `NM` parts of what follows the short name.
fn rock_ridge_name(mut system_use: &[u8]) -> Option<Vec<u8>> {
    let mut name: Option<Vec<u8>> = None;
    while let [first, second, length, ..] = *system_use {
        let length = usize::from(length);
        if length < 4 || length > system_use.len() {
            break;
        }
        let (part, rest) = system_use.split_at(length);
        if [first, second] == *b"NM" {
            // After signature, length and version come flags, then a piece of the name.
            name.get_or_insert_default()
                .extend_from_slice(part.get(5..).unwrap_or_default());
        }
        system_use = rest;
    }
    name
}

#[cfg(test)]
pub(super) mod tests;
