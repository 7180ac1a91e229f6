//! Wherever a secret is put, no log, error or debug text shows it.
