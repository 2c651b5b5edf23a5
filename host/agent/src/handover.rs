//! Handover of a guest's flows through the agent's socket, when the guest moves to another host: what `uc handover`
//! does, for programs that migrate guests. The key of `[agent.watch]` signs the flows.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Path as Named, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use uc_client::Refusal;
use uc_port::{Handover, LeftFlow, Store};
use uc_watch::ProbeKeys;

use crate::control::Refused;

/// Maximum length of a request with flows, in bytes; enough for some 300,000 flows.
const BODY_MAX_BYTES: usize = 1 << 27;
const NO_KEY: &str = "this host's file has no [agent.watch] with key_file and peers, whose key signs flows; \
                      add it, and restart the agent";

/// The answer to a request that hands flows over to a port.
#[derive(Debug, Serialize)]
struct Answer {
    /// Number of flows that the port has taken over.
    flows: usize,
    /// Number of flows that the port knew already.
    known: usize,
    /// Flows that the port neither knew nor has taken over, each with the reason.
    left: Vec<String>,
    /// Names of fields of the received flows that this version of `uc` does not know; their values are lost.
    dropped: Vec<String>,
}

type Key = Arc<Option<PathBuf>>;

/// Returns the router for requests about flows; `key_file` is that of `[agent.watch]`. `None`: every request is
/// refused.
pub(crate) fn router(key_file: Option<PathBuf>) -> Router {
    Router::new()
        .route("/handover/{port}", get(send).post(receive))
        .layer(DefaultBodyLimit::max(BODY_MAX_BYTES))
        .with_state(Arc::new(key_file))
}

async fn send(State(key): State<Key>, Named(port): Named<String>) -> Result<Response, Refused> {
    apart(move || {
        let keys = keys(key.as_deref())?;
        let (flows, left) = Store::default().flows_to_send(&port).map_err(words)?;
        let bytes = flows.write(|bytes| keys.own.sign(bytes)).map_err(words)?;
        tell(&port, "flows written", flows.len(), &left);
        let head = [("uc-flows", flows.len()), ("uc-left", left.len())];
        let head = head.map(|(name, count)| (name, count.to_string()));
        Ok((head, bytes).into_response())
    })
    .await
}

async fn receive(
    State(key): State<Key>,
    Named(port): Named<String>,
    bytes: Result<Bytes, BytesRejection>,
) -> Result<Json<Answer>, Refused> {
    let bytes = bytes.map_err(|rejection| {
        let why = rejection.body_text();
        let error = format!("{why}; run `uc handover --in` for more than 128 MiB");
        (rejection.status(), Json(Refusal { error }))
    })?;
    apart(move || {
        let keys = keys(key.as_deref())?;
        let flows = Handover::read(&bytes, |bytes, tag| keys.have_signed(bytes, tag));
        let flows = flows.map_err(words)?;
        let taken = Store::default()
            .receive_flows(&port, &flows)
            .map_err(words)?;
        tell(&port, "flows taken over", taken.flows, &taken.left);
        Ok(Json(Answer {
            flows: taken.flows,
            known: taken.known,
            left: taken.left.iter().map(|flow| flow.at(&port)).collect(),
            dropped: flows.dropped().to_vec(),
        }))
    })
    .await
}

/// Runs `work`, which may wait for the store's lock, on a thread of its own.
async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, Refused> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.unwrap_or_else(|error| Err(words(error)));
    done.map_err(|error| (StatusCode::CONFLICT, Json(Refusal { error })))
}

fn keys(key_file: Option<&Path>) -> Result<ProbeKeys, String> {
    let path = key_file.ok_or_else(|| NO_KEY.to_owned())?;
    ProbeKeys::read(path).map_err(words)
}

fn words(error: impl Display) -> String {
    error.to_string()
}

fn tell(port: &str, what: &str, flows: usize, left: &[LeftFlow]) {
    tracing::info!(port, flows, left = left.len(), "{what}");
    for flow in left {
        tracing::warn!("not handed over: {}", flow.at(port));
    }
}
