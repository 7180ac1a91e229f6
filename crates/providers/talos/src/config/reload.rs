//! A file that changes: a good one takes the place of the one in force, a bad one does not.

use std::sync::Arc;

use super::{Config, ConfigError};

/// The configuration in force, and the text that was last looked at.
#[derive(Clone, Debug)]
pub struct Held {
    current: Arc<Config>,
    last: String,
}

/// What came of a file that was offered. Whoever offers logs it; the process stays healthy either way.
#[derive(Clone, Debug)]
pub enum Offer {
    /// It is the text that was looked at last: nothing to do, and nothing to say again.
    Same,
    /// It is in force from now on.
    Taken(Arc<Config>),
    /// It is refused; the old one stays in force.
    Refused(ConfigError),
}

impl Held {
    /// Reads the file that the process starts with; a bad one stops the start.
    pub fn start(text: &str) -> Result<Self, ConfigError> {
        Ok(Self {
            current: Arc::new(Config::read(text)?),
            last: text.to_owned(),
        })
    }

    /// What is in force.
    pub fn current(&self) -> &Arc<Config> {
        &self.current
    }

    /// Looks at a file that may have changed.
    pub fn offer(&mut self, text: &str) -> Offer {
        if text == self.last {
            return Offer::Same;
        }
        text.clone_into(&mut self.last);
        match Config::read(text) {
            Ok(config) => {
                self.current = Arc::new(config);
                Offer::Taken(Arc::clone(&self.current))
            }
            Err(error) => Offer::Refused(error),
        }
    }
}
