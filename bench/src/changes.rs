//! What changes in a collection, seen through a watch that is opened again whenever it ends: an API server under load
//! closes watches that fall behind.

use std::time::Duration;

use anyhow::{Context, Result};
use futures::TryStreamExt;
use futures::io::AsyncBufReadExt;
use kube::Client;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::progress::say;
use crate::requests;

/// Before a watch is opened again.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) struct Changes {
    client: Client,
    /// The path of the collection.
    collection: &'static str,
    /// What was seen.
    version: String,
}

#[derive(Deserialize)]
struct Change<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct List<'a> {
    metadata: Metadata,
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Versioned {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: String,
}

impl Changes {
    /// Of that collection from now on.
    pub(crate) async fn of(client: &Client, collection: &'static str) -> Result<Self> {
        Ok(Self {
            client: client.clone(),
            collection,
            version: version(client, collection).await?,
        })
    }

    /// Does it for each object that is added or changed, for ever.
    pub(crate) async fn follow<T: DeserializeOwned>(
        mut self,
        mut each: impl FnMut(T),
    ) -> Result<()> {
        loop {
            if let Err(error) = self.watch(&mut each).await {
                say(&format!("listing {} again: {error:#}", self.collection));
                self.list(&mut each).await?;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Until the watch ends; an error if it cannot be opened again at the same place.
    async fn watch<T: DeserializeOwned>(&mut self, each: &mut impl FnMut(T)) -> Result<()> {
        let Self {
            collection,
            version,
            ..
        } = self;
        let path = format!("{collection}?watch=true&resourceVersion={version}");
        let request = http::Request::get(path).body(Vec::new())?;
        let mut lines = self.client.request_stream(request).await?.lines();
        let mut last = None;
        // A connection that breaks is a watch that ends.
        while let Ok(Some(line)) = lines.try_next().await {
            let change: Change<'_> = serde_json::from_str(&line)?;
            match change.kind {
                "ADDED" | "MODIFIED" => each(serde_json::from_str(change.object.get())?),
                "ERROR" => anyhow::bail!("{}", change.object),
                _ => {}
            }
            last = Some(line);
        }
        if let Some(line) = last {
            let change: Change<'_> = serde_json::from_str(&line)?;
            let object: Versioned = serde_json::from_str(change.object.get())?;
            self.version = object.metadata.resource_version;
        }
        Ok(())
    }

    async fn list<T: DeserializeOwned>(&mut self, each: &mut impl FnMut(T)) -> Result<()> {
        let list = requests::get(&self.client, self.collection).await?;
        let list: List<'_> = serde_json::from_str(&list)?;
        for item in list.items {
            each(serde_json::from_str(item.get())?);
        }
        self.version = list.metadata.resource_version;
        Ok(())
    }
}

/// The version from which a watch sees all that comes.
pub(crate) async fn version(client: &Client, collection: &str) -> Result<String> {
    let list = requests::get(client, &format!("{collection}?limit=1")).await?;
    let list: Versioned = serde_json::from_str(&list).context("a list without a version")?;
    Ok(list.metadata.resource_version)
}
