//! Patterns with `*`: what fault rules and journal filters name calls with.

/// Whether `text` fits `pattern`, where `*` stands for any characters, slashes included.
pub fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = parts.next().and_then(|head| text.strip_prefix(head)) else {
        return false;
    };
    let mut rest = rest;
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        // The leftmost place leaves the most text for the parts that follow.
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "/v1/servers", true),
            ("/v1/servers", "/v1/servers", true),
            ("/v1/servers", "/v1/servers/1", false),
            ("/v1/servers/*", "/v1/servers/1", true),
            ("/v1/servers/*", "/v1/servers", false),
            ("*/servers", "/v1/servers", true),
            ("/v1/*/start", "/v1/servers/1/start", true),
            ("/v1/*/start", "/v1/servers/1/stop", false),
            ("a*b*b", "ab", false),
            ("a*b*b", "abxb", true),
            ("", "", true),
            ("", "x", false),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} on {text}");
        }
    }
}
