//! A text that is being written, with a limit.

/// What one rendering, and any text on the way to it, may be long. The largest thing a rendered text
/// becomes is an annotation, and all annotations of an object together may have 256 KiB; nobody
/// writes a quarter of that with one rule.
pub(crate) const LONGEST_TEXT: usize = 64 * 1024;

/// A text that is being written.
#[derive(Default)]
pub(crate) struct Buffer(String);

impl Buffer {
    pub(crate) fn push(&mut self, text: &str) -> Result<(), String> {
        if self.0.len() + text.len() > LONGEST_TEXT {
            return Err(too_long());
        }
        self.0.push_str(text);
        Ok(())
    }

    pub(crate) fn repeat(&mut self, fill: char, times: usize) -> Result<(), String> {
        if self.0.len().saturating_add(times) > LONGEST_TEXT {
            return Err(too_long());
        }
        self.0.extend(std::iter::repeat_n(fill, times));
        Ok(())
    }

    pub(crate) fn finish(self) -> String {
        self.0
    }
}

pub(crate) fn too_long() -> String {
    format!("the text would be longer than {LONGEST_TEXT} bytes")
}
