//! The attribute `#[scenario]`, which makes a test of an `async fn` as `#[tokio::test]` does. `bowline_scenarios` hands
//! it on, and is what the test calls. Written without a parser: the word `async`, at most one parameter and the body
//! are all there is to find.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// A test that runs the function's body as a scenario: under a paused clock on the simulated API server, or on the
/// real clock on a real one.
///
/// A parameter is the harness that it runs in: `harness: Harness` is made by `Harness::new().await` before, and
/// `harness.end().await` comes after, even if the body returns early. With `#[scenario(only_in_memory = "reason")]` it
/// stays away from a real server, whose run lists the reason.
#[proc_macro_attribute]
pub fn scenario(options: TokenStream, function: TokenStream) -> TokenStream {
    let mut tokens: Vec<TokenTree> = function.into_iter().collect();
    let asynchronous = tokens.iter().position(|it| it.to_string() == "async");
    let (Some(asynchronous), Some(body), Some(TokenTree::Group(parameter))) =
        (asynchronous, tokens.pop(), tokens.pop())
    else {
        return parsed("compile_error!(\"a scenario is an async fn\");");
    };
    tokens.remove(asynchronous);
    let mut inside = TokenStream::new();
    let mut options = options.into_iter();
    if let Some(option) = options.next() {
        if option.to_string() != "only_in_memory" {
            return parsed("compile_error!(\"the only option is only_in_memory = reason\");");
        }
        let reason = options.skip(1).collect();
        inside.extend(parsed("if !::bowline_scenarios::only_in_memory"));
        inside.extend([group(Delimiter::Parenthesis, reason)]);
        inside.extend(parsed("{ return; }"));
    }
    // The clock here and not in a function, since only tests have one that can be paused.
    let mut arguments = parsed("|builder| builder.start_paused(true), async ||");
    arguments.extend([within(parameter.stream(), body)]);
    inside.extend(parsed("::bowline_scenarios::run_scenario"));
    inside.extend([group(Delimiter::Parenthesis, arguments)]);
    let mut test = parsed("#[test]");
    test.extend(tokens);
    test.extend([
        group(Delimiter::Parenthesis, TokenStream::new()),
        group(Delimiter::Brace, inside),
    ]);
    test
}

/// The body in its harness, if it has one.
fn within(parameter: TokenStream, body: TokenTree) -> TokenTree {
    // Without the comma that stands behind it on a line of its own.
    let parameter = parameter.into_iter().filter(|it| it.to_string() != ",");
    let mut name: Vec<TokenTree> = parameter.collect();
    let parameter: TokenStream = name.iter().cloned().collect();
    let kind = match name.iter().position(|it| it.to_string() == ":") {
        Some(colon) => name.drain(colon..).skip(1).collect::<TokenStream>(),
        None => return body,
    };
    let mut inside = parsed("let");
    inside.extend(parameter);
    inside.extend(parsed("= <"));
    inside.extend(kind);
    inside.extend(parsed(">::new().await; async"));
    inside.extend([body]);
    inside.extend(parsed(".await;"));
    inside.extend(name.pop());
    inside.extend(parsed(".end().await;"));
    group(Delimiter::Brace, inside)
}

fn group(delimiter: Delimiter, inside: TokenStream) -> TokenTree {
    Group::new(delimiter, inside).into()
}

#[expect(clippy::unwrap_used, reason = "the texts are this file's own")]
fn parsed(text: &str) -> TokenStream {
    text.parse().unwrap()
}
