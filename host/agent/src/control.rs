//! The agent's socket: JSON over HTTP, for root alone. Clients read the agent's state, detach ports (withdraw) and
//! return them to the agent (release). No part of a request is run as a command, loaded or opened as a file.
//!
//! | request | answer |
//! |---|---|
//! | `GET /alive` | nothing, or status 503 if the engine hangs; reads no port |
//! | `GET /status` | [`AgentState`] |
//! | `POST /withdraw` `{"ports": ["vnet3"]}` | detaches these ports and keeps them detached |
//! | `POST /release` `{"ports": ["vnet3"]}` | lets the agent attach these ports again |
//! | `POST /confirm` `{"policy": "CHECKSUM"}` | puts a policy into force that waits for confirmation |
//! | `POST /reload` | reads the policy again, like SIGHUP |
//! | `GET /handover/PORT` | the flows of the port, as `uc handover --out` writes them |
//! | `POST /handover/PORT` with such flows | the port continues these flows, as with `uc handover --in` |
//!
//! `{"all": true}` means all ports. `/hold` is the former name of `/withdraw`. The answer to a request for a change
//! comes after the change is made.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;
use uc_client::{AgentError, AgentState, Confirmation, Done, Ports, Refusal};

use crate::bounded::{Limited, Places, wait_after};
use crate::event::Event;
use crate::publish::Shared;
use crate::request::Request;

/// Maximum duration of a connection, longer than any change takes.
const LASTS_MOST: Duration = Duration::from_secs(120);
/// Time without a published state after which the engine counts as hung. A working engine can be silent for a while
/// when it attaches or detaches many ports.
const SILENCE_MOST: Duration = Duration::from_secs(180);
/// Maximum length of a request's body, in bytes: its list of ports.
const BODY_MAX_BYTES: usize = 1 << 20;

pub(crate) type Refused = (StatusCode, Json<Refusal>);

/// Returns the router for all requests of the socket except those of `handover.rs`. A new request must be as harmless
/// as these: it must not run, load or open anything that the request names.
pub fn router(shared: Shared) -> Router {
    Router::new()
        .route("/alive", get(alive))
        .route("/status", get(status))
        .route("/withdraw", post(withdraw))
        .route("/hold", post(withdraw))
        .route("/release", post(release))
        .route("/confirm", post(confirm))
        .route("/reload", post(reload))
        .layer(DefaultBodyLimit::max(BODY_MAX_BYTES))
        .with_state(shared)
}

async fn alive(State(shared): State<Shared>) -> Result<Json<Done>, Refused> {
    let silence = shared.silence();
    if silence <= SILENCE_MOST {
        return Ok(Json(Done::default()));
    }
    let error = format!(
        "the engine hangs: it has done nothing for {} s; restart the agent",
        silence.as_secs()
    );
    Err((StatusCode::SERVICE_UNAVAILABLE, Json(Refusal { error })))
}

async fn status(State(shared): State<Shared>) -> Json<AgentState> {
    Json(shared.state())
}

async fn withdraw(State(shared): State<Shared>, ports: Json<Ports>) -> Result<Json<Done>, Refused> {
    wish(&shared, Request::Withdraw(named(ports.0)?)).await
}

async fn release(State(shared): State<Shared>, ports: Json<Ports>) -> Result<Json<Done>, Refused> {
    wish(&shared, Request::Release(named(ports.0)?)).await
}

async fn confirm(
    State(shared): State<Shared>,
    policy: Json<Confirmation>,
) -> Result<Json<Done>, Refused> {
    wish(&shared, Request::Confirm(policy.0.policy)).await
}

async fn reload(State(shared): State<Shared>) -> Result<Json<Done>, Refused> {
    wish(&shared, Request::Reload).await
}

async fn wish(shared: &Shared, wish: Request) -> Result<Json<Done>, Refused> {
    let refused = |code, error: String| (code, Json(Refusal { error }));
    let (answer, answered) = oneshot::channel();
    if !shared.tell(Event::Request(wish, answer)) {
        let error = "the agent is ending".to_owned();
        return Err(refused(StatusCode::SERVICE_UNAVAILABLE, error));
    }
    match answered.await {
        Ok(Ok(ports)) => Ok(Json(Done { ports })),
        Ok(Err(error)) => Err(refused(StatusCode::CONFLICT, error)),
        Err(_) => Err(refused(
            StatusCode::SERVICE_UNAVAILABLE,
            "the agent ended before it answered".to_owned(),
        )),
    }
}

/// Returns the names of the requested ports; an empty list means all ports.
///
/// # Errors
/// The request has both names and `"all": true`, or neither.
fn named(ports: Ports) -> Result<Vec<String>, Refused> {
    if ports.all == ports.ports.is_empty() {
        return Ok(ports.ports);
    }
    let error = "name ports, or say \"all\": true".to_owned();
    Err((StatusCode::BAD_REQUEST, Json(Refusal { error })))
}

/// Listens on a Unix socket at `path`, to which only root and the agent's own user may connect.
pub fn listen(path: &Path) -> Result<RootOnly, AgentError> {
    let failed = |error| AgentError::io(format!("listen on {}", path.display()), error);
    // A socket of a killed agent may be removed: this agent holds the lock.
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {
            std::fs::remove_file(path).map_err(failed)?;
        }
        Ok(_) => {
            return Err(failed(std::io::Error::other(
                "the path has a file that is not a socket; remove the file",
            )));
        }
        Err(_) => {}
    }
    // The mask keeps others from connecting before the socket's mode is set.
    let before = nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o177));
    let bound = UnixListener::bind(path);
    nix::sys::stat::umask(before);
    let listener = bound.map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(RootOnly {
        listener,
        places: Places::new(),
    })
}

/// A listener that disconnects every user but root and the agent's own, whatever the socket's mode.
#[derive(Debug)]
pub struct RootOnly {
    listener: UnixListener,
    places: Places,
}

impl RootOnly {
    fn may(&self, stream: &UnixStream) -> bool {
        let own = nix::unistd::geteuid().as_raw();
        let peer = stream.peer_cred();
        let may = peer
            .as_ref()
            .is_ok_and(|peer| peer.uid() == 0 || peer.uid() == own);
        if !may {
            let uid = peer.map(|peer| peer.uid());
            tracing::warn!(?uid, "another user tried the agent's socket");
        }
        may
    }
}

impl axum::serve::Listener for RootOnly {
    type Io = Limited<UnixStream>;
    type Addr = ();

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let place = self.places.take().await;
            match self.listener.accept().await {
                Ok((stream, _)) if self.may(&stream) => {
                    return (Limited::new(stream, place, LASTS_MOST), ());
                }
                Ok(_) => {}
                Err(error) => wait_after(&error).await,
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        Ok(())
    }
}
