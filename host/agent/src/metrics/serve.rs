//! Serves `GET /metrics` over HTTP, for Prometheus.

use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::sync::Semaphore;

/// A future answer to a scrape: the text of all metrics, or `None` if they can't be read.
pub type Answer = Pin<Box<dyn Future<Output = Option<String>> + Send>>;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

struct Source {
    ask: Box<dyn Fn(bool) -> Answer + Send + Sync>,
    /// Permit of which there is one, so that only one scrape at a time reads the maps.
    turn: Arc<Semaphore>,
}

/// Returns a router that calls `ask` for each scrape; its argument is whether the scraper accepts OpenMetrics.
pub fn router(ask: impl Fn(bool) -> Answer + Send + Sync + 'static) -> Router {
    let source = Source {
        ask: Box::new(ask),
        turn: Arc::new(Semaphore::new(1)),
    };
    Router::new()
        .route("/metrics", get(scrape))
        .with_state(Arc::new(source))
}

async fn scrape(State(source): State<Arc<Source>>, headers: HeaderMap) -> Response {
    let wanted = headers.get(header::ACCEPT).map(|accept| accept.as_bytes());
    let open = wanted.is_some_and(|accept| {
        String::from_utf8_lossy(accept).contains("application/openmetrics-text")
    });
    let own = Arc::clone(&source);
    let Ok(turn) = Arc::clone(&source.turn).acquire_owned().await else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    // A client that disconnects ends this future, not the reading, which keeps the permit.
    let asked = tokio::spawn(async move {
        let _turn = turn;
        (own.ask)(open).await
    });
    let text = asked.await.ok().flatten();
    let kind = if open { OPEN_METRICS } else { PLAIN };
    match text {
        Some(text) => {
            // The connection closes after each answer, so its time limit never falls between a
            // request and its answer.
            let head = [(header::CONTENT_TYPE, kind), (header::CONNECTION, "close")];
            (head, text).into_response()
        }
        None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::SocketAddr;

    use super::*;
    use crate::metrics::Reading;

    /// Answers with a reading that is made on another thread.
    fn answer(read: fn() -> Reading, open: bool) -> Answer {
        Box::pin(async move {
            let read = tokio::task::spawn_blocking(read).await.ok()?;
            read.text(open)
        })
    }

    /// Sends a request over a real connection; returns the answer's head and body.
    fn ask(address: SocketAddr, request: &str) -> (String, String) {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    fn get(path: &str, accept: &str) -> String {
        format!("GET {path} HTTP/1.0\r\nHost: h\r\nAccept: {accept}\r\n\r\n")
    }

    #[test]
    fn a_scrape_gets_the_requested_format_and_other_paths_are_not_found() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
            .unwrap();
        let address = listener.local_addr().unwrap();
        let clients = std::thread::spawn(move || {
            [
                get("/metrics", "*/*"),
                get(
                    "/metrics",
                    "application/openmetrics-text;version=1.0.0,*/*;q=0.1",
                ),
                get("/", "*/*"),
                "POST /metrics HTTP/1.0\r\nHost: h\r\nContent-Length: 0\r\n\r\n".to_owned(),
            ]
            .map(|request| ask(address, &request))
        });
        let router = router(|open| answer(Reading::default, open));
        let answers = runtime.block_on(async {
            tokio::spawn(async move { axum::serve(listener, router).await });
            tokio::task::spawn_blocking(move || clients.join().unwrap())
                .await
                .unwrap()
        });
        let [plain, open, nothing, posted] = answers;
        assert!(plain.0.contains(PLAIN), "{plain:?}");
        assert!(plain.1.contains("uc_reconciles_total 0"));
        assert!(open.0.contains(OPEN_METRICS) && open.1.ends_with("# EOF\n"));
        assert!(nothing.0.starts_with("HTTP/1.0 404"), "{nothing:?}");
        assert!(posted.0.starts_with("HTTP/1.0 405"), "{posted:?}");
    }

    #[test]
    fn a_client_that_disconnects_lets_no_second_reading_begin() {
        use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
        static AT_ONCE: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        static BEGUN: AtomicUsize = AtomicUsize::new(0);
        let read = || {
            BEGUN.fetch_add(1, SeqCst);
            MOST.fetch_max(AT_ONCE.fetch_add(1, SeqCst) + 1, SeqCst);
            std::thread::sleep(std::time::Duration::from_millis(300));
            AT_ONCE.fetch_sub(1, SeqCst);
            Reading::default()
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let router = router(move |open| answer(read, open));
            tokio::spawn(async move { axum::serve(listener, router).await });
            let asked = tokio::task::spawn_blocking(move || {
                for round in 1..=4 {
                    let mut stream = std::net::TcpStream::connect(address).unwrap();
                    let request = get("/metrics", "*/*");
                    stream.write_all(request.as_bytes()).unwrap();
                    // The first one's reading has begun; the others wait for their turn.
                    while round == 1 && BEGUN.load(SeqCst) == 0 {
                        std::thread::sleep(std::time::Duration::from_millis(1));
                    }
                }
                ask(address, &get("/metrics", "*/*"))
            });
            let (head, _) = asked.await.unwrap();
            assert!(head.starts_with("HTTP/1.0 200"), "{head}");
        });
        assert_eq!(MOST.load(SeqCst), 1);
    }
}
