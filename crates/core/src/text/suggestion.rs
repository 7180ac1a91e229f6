//! What a person may have meant.

use strsim::levenshtein;

/// Words that differ in more letters are not mistaken for each other.
const FARTHEST: usize = 4;

/// The one of `known` that is nearest to a mistyped word, if it is near enough to be meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters wrong is a different word.
    let limit = (word.chars().count() / 3).clamp(1, FARTHEST);
    let near = known
        .into_iter()
        .map(|name| (levenshtein(word, name), name));
    let near = near.filter(|(distance, _)| *distance <= limit);
    near.min().map(|(_, name)| name)
}
