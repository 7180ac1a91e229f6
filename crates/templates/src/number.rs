//! Numbers and characters as Go writes them.

/// A number of a template's text: what it can be taken for depends on where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Number {
    pub(crate) text: String,
    /// Its value as a whole number, if it has one (`1e3` has).
    pub(crate) int: Option<i64>,
    /// Its value as a fraction, if it is written as one.
    pub(crate) float: Option<f64>,
}

impl Number {
    /// Reads a number without a sign of its being complex.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let illegal = || format!("illegal number syntax: {text:?}");
        let looks_whole = !is_fraction(text);
        if looks_whole {
            let magnitude = whole(text).ok_or_else(illegal)?;
            let int = match magnitude {
                Whole::Int(int) => Some(int),
                // Go keeps it as an unsigned number, which no argument takes.
                Whole::Unsigned => None,
                Whole::Huge => return Err(format!("integer overflow: {text:?}")),
            };
            return Ok(Self {
                text: text.to_owned(),
                int,
                float: None,
            });
        }
        let float = fraction(text).ok_or_else(illegal)?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the comparison finds what is lost"
        )]
        #[expect(
            clippy::cast_precision_loss,
            reason = "the comparison finds what is lost"
        )]
        #[expect(clippy::float_cmp, reason = "only an exact whole number is one")]
        let int = Some(float as i64).filter(|int| *int as f64 == float);
        Ok(Self {
            text: text.to_owned(),
            int,
            float: Some(float),
        })
    }

    /// A character in quotes is the number of its code point.
    pub(crate) fn character(quoted: &str) -> Result<Self, String> {
        let malformed = || format!("malformed character constant: {quoted}");
        let inner = quoted
            .strip_prefix('\'')
            .and_then(|rest| rest.strip_suffix('\''))
            .ok_or_else(malformed)?;
        let mut rest = inner.chars();
        let character = unquote_one(&mut rest, '\'').ok_or_else(malformed)?;
        if rest.next().is_some() {
            return Err(malformed());
        }
        Ok(Self {
            text: quoted.to_owned(),
            int: Some(i64::from(u32::from(character))),
            float: None,
        })
    }
}

fn is_fraction(text: &str) -> bool {
    let hexadecimal = unsigned(text).starts_with("0x") || unsigned(text).starts_with("0X");
    if hexadecimal {
        text.contains(['.', 'p', 'P'])
    } else {
        text.contains(['.', 'e', 'E'])
    }
}

fn unsigned(text: &str) -> &str {
    text.strip_prefix(['+', '-']).unwrap_or(text)
}

enum Whole {
    Int(i64),
    Unsigned,
    Huge,
}

fn whole(text: &str) -> Option<Whole> {
    let negative = text.starts_with('-');
    let body = unsigned(text);
    let lower = body.to_ascii_lowercase();
    let (radix, digits) = if let Some(digits) = lower.strip_prefix("0x") {
        (16, digits)
    } else if let Some(digits) = lower.strip_prefix("0b") {
        (2, digits)
    } else if let Some(digits) = lower.strip_prefix("0o") {
        (8, digits)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, &lower[1..])
    } else {
        (10, lower.as_str())
    };
    let digits = without_underscores(digits, radix != 10)?;
    let mut value: i128 = 0;
    for digit in digits.chars() {
        // Saturates far beyond what fits, so that a long row of digits stays huge.
        value = value
            .saturating_mul(i128::from(radix))
            .saturating_add(i128::from(digit.to_digit(radix)?));
    }
    let value = if negative { -value } else { value };
    Some(match i64::try_from(value) {
        Ok(int) => Whole::Int(int),
        Err(_) if u64::try_from(value).is_ok() => Whole::Unsigned,
        Err(_) => Whole::Huge,
    })
}

/// Underscores stand between digits, or after a prefix.
fn without_underscores(digits: &str, prefixed: bool) -> Option<String> {
    let misplaced = digits.ends_with('_')
        || digits.contains("__")
        || (digits.starts_with('_') && !prefixed)
        || digits.is_empty();
    (!misplaced).then(|| digits.replace('_', ""))
}

fn fraction(text: &str) -> Option<f64> {
    let body = unsigned(text);
    // Hexadecimal fractions exist in Go; nobody has written one in a rule.
    if body.starts_with("0x") || body.starts_with("0X") || text.contains('_') {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    value.is_finite().then_some(value)
}

/// The inside of a text in double quotes.
pub(crate) fn unquote(inner: &str) -> Option<String> {
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner.chars();
    while !rest.as_str().is_empty() {
        text.push(unquote_one(&mut rest, '"')?);
    }
    Some(text)
}

/// One character, perhaps escaped. A byte beyond ASCII that is written as an escape of its own is not
/// a character; Go would put the byte itself.
fn unquote_one(rest: &mut std::str::Chars<'_>, quote: char) -> Option<char> {
    let first = rest.next()?;
    if first == quote || first == '\n' {
        return None;
    }
    if first != '\\' {
        return Some(first);
    }
    let escape = rest.next()?;
    Some(match escape {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '\\' => '\\',
        'x' => ascii(digits(rest, 2, 16)?)?,
        'u' => char::from_u32(digits(rest, 4, 16)?)?,
        'U' => char::from_u32(digits(rest, 8, 16)?)?,
        '0'..='7' => {
            let two = digits(rest, 2, 8)?;
            ascii(escape.to_digit(8)? * 64 + two)?
        }
        other if other == quote => other,
        _ => return None,
    })
}

fn ascii(code: u32) -> Option<char> {
    char::from_u32(code).filter(char::is_ascii)
}

fn digits(rest: &mut std::str::Chars<'_>, count: usize, radix: u32) -> Option<u32> {
    let mut value = 0;
    for _ in 0..count {
        value = value * radix + rest.next()?.to_digit(radix)?;
    }
    Some(value)
}

/// From this exponent on Go writes one, if nobody asked for a precision.
const FIRST_EXPONENT: i32 = 6;

/// A number with a fraction as `print` shows it.
pub(crate) fn shortest(value: f64) -> String {
    general(value, None)
}

/// `%e`: one digit, `precision` more, an exponent of at least two digits.
pub(crate) fn exponential(value: f64, precision: Option<usize>) -> String {
    let text = match precision {
        Some(precision) => format!("{value:.precision$e}"),
        None => format!("{value:e}"),
    };
    let Some((digits, exponent)) = text.split_once('e') else {
        return special(value);
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// `%g`: the shorter of both forms.
pub(crate) fn general(value: f64, precision: Option<usize>) -> String {
    let text = match precision {
        Some(precision) => format!("{value:.*e}", precision.max(1) - 1),
        None => format!("{value:e}"),
    };
    let Some((digits, exponent)) = text.split_once('e') else {
        return special(value);
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits = if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    };
    let count = i32::try_from(digits.chars().filter(char::is_ascii_digit).count()).unwrap_or(0);
    let most = match precision {
        None => FIRST_EXPONENT,
        Some(precision) => {
            let precision = i32::try_from(precision.max(1)).unwrap_or(i32::MAX);
            if precision > count && count > exponent {
                count
            } else {
                precision
            }
        }
    };
    let fraction = usize::try_from(count - 1).unwrap_or(0);
    if exponent < -4 || exponent >= most {
        return exponential(value, Some(fraction));
    }
    let places = usize::try_from((count - 1 - exponent).max(0)).unwrap_or(0);
    format!("{value:.places$}")
}

fn special(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value > 0.0 {
        "+Inf".to_owned()
    } else {
        "-Inf".to_owned()
    }
}
