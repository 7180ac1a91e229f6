//! The wire form of server-sent events, read piece by piece. Pure.

use thiserror::Error;

/// The longest event that is read. A VM with hundreds of addresses is a few KiB.
const LONGEST: usize = 4 * 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) data: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("an event is longer than {LONGEST} bytes")]
pub(super) struct TooLong;

/// Puts pieces together.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// What came after the last line's end.
    rest: Vec<u8>,
    name: String,
    data: Option<String>,
}

impl Reader {
    /// The events that this piece completes.
    pub(super) fn take(&mut self, piece: &[u8]) -> Result<Vec<Event>, TooLong> {
        self.rest.extend_from_slice(piece);
        let mut events = Vec::new();
        let mut start = 0;
        while let Some(length) = self.rest[start..].iter().position(|it| *it == b'\n') {
            let line = String::from_utf8_lossy(&self.rest[start..start + length]).into_owned();
            start += length + 1;
            events.extend(self.line(line.trim_end_matches('\r')));
        }
        self.rest.drain(..start);
        let kept = self.rest.len() + self.data.as_ref().map_or(0, String::len);
        if kept > LONGEST {
            Err(TooLong)
        } else {
            Ok(events)
        }
    }

    fn line(&mut self, line: &str) -> Option<Event> {
        if line.is_empty() {
            let name = std::mem::take(&mut self.name);
            return self.data.take().map(|data| Event { name, data });
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => match &mut self.data {
                None => self.data = Some(value.to_owned()),
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
            },
            // Comments keep connections alive; ids and retry times are not sent by this server.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WIRE: &str = "event: init\ndata: {\"id\":\"c1\"}\n\n: a comment\n\nevent: ping\r\n\
                        data: {\"ping\":1}\r\n\r\nevent: nothing\n\ndata: a\ndata: b\n\n";

    fn event(name: &str, data: &str) -> Event {
        Event {
            name: name.into(),
            data: data.into(),
        }
    }

    #[test]
    fn events_are_read_line_by_line() {
        let events = Reader::default().take(WIRE.as_bytes()).unwrap();
        let wanted = [
            event("init", "{\"id\":\"c1\"}"),
            event("ping", "{\"ping\":1}"),
            event("", "a\nb"),
        ];
        assert_eq!(events, wanted);
    }

    #[test]
    fn an_event_without_end_is_given_up() {
        let mut reader = Reader::default();
        let piece = vec![b'x'; LONGEST];
        assert_eq!(reader.take(&piece), Ok(Vec::new()));
        assert_eq!(reader.take(b"x"), Err(TooLong));
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_the_bytes_are_cut(at in 0..WIRE.len()) {
            let mut reader = Reader::default();
            let (first, second) = WIRE.as_bytes().split_at(at);
            let mut events = reader.take(first).unwrap();
            events.extend(reader.take(second).unwrap());
            prop_assert_eq!(events, Reader::default().take(WIRE.as_bytes()).unwrap());
        }

        #[test]
        fn any_bytes_are_read(piece in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Reader::default().take(&piece);
        }
    }
}
