use super::*;
use proptest::prelude::*;
use std::io::Cursor;

#[derive(Clone, Copy, Debug)]
pub(in crate::zone) enum Naming {
    Short,
    RockRidge,
    Joliet,
}

fn entry(name: &[u8], system_use: &[u8], sector: u32, length: u32, directory: bool) -> Vec<u8> {
    let mut entry = vec![0; 33];
    entry[2..6].copy_from_slice(&sector.to_le_bytes());
    entry[6..10].copy_from_slice(&sector.to_be_bytes());
    entry[10..14].copy_from_slice(&length.to_le_bytes());
    entry[14..18].copy_from_slice(&length.to_be_bytes());
    entry[25] = if directory { 2 } else { 0 };
    entry[32] = u8::try_from(name.len()).unwrap();
    entry.extend_from_slice(name);
    if name.len().is_multiple_of(2) {
        entry.push(0);
    }
    entry.extend_from_slice(system_use);
    if entry.len() % 2 == 1 {
        entry.push(0);
    }
    entry[0] = u8::try_from(entry.len()).unwrap();
    entry
}

fn descriptor(kind: u8, root: u32) -> Vec<u8> {
    let mut sector = vec![0; SECTOR];
    sector[0] = kind;
    sector[1..6].copy_from_slice(b"CD001");
    sector[6] = 1;
    sector[156..190].copy_from_slice(&entry(&[0], &[], root, 2048, true));
    if kind == 2 {
        sector[88..91].copy_from_slice(b"%/E");
    }
    sector
}

pub(in crate::zone) fn disk(naming: Naming, content: &str) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap();
    let nm = |name: &str| {
        let length = u8::try_from(name.len() + 5).unwrap();
        [b"NM", &[length, 1, 0][..], name.as_bytes()].concat()
    };
    let (short, second): (&[u8], _) = match naming {
        Naming::Short => (b"META_DATA.;1", Vec::new()),
        // The name may come in pieces, among other parts.
        Naming::RockRidge => {
            let other = [b"PX", &[6, 1, 0, 0][..]].concat();
            (b"METADAT0.;1", [other, nm("meta"), nm("-data")].concat())
        }
        Naming::Joliet => (b"METADAT0.;1", Vec::new()),
    };
    let dots = [
        entry(&[0], &[], 19, 2048, true),
        entry(&[1], &[], 19, 2048, true),
    ]
    .concat();
    let decoy = entry(b"META-DATA", &[], 19, 2048, true);
    let file = entry(short, &second, 21, length, false);
    let wide: Vec<u8> = "meta-data;1"
        .encode_utf16()
        .flat_map(u16::to_be_bytes)
        .collect();
    let joliet = entry(&wide, &[], 21, length, false);
    let pad = |mut bytes: Vec<u8>| {
        bytes.resize(bytes.len().next_multiple_of(SECTOR), 0);
        bytes
    };
    let second = match naming {
        Naming::Joliet => descriptor(2, 20),
        Naming::Short | Naming::RockRidge => descriptor(3, 20),
    };
    [
        vec![0; 16 * SECTOR],
        descriptor(1, 19),
        second,
        descriptor(255, 0),
        pad([dots.clone(), decoy, file].concat()),
        pad([dots, joliet].concat()),
        pad(content.as_bytes().to_vec()),
    ]
    .concat()
}

#[test]
fn the_file_is_found_by_every_kind_of_name() {
    let content = "instance-id: x\navailability-zone: ch-dk-2\n";
    for naming in [Naming::Short, Naming::RockRidge, Naming::Joliet] {
        let found = meta_data(Cursor::new(disk(naming, content))).unwrap();
        assert_eq!(found, content, "{naming:?}");
    }
}

#[test]
fn what_is_no_such_disk_is_refused() {
    let no_disk = meta_data(Cursor::new(vec![0; 64 * SECTOR])).unwrap_err();
    assert!(matches!(no_disk, CdromError::Format), "{no_disk}");
    let short = meta_data(Cursor::new(vec![0; 100])).unwrap_err();
    assert!(matches!(short, CdromError::Unreadable(_)), "{short}");
    let mut nameless = disk(Naming::RockRidge, "x");
    let at = nameless.windows(4).position(|it| it == b"meta").unwrap();
    nameless[at] = b'n';
    let none = meta_data(Cursor::new(nameless)).unwrap_err();
    assert!(matches!(none, CdromError::NoFile), "{none}");
    let long = "x".repeat(LONGEST_FILE as usize + 1);
    let long = meta_data(Cursor::new(disk(Naming::Short, &long))).unwrap_err();
    assert!(matches!(long, CdromError::TooLong), "{long}");
}

proptest! {
    #[test]
    fn a_damaged_disk_never_breaks_the_reader(
        damage in prop::collection::vec((16 * SECTOR..22 * SECTOR, any::<u8>()), 0..40),
        length in 0..23 * SECTOR,
    ) {
        for naming in [Naming::RockRidge, Naming::Joliet] {
            let mut bytes = disk(naming, "availability-zone: ch-dk-2\n");
            for (at, byte) in &damage {
                bytes[*at] = *byte;
            }
            let _ = meta_data(Cursor::new(&bytes));
            bytes.truncate(length);
            let _ = meta_data(Cursor::new(&bytes));
        }
    }
}
