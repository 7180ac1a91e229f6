//! Amounts in their canonical form: `1000m` is written `1`, `1024Mi` is written `1Gi`.

const DECIMAL: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];

const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// How an amount was written, and is written again.
enum Style {
    Decimal,
    Binary(u32),
    Exponent,
}

/// The canonical form of an amount; `None` if it is not one. Amounts that do not fit the
/// arithmetic stay as they are.
pub(super) fn canonical(text: &str) -> Option<String> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let sign = if text.starts_with('-') { "-" } else { "" };
    let end = unsigned
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (style, power) = read_suffix(suffix)?;
    let scale = i32::try_from(fraction.len()).ok();
    let exact = digits
        .parse::<i128>()
        .ok()
        .zip(scale)
        .and_then(|(digits, scale)| write(digits, power.checked_sub(scale)?, &style));
    Some(match exact {
        Some(amount) if amount == "0" => amount,
        Some(amount) => format!("{sign}{amount}"),
        None => text.to_owned(),
    })
}

fn read_suffix(suffix: &str) -> Option<(Style, i32)> {
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((Style::Decimal, *power));
    }
    if let Some(place) = BINARY.iter().position(|name| *name == suffix) {
        return Some((Style::Binary(u32::try_from(place).ok()?), 0));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((Style::Exponent, exponent))
}

/// Writes `digits × 10^power` (times the binary unit); `None` on overflow.
fn write(digits: i128, power: i32, style: &Style) -> Option<String> {
    if digits == 0 {
        return Some("0".to_owned());
    }
    let digits = match style {
        Style::Binary(place) => digits.checked_mul(1024_i128.checked_pow(*place)?)?,
        _ => digits,
    };
    let divisor = 10_i128.checked_pow(u32::try_from(-power).unwrap_or(0))?;
    // Small amounts in binary units are written with decimal ones, which can be exact.
    if matches!(style, Style::Binary(_)) && digits / divisor >= 1024 {
        let mut amount = digits / divisor + i128::from(digits % divisor != 0);
        let mut place = 0;
        while amount % 1024 == 0 && place + 1 < BINARY.len() {
            amount /= 1024;
            place += 1;
        }
        return Some(format!("{amount}{}", BINARY[place]));
    }
    let (digits, power) = whole_thousands(digits, power)?;
    if matches!(style, Style::Exponent) {
        return Some(match power {
            0 => digits.to_string(),
            power => format!("{digits}e{power}"),
        });
    }
    let (name, _) = DECIMAL.iter().find(|(_, known)| *known == power)?;
    Some(format!("{digits}{name}"))
}

/// The shortest digits for a power of a thousand from nano to exa; what is finer is rounded up.
fn whole_thousands(mut digits: i128, mut power: i32) -> Option<(i128, i32)> {
    while power < -9 {
        digits = digits / 10 + i128::from(digits % 10 != 0);
        power += 1;
    }
    while digits % 10 == 0 {
        digits /= 10;
        power += 1;
    }
    let wanted = (power.div_euclid(3) * 3).min(18);
    let digits = digits.checked_mul(10_i128.checked_pow(u32::try_from(power - wanted).ok()?)?)?;
    Some((digits, wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_in_their_shortest_form() {
        for (text, written) in [
            ("1", "1"),
            ("0", "0"),
            ("-0", "0"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("1.5", "1500m"),
            ("0.1", "100m"),
            (".5", "500m"),
            ("5.", "5"),
            ("+3", "3"),
            ("-3", "-3"),
            ("1000", "1k"),
            ("1024", "1024"),
            ("12000k", "12M"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("1536", "1536"),
            ("0.5Ki", "512"),
            ("1000Ki", "1000Ki"),
            ("16384Ki", "16Mi"),
            ("1e3", "1e3"),
            ("12e2", "1200"),
            ("1000e0", "1e3"),
            ("1E", "1E"),
            ("1000E", "1000E"),
            ("0.0000000001", "1n"),
            ("123456789n", "123456789n"),
            ("1500000u", "1500m"),
            ("3842044Ki", "3842044Ki"),
            ("110", "110"),
            ("0Gi", "0"),
            ("-1024Ki", "-1Mi"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(written), "{text}");
        }
        for text in [
            "", "much", "1 ", "1.2.3", ".", "1Zi", "1ee3", "-", "1mi", "e3",
        ] {
            assert_eq!(canonical(text), None, "{text}");
        }
    }
}
