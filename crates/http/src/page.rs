//! Reading a list that comes in pages.

use bowline_core::{CloudError, CloudErrorKind};

/// The most pages read of one list: at the usual 100 or more items a page, 100,000 items.
pub const PAGES: usize = 1000;

/// The longest list, as text: twice what one answer may have. 30,000 machines of 2 KiB each fit in.
pub const LIST_LIMIT: usize = 2 * crate::BODY_LIMIT;

/// One page and where the next one begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T, C> {
    /// What is on it.
    pub items: Vec<T>,
    /// The cursor of the next page; none on the last.
    pub next: Option<C>,
    /// How long it was, as text.
    pub bytes: usize,
}

/// Reads pages from `first` on until there is no next one. A list that goes in circles, or on for
/// more than `limit` pages or [`LIST_LIMIT`] bytes, is an error: a part of a list must not pass for the whole.
pub async fn pages<T, C, F, R>(
    what: &str,
    first: C,
    limit: usize,
    mut fetch: F,
) -> Result<Vec<T>, CloudError>
where
    C: Clone + PartialEq,
    F: FnMut(C) -> R,
    R: Future<Output = Result<Page<T, C>, CloudError>>,
{
    let broken = |reason: &str| {
        let message = format!("listing {what}: {reason}");
        CloudError::new(CloudErrorKind::Unknown, message)
    };
    let mut items = Vec::new();
    let mut seen = Vec::new();
    let mut cursor = first;
    let mut bytes = 0_usize;
    loop {
        if seen.len() >= limit {
            return Err(broken(&format!("more than {limit} pages")));
        }
        let page = fetch(cursor.clone()).await?;
        bytes = bytes.saturating_add(page.bytes);
        if bytes > LIST_LIMIT {
            return Err(broken(&format!("more than {LIST_LIMIT} bytes")));
        }
        items.extend(page.items);
        seen.push(cursor);
        match page.next {
            None => return Ok(items),
            Some(next) if seen.contains(&next) => {
                return Err(broken("the next page is one that was read already"));
            }
            Some(next) => cursor = next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(limit: usize, next: impl Fn(u32) -> Option<u32>) -> Result<Vec<u32>, String> {
        read_sized(limit, 1, next).await
    }

    async fn read_sized(
        limit: usize,
        bytes: usize,
        next: impl Fn(u32) -> Option<u32>,
    ) -> Result<Vec<u32>, String> {
        let fetch = |n| {
            let page = Page {
                items: vec![n, n],
                next: next(n),
                bytes,
            };
            async move { Ok(page) }
        };
        let read = pages("servers", 0, limit, fetch).await;
        read.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn all_pages_are_read_in_order() {
        let read = read(3, |n| (n < 2).then_some(n + 1)).await;
        assert_eq!(read, Ok(vec![0, 0, 1, 1, 2, 2]));
    }

    #[tokio::test]
    async fn a_list_without_an_end_is_an_error() {
        assert_eq!(
            read(3, |n| Some(n + 1)).await,
            Err("listing servers: more than 3 pages".into())
        );
        assert_eq!(
            read(99, |n| Some((n + 1) % 4)).await,
            Err("listing servers: the next page is one that was read already".into())
        );
        assert_eq!(
            read_sized(99, LIST_LIMIT / 2, |n| Some(n + 1)).await,
            Err("listing servers: more than 67108864 bytes".into())
        );
    }

    #[tokio::test]
    async fn a_failed_page_fails_the_list() {
        let denied = || CloudError::new(CloudErrorKind::Denied, "no");
        let fetch = |n: u32| async move {
            let items = vec![n];
            match n {
                0 => Ok(Page {
                    items,
                    next: Some(1),
                    bytes: 1,
                }),
                _ => Err(denied()),
            }
        };
        let error = pages("servers", 0, PAGES, fetch).await.unwrap_err();
        assert_eq!(error.kind(), CloudErrorKind::Denied);
    }
}
