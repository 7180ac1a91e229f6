//! The protobuf wire format: numbered pieces, one after the other.

use super::Unreadable;

/// The content of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Piece<'a> {
    pub(super) fn number(self) -> Result<u64, Unreadable> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(_) => Err(Unreadable::Broken),
        }
    }

    pub(super) fn bytes(self) -> Result<&'a [u8], Unreadable> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) => Err(Unreadable::Broken),
        }
    }
}

/// All fields of a message, in the order of the bytes.
pub(super) fn pieces(mut bytes: &[u8]) -> Result<Vec<(u32, Piece<'_>)>, Unreadable> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let number = u32::try_from(tag >> 3).map_err(|_| Unreadable::Broken)?;
        let piece = match tag & 7 {
            0 => Piece::Number(varint(&mut bytes)?),
            1 => Piece::Bytes(take(&mut bytes, 8)?),
            2 => {
                let length = varint(&mut bytes)?;
                let length = usize::try_from(length).map_err(|_| Unreadable::Broken)?;
                Piece::Bytes(take(&mut bytes, length)?)
            }
            5 => Piece::Bytes(take(&mut bytes, 4)?),
            _ => return Err(Unreadable::Broken),
        };
        found.push((number, piece));
    }
    Ok(found)
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8], Unreadable> {
    let (head, tail) = bytes.split_at_checked(length).ok_or(Unreadable::Broken)?;
    *bytes = tail;
    Ok(head)
}

/// Seven bits per byte, lowest first, at most ten bytes.
fn varint(bytes: &mut &[u8]) -> Result<u64, Unreadable> {
    let mut number = 0_u64;
    for shift in (0..70).step_by(7) {
        let byte = take(bytes, 1)?.first().copied().unwrap_or_default();
        number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Unreadable::Broken)
}
