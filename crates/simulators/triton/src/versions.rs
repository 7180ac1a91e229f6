//! Which version of the API a caller accepts: ranges as npm writes them (`~9||~8`).

/// What the server knows, ascending.
pub(super) const VERSIONS: [(u64, u64, u64); 6] = [
    (7, 0, 0),
    (7, 1, 0),
    (7, 2, 0),
    (7, 3, 0),
    (8, 0, 0),
    (9, 0, 0),
];

/// Whether some version lies in the range; nothing asked for is the newest.
pub(super) fn supported(range: &str) -> bool {
    let mut alternatives = range.split("||");
    alternatives.any(|one| VERSIONS.iter().any(|version| fits(one.trim(), *version)))
}

fn fits(range: &str, version: (u64, u64, u64)) -> bool {
    range
        .split_whitespace()
        .all(|part| fits_part(part, version))
}

fn fits_part(part: &str, version: (u64, u64, u64)) -> bool {
    let digits = part.find(|c: char| c.is_ascii_digit() || "*xX".contains(c));
    let (sign, rest) = part.split_at(digits.unwrap_or(part.len()));
    let Some(wanted) = numbers(rest) else {
        return false;
    };
    let floor = (
        wanted.first().copied().unwrap_or(0),
        wanted.get(1).copied().unwrap_or(0),
        wanted.get(2).copied().unwrap_or(0),
    );
    let seen = [version.0, version.1, version.2];
    let same = |count: usize| wanted.iter().zip(seen).take(count).all(|(a, b)| *a == b);
    match sign {
        "" | "=" | "v" => same(3),
        "~" => same(2) && version >= floor,
        "^" => same(1) && version >= floor,
        ">=" => version >= floor,
        ">" => version > floor,
        "<=" => version <= floor,
        "<" => version < floor,
        _ => false,
    }
}

/// The numbers before the first wildcard; none if it is no version.
fn numbers(text: &str) -> Option<Vec<u64>> {
    let mut found = Vec::new();
    for part in text.split('.') {
        if matches!(part, "" | "*" | "x" | "X") {
            return Some(found);
        }
        found.push(part.parse().ok()?);
    }
    (found.len() <= 3).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_supported_if_one_version_lies_in_it() {
        for (range, wanted) in [
            ("", true),
            ("*", true),
            ("~9||~8", true),
            ("~8", true),
            ("~7.2", true),
            ("7.0.0", true),
            ("7.x", true),
            ("^7.1", true),
            (">=8 <10", true),
            ("~6.5||~7", true),
            ("~6", false),
            ("~7.4", false),
            ("10", false),
            (">9", false),
            ("nonsense", false),
        ] {
            assert_eq!(supported(range), wanted, "{range}");
        }
    }
}
