//! Objects in protobuf, the form in which the API server keeps its own types: what is used is read right from the
//! bytes, and everything else is passed over by its length.
//!
//! A decoder that is generated would hold each message whole, and a Node is mostly images and managed fields.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::core::Status;
use kube::core::response::{StatusCause, StatusDetails, StatusSummary};
use kube::core::watch::{Bookmark, BookmarkMeta};

use super::Metadata;

/// The media type.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// What every object begins with.
const MAGIC: &[u8] = b"k8s\0";

/// Reads an object from its fields.
pub(crate) type ReadProtobuf<K> = fn(Fields<'_>) -> Result<K, Malformed>;

/// Bytes of another form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not what the API server writes as protobuf")]
pub struct Malformed;

/// As the errors of the other form.
impl From<Malformed> for serde_json::Error {
    fn from(malformed: Malformed) -> Self {
        serde::de::Error::custom(malformed)
    }
}

/// The fields of a message that are left to read: their numbers and values.
#[derive(Clone)]
pub struct Fields<'a>(pub(crate) &'a [u8]);

/// What a field holds.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Of a type that no field has that is used.
    Other,
}

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        // Nearly all are small.
        if let [byte @ ..0x80, rest @ ..] = self.0 {
            self.0 = rest;
            return Ok((*byte).into());
        }
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or(Malformed)?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    fn field(&mut self) -> Result<(u64, Value<'a>), Malformed> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(usize::try_from(length).map_err(|_| Malformed)?)?)
            }
            1 => self.take(8).map(|_| Value::Other)?,
            5 => self.take(4).map(|_| Value::Other)?,
            _ => return Err(Malformed),
        };
        Ok((tag >> 3, value))
    }

    /// The texts of these fields; empty where one is missing.
    pub(super) fn texts<const N: usize>(
        self,
        numbers: [u64; N],
    ) -> Result<[&'a str; N], Malformed> {
        let mut texts = [""; N];
        for field in self {
            let (number, value) = field?;
            if let Some(at) = numbers.iter().position(|it| *it == number) {
                texts[at] = value.text()?;
            }
        }
        Ok(texts)
    }

    /// The pairs of a map.
    fn pairs<M>(self, number: u64) -> Result<M, Malformed>
    where
        M: FromIterator<(&'a str, &'a str)>,
    {
        let pair = |field: Result<(u64, Value<'a>), Malformed>| match field {
            Ok((it, entry)) if it == number => {
                let pair = entry.message().and_then(|entry| entry.texts([1, 2]));
                Some(pair.map(|[key, value]| (key, value)))
            }
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        };
        self.filter_map(pair).collect()
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.0.is_empty()).then(|| self.field())
    }
}

impl<'a> Value<'a> {
    fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) | Self::Other => Err(Malformed),
        }
    }

    pub(crate) fn text(self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed)
    }

    pub(crate) fn message(self) -> Result<Fields<'a>, Malformed> {
        self.bytes().map(Fields)
    }

    fn number(self) -> Result<u64, Malformed> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(_) | Self::Other => Err(Malformed),
        }
    }

    /// A time, in whole seconds as in JSON; none where it is zero.
    pub(crate) fn time(self) -> Result<Option<Timestamp>, Malformed> {
        let mut time = None;
        for field in self.message()? {
            if let (1, seconds) = field? {
                let seconds = seconds.number()?.cast_signed();
                time = Some(Timestamp::from_second(seconds).map_err(|_| Malformed)?);
            }
        }
        Ok(time)
    }
}

/// The object in the envelope that the API server sends.
pub(crate) fn opened(envelope: &[u8]) -> Result<Fields<'_>, Malformed> {
    for field in Fields(envelope.strip_prefix(MAGIC).ok_or(Malformed)?) {
        if let (2, object) = field? {
            return object.message();
        }
    }
    Err(Malformed)
}

/// The type of an event of a watch, and its object in its envelope.
pub(crate) fn event(frame: &[u8]) -> Result<(&str, &[u8]), Malformed> {
    let (mut kind, mut object) = ("", &[][..]);
    for field in Fields(frame) {
        match field? {
            (1, value) => kind = value.text()?,
            (2, value) => {
                for field in value.message()? {
                    if let (1, raw) = field? {
                        object = raw.bytes()?;
                    }
                }
            }
            _ => {}
        }
    }
    Ok((kind, object))
}

/// The metadata of an object of any type.
pub(crate) fn metadata(object: Fields<'_>) -> Result<ObjectMeta, Malformed> {
    for field in object {
        if let (1, metadata) = field? {
            return Ok(Metadata::from_protobuf(metadata.message()?)?.with_maps());
        }
    }
    Ok(ObjectMeta::default())
}

impl Metadata {
    pub(super) fn from_protobuf(metadata: Fields<'_>) -> Result<Self, Malformed> {
        let mut used = Self {
            labels: Some(metadata.clone().pairs(11)?),
            annotations: Some(metadata.clone().pairs(12)?),
            ..Self::default()
        };
        let set = |value: Value<'_>| -> Result<Option<String>, Malformed> {
            Ok(Some(value.text()?.to_owned()).filter(|text| !text.is_empty()))
        };
        for field in metadata {
            match field? {
                (1, name) => used.name = set(name)?,
                (3, namespace) => used.namespace = set(namespace)?,
                (5, uid) => used.uid = set(uid)?,
                (6, version) => used.resource_version = set(version)?,
                (8, time) => used.creation_timestamp = time.time()?.map(Time),
                (9, time) => used.deletion_timestamp = time.time()?.map(Time),
                (14, finalizer) => {
                    let finalizers = used.finalizers.get_or_insert_default();
                    finalizers.push(finalizer.text()?.to_owned());
                }
                _ => {}
            }
        }
        Ok(used)
    }
}

/// What a bookmark says.
pub(crate) fn bookmark(object: Fields<'_>) -> Result<Bookmark, Malformed> {
    let used = metadata(object)?;
    Ok(Bookmark {
        types: kube::core::TypeMeta::default(),
        metadata: BookmarkMeta {
            resource_version: used.resource_version.unwrap_or_default(),
            annotations: used.annotations.unwrap_or_default(),
        },
    })
}

/// What the server says instead of an object: what is used of it.
pub(crate) fn status(object: Fields<'_>) -> Result<Status, Malformed> {
    let mut status = Status::default();
    for field in object {
        match field? {
            (2, summary) => {
                status.status = match summary.text()? {
                    "Success" => Some(StatusSummary::Success),
                    "Failure" => Some(StatusSummary::Failure),
                    _ => None,
                };
            }
            (3, message) => message.text()?.clone_into(&mut status.message),
            (4, reason) => reason.text()?.clone_into(&mut status.reason),
            (5, details) => status.details = Some(status_details(details.message()?)?),
            (6, code) => status.code = u16::try_from(code.number()?).map_err(|_| Malformed)?,
            _ => {}
        }
    }
    Ok(status)
}

fn status_details(details: Fields<'_>) -> Result<StatusDetails, Malformed> {
    let (mut causes, mut retry_after_seconds) = (Vec::new(), 0);
    for field in details {
        match field? {
            (4, cause) => {
                let [reason, message, field] = cause.message()?.texts([1, 2, 3])?;
                causes.push(StatusCause {
                    reason: reason.to_owned(),
                    message: message.to_owned(),
                    field: field.to_owned(),
                });
            }
            (5, seconds) => {
                retry_after_seconds = u32::try_from(seconds.number()?).map_err(|_| Malformed)?;
            }
            _ => {}
        }
    }
    Ok(StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes,
        retry_after_seconds,
    })
}
