//! How the sandbox shows its story: colours and a live line on a terminal, plain lines elsewhere.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Something happened.
    Happened,
    /// Something that was expected came true.
    Good,
    /// Something that was expected did not.
    Bad,
    /// A warning of the manager.
    Warning,
}

impl Mark {
    fn sign(self) -> &'static str {
        match self {
            Self::Happened => "·",
            Self::Good => "✓",
            Self::Bad => "✗",
            Self::Warning => "!",
        }
    }

    fn colour(self) -> &'static str {
        match self {
            Self::Happened => "",
            Self::Good => GREEN,
            Self::Bad => RED,
            Self::Warning => YELLOW,
        }
    }
}

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const RESET: &str = "\x1b[0m";
/// Back to the start of the line, and the line erased.
const ERASE: &str = "\r\x1b[2K";

/// Writes lines; a reader that has gone away is no error.
pub(super) struct Display {
    out: Mutex<Box<dyn Write + Send>>,
    terminal: bool,
    begun: Instant,
}

impl Display {
    /// A display on standard output. `NO_COLOR` makes it plain.
    pub(super) fn stdout() -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let terminal = std::io::stdout().is_terminal() && !plain;
        Self::on(Box::new(std::io::stdout()), terminal)
    }

    fn on(out: Box<dyn Write + Send>, terminal: bool) -> Self {
        Self {
            out: Mutex::new(out),
            terminal,
            begun: Instant::now(),
        }
    }

    /// A line of its own, without a time.
    pub(super) fn say(&self, text: &str) {
        self.write(&format!("{text}\n"));
    }

    /// The heading of a chapter.
    pub(super) fn chapter(&self, text: &str) {
        let heading = self.paint(BOLD, text);
        self.write(&format!("\n{heading}\n"));
    }

    /// What the reader should know beforehand.
    pub(super) fn note(&self, text: &str) {
        let note = self.paint(DIM, text);
        self.write(&format!("   {note}\n"));
    }

    /// Something that happened, with the time since the start.
    pub(super) fn line(&self, mark: Mark, text: &str) {
        let time = self.paint(
            DIM,
            &format!("{:>6.1}s", self.begun.elapsed().as_secs_f64()),
        );
        let sign = self.paint(mark.colour(), mark.sign());
        self.write(&format!("{time} {sign} {text}\n"));
    }

    /// What is being waited for: a live line on a terminal, nothing elsewhere.
    pub(super) fn waiting(&self, text: &str, since: Duration) {
        if self.terminal {
            let seconds = since.as_secs();
            self.write_raw(&format!(
                "{ERASE}        {DIM}… {text} ({seconds} s){RESET}"
            ));
        }
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.terminal && !colour.is_empty() {
            format!("{colour}{text}{RESET}")
        } else {
            text.to_owned()
        }
    }

    fn write(&self, text: &str) {
        if self.terminal {
            self.write_raw(&format!("{ERASE}{text}"));
        } else {
            self.write_raw(text);
        }
    }

    fn write_raw(&self, text: &str) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // The reader may have closed the pipe (`bowline sandbox | head`); the story goes on.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(text);
            Ok(text.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn shown(terminal: bool) -> String {
        let page = Page::default();
        let display = Display::on(Box::new(page.clone()), terminal);
        display.chapter("One");
        display.waiting("nodes", Duration::from_secs(3));
        display.line(Mark::Good, "done");
        String::from_utf8(page.0.lock().unwrap().clone()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_terminal_there_are_plain_lines_only() {
        assert_eq!(shown(false), "\nOne\n   0.0s ✓ done\n");
    }

    #[tokio::test(start_paused = true)]
    async fn a_terminal_gets_colours_and_a_live_line() {
        let text = shown(true);
        assert!(text.contains("… nodes (3 s)") && text.contains(GREEN) && text.contains(ERASE));
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_pipe_does_not_stop_the_story() {
        Display::on(Box::new(Closed), false).say("anybody there?");
    }
}
