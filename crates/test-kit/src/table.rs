//! Tables of tests, and what texts must say.

/// The rows of a table: a line each, `|` between cells, blanks around them without meaning.
#[track_caller]
pub fn rows<const N: usize>(table: &str) -> Vec<[&str; N]> {
    let mut rows = Vec::new();
    for line in table.lines().filter(|line| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        rows.push(<[&str; N]>::try_from(cells).unwrap());
    }
    rows
}

/// Keys with each of their values: a line is `key = value ¦ value`.
#[track_caller]
pub fn pairs(table: &str) -> Vec<(&str, &str)> {
    let lines = table.lines().filter(|line| !line.trim().is_empty());
    let lines = lines.map(|line| line.split_once('=').unwrap());
    let pairs = lines.flat_map(|(key, values)| {
        let values = values.split('¦').map(str::trim);
        values.map(move |value| (key.trim(), value))
    });
    pairs.collect()
}

/// Fails, and shows the text, unless it contains these words.
#[track_caller]
pub fn says(text: &str, words: &str) {
    assert!(text.contains(words), "{words:?} is missing: {text}");
}

/// The same for how it begins.
#[track_caller]
pub fn begins(text: &str, words: &str) {
    assert!(
        text.starts_with(words),
        "{words:?} is not the beginning: {text}"
    );
}

/// The same for how it ends.
#[track_caller]
pub fn ends(text: &str, words: &str) {
    assert!(text.ends_with(words), "{words:?} is not the end: {text}");
}
