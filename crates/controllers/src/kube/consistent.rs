//! Reads that prove absence: a list without a resource version comes from the storage of the API
//! server, never from a cache that lags behind.

use std::collections::BTreeMap;

use kube::Api;
use kube::api::ListParams;
use kube::core::ObjectList;

use crate::kube::objects::DeserializeGuard;
use crate::kube::store::Stored;

/// Objects of one page: their metadata is small, and thousands of Nodes are a few pages.
const PAGE: u32 = 500;
/// Pages of one list: half a million objects, which no cluster has. More is a server that begins again and again.
const MOST_PAGES: usize = 1000;

/// What there is under one key.
pub(crate) struct Sought<T: Stored> {
    /// The object; none if there was none.
    pub(crate) object: Option<DeserializeGuard<T::Object>>,
    /// The version at which that was so.
    pub(crate) version: String,
}

/// The object of that key. It is a list with a field selector, so that nobody needs the permission `get`.
pub(crate) async fn find<T: Stored>(
    api: &Api<DeserializeGuard<T::Object>>,
    key: &T::Key,
) -> kube::Result<Sought<T>> {
    let params = ListParams {
        field_selector: Some(T::selector(key)),
        ..ListParams::default()
    };
    let found: ObjectList<DeserializeGuard<T::Object>> = api.list(&params).await?;
    Ok(Sought {
        object: found.items.into_iter().next(),
        version: found.metadata.resource_version.unwrap_or_default(),
    })
}

/// The uids of all objects of a kind, by key. What is not in it did not exist when it was asked for.
pub(crate) async fn uids<T: Stored>(
    client: &kube::Client,
) -> kube::Result<BTreeMap<T::Key, String>> {
    let api: Api<T::Object> = Api::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    params.field_selector = T::fields();
    let mut uids = BTreeMap::new();
    for _ in 0..MOST_PAGES {
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
    let endless = format!("the list has not ended after {MOST_PAGES} pages");
    Err(kube::Error::Service(endless.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_core::Node;
    use http::{Request, Response};
    use kube::client::Body;

    #[tokio::test]
    async fn a_list_without_an_end_is_an_error() {
        let page = r#"{"metadata": {"resourceVersion": "1", "continue": "again"}, "items": []}"#;
        let answer = |_: Request<Body>| async {
            Ok::<_, kube::Error>(Response::new(Body::from(page.as_bytes().to_vec())))
        };
        let client = kube::Client::new(tower::service_fn(answer), "default");
        let error = uids::<Node>(&client).await.unwrap_err();
        assert!(error.to_string().contains("has not ended"), "{error}");
    }
}
