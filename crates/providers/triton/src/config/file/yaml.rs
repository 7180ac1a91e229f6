//! The YAML form. Every known key is read as the text that was written: nothing is guessed about
//! fingerprints that look like numbers.

use std::collections::BTreeMap;
use std::fmt;

use bowline_provider::{first_document, first_line};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::super::table::Section;
use super::{FileContent, row};

pub(super) fn read(text: &str) -> Result<FileContent, String> {
    let file: Option<File> = first_document(text).map_err(|error| first_line(&error))?;
    let mut content = file.unwrap_or_default().0;
    content.yaml = true;
    Ok(content)
}

#[derive(Default)]
struct File(FileContent);

impl<'de> Deserialize<'de> for File {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Sections;
        impl<'de> Visitor<'de> for Sections {
            type Value = File;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("sections of keys and values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<File, A::Error> {
                let mut content = FileContent::default();
                while let Some(name) = map.next_key::<String>()? {
                    let mut all = Section::ALL.into_iter();
                    if let Some(section) = all.find(|section| section.yaml() == name) {
                        let read = map
                            .next_value_seed(Maybe(Keys(section)))?
                            .unwrap_or_default();
                        for (key, value) in read.values {
                            content.values.insert((section, key), value);
                        }
                        content.warnings.extend(read.warnings);
                    } else if name == "profiles" {
                        map.next_value::<IgnoredAny>()?;
                        content.profiles = true;
                    } else {
                        map.next_value::<IgnoredAny>()?;
                        content
                            .warnings
                            .push(format!("section {name} is not known"));
                    }
                }
                Ok(File(content))
            }
        }
        deserializer.deserialize_map(Sections)
    }
}

struct Keys(Section);

#[derive(Default)]
struct Read {
    values: BTreeMap<&'static str, String>,
    warnings: Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Keys {
    type Value = Read;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Read, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Keys {
    type Value = Read;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("keys and values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Read, A::Error> {
        let mut read = Read::default();
        while let Some(name) = map.next_key::<String>()? {
            let Some(row) = row(self.0, |row| row.yaml_key() == name) else {
                map.next_value::<IgnoredAny>()?;
                let title = self.0.yaml();
                read.warnings
                    .push(format!("key {title}.{name} is not known"));
                continue;
            };
            let value = if row.list {
                map.next_value_seed(Maybe(Listed))?
            } else {
                map.next_value::<Option<String>>()?
            };
            if let Some(value) = value {
                read.values.insert(row.key(), value);
            }
        }
        Ok(read)
    }
}

/// Something, or null.
struct Maybe<S>(S);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Maybe<S> {
    type Value = Option<S::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de, S: DeserializeSeed<'de>> Visitor<'de> for Maybe<S> {
    type Value = Option<S::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        self.0.deserialize(deserializer).map(Some)
    }
}

/// A list, or a text with commas.
struct Listed;

impl<'de> DeserializeSeed<'de> for Listed {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Listed {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list, or texts separated by commas")
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_u64<E>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<String, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element::<String>()? {
            items.push(item);
        }
        Ok(items.join(","))
    }
}
