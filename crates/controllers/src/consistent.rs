//! Reads that prove absence: the API server answers a list without a resource version from its storage, never from a
//! cache that lags behind.

use std::collections::BTreeMap;

use kube::Api;
use kube::api::ListParams;

use crate::store::Stored;

/// Objects of one page: their metadata is small, and thousands of Nodes are a few pages.
const PAGE: u32 = 500;

/// The uids of all objects of a kind, by key. What is not in it did not exist when it was asked for.
pub(crate) async fn uids<T: Stored>(
    client: &kube::Client,
) -> kube::Result<BTreeMap<T::Key, String>> {
    let api: Api<T::Object> = Api::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    params.field_selector = T::fields();
    let mut uids = BTreeMap::new();
    loop {
        let page = api.list_metadata(&params).await?;
        for object in page.items {
            let uid = object.metadata.uid.clone().unwrap_or_default();
            uids.insert(T::key_in(&object.metadata), uid);
        }
        match page.metadata.continue_ {
            Some(token) if !token.is_empty() => params = params.continue_token(&token),
            _ => return Ok(uids),
        }
    }
}
