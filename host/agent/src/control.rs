//! The agent's socket: JSON over HTTP, for root alone. Clients read its state, detach ports
//! (withdraw) and give them back (release). No part of a request is run, loaded or opened.
//!
//! | request | answer |
//! |---|---|
//! | `GET /alive` | nothing, or status 503 if the engine hangs; reads no port |
//! | `GET /status` | [`AgentState`] |
//! | `POST /withdraw` `{"ports": ["vnet3"]}` | detaches these ports and keeps them detached |
//! | `POST /release` `{"ports": ["vnet3"]}` | gives these ports back to the agent |
//! | `POST /confirm` `{"policy": "CHECKSUM"}` | puts a policy into force that waits for it |
//! | `POST /reload` | reads the policy again, like SIGHUP |
//! | `GET /handover/PORT` | the flows of the port, as `uc handover --out` writes them |
//! | `POST /handover/PORT` with those | has the port go on with them, as `uc handover --in` does |
//!
//! `{"all": true}` means all ports. `/hold` is the former name of `/withdraw`. A change is answered when it has been
//! made.

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
/// Longest time for which a working engine publishes no state: it attaches or detaches many ports.
const SILENCE_MOST: Duration = Duration::from_secs(180);
/// Maximum length of a request's list of ports.
const BODY_MAX_BYTES: usize = 1 << 20;

pub(crate) type Refused = (StatusCode, Json<Refusal>);

/// Returns the router for the socket's requests but those of `handover.rs`. Any further request must be as
/// harmless as these.
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
    let error = format!("it hangs: for {} s it has done nothing", silence.as_secs());
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
            "the agent has ended".to_owned(),
        )),
    }
}

/// Returns the names of the requested ports; an empty list means all.
fn named(ports: Ports) -> Result<Vec<String>, Refused> {
    if ports.all == ports.ports.is_empty() {
        return Ok(ports.ports);
    }
    let error = "name ports, or say \"all\": true".to_owned();
    Err((StatusCode::BAD_REQUEST, Json(Refusal { error })))
}

/// Listens on a socket at `path`, for root and the agent's own user.
pub fn listen(path: &Path) -> Result<RootOnly, AgentError> {
    let failed = |error| AgentError::io(format!("listen on {}", path.display()), error);
    // A socket of a killed agent may be removed: this agent holds the lock.
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {
            std::fs::remove_file(path).map_err(failed)?;
        }
        Ok(_) => {
            return Err(failed(std::io::Error::other(
                "another file has this path; remove it",
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
