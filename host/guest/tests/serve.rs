//! The host's loop on real sockets: guests that misbehave are excluded, the others go on.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use uc_guest::coupling::channel::Channel;
use uc_guest::coupling::host::Policy;
use uc_guest::coupling::serve::{Event, ServeError, Server};
use uc_guest::coupling::sockets::{Open, RemoteSockets, Sockets};
use uc_guest::coupling::wire::{Frame, GroupAnswer, GroupName, GroupReport, Parts};
use uc_guest::coupling::{GuestSetup, Place};

/// Time limit of every wait.
const LIMIT: Duration = Duration::from_secs(30);

/// A host of two guests: `red` connects to the host's socket, the host connects to `blue`'s.
struct Running {
    folder: tempfile::TempDir,
    stop: &'static AtomicBool,
    events: Receiver<String>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let guest = |name: &str, place: fn(PathBuf) -> Place| GuestSetup {
            name: name.into(),
            place: place(folder.path().join(name)),
            weight: 1,
        };
        let guests = vec![guest("red", Place::Listen), guest("blue", Place::Connect)];
        let mut server = Server::new(Policy::default(), guests).unwrap();
        let stop: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
        let (sender, events) = channel();
        let thread = thread::spawn(move || {
            let mut tell = |name: &str, event: Event<'_>| {
                let text = match event {
                    // blue's VM does not exist yet
                    Event::Waiting { .. } => return,
                    Event::Coupled => format!("{name}: coupled"),
                    Event::Gone => format!("{name}: gone"),
                    Event::LeftOut(refusal) => format!("{name}: {refusal}"),
                };
                sender.send(text).unwrap();
            };
            server.run(stop, &mut tell).unwrap();
        });
        Self {
            folder,
            stop,
            events,
            thread: Some(thread),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Waits for the next event of any guest.
    fn event(&self) -> String {
        self.events.recv_timeout(LIMIT).unwrap()
    }

    /// Waits for the next event that isn't a guest's coupling.
    fn end(&self) -> String {
        let mut event = self.event();
        while event.ends_with(": coupled") {
            event = self.event();
        }
        event
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        assert!(!self.path("red").exists(), "its own socket goes with it");
    }
}

fn connect(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

fn report(at_ns: u64) -> Frame {
    let group = GroupReport {
        name: GroupName::default(),
        opened_ns: 1,
        window_bytes: 14_480,
        ssthresh_bytes: u32::MAX / 2,
        flight_bytes: 14_480,
        used_bytes: 14_480,
        srtt_us: 800_000,
        mss_bytes: 1448,
        ..GroupReport::default()
    };
    Frame {
        at_ns,
        parts: Parts::Report(vec![group]),
    }
}

fn answer(stream: &mut UnixStream) -> (u64, Vec<GroupAnswer>) {
    let mut bytes = Vec::new();
    loop {
        let mut more = [0; 256];
        let length = stream.read(&mut more).unwrap();
        assert!(length > 0, "the host has closed");
        bytes.extend_from_slice(&more[..length]);
        if let Some((frame, _)) = Frame::decode(&bytes).unwrap() {
            let Parts::Answer(answers) = frame.parts else {
                panic!("{frame:?}");
            };
            return (frame.at_ns, answers);
        }
    }
}

/// Returns whether the host has closed the channel, whatever it had written before.
fn is_closed(stream: &mut UnixStream) -> bool {
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

#[test]
fn guests_are_answered_on_connected_and_on_listening_sockets() {
    let running = Running::start();
    let mut red = connect(&running.path("red"));
    red.write_all(&report(5).encode()).unwrap();
    let (at_ns, answers) = answer(&mut red);
    assert_eq!((at_ns, answers.len()), (5, 1));
    assert_eq!(answers[0].window_bytes, 14_480);
    assert_eq!(running.event(), "red: coupled");

    let listener = UnixListener::bind(running.path("blue")).unwrap();
    let mut blue = listener.accept().unwrap().0;
    blue.write_all(&report(7).encode()).unwrap();
    let (at_ns, answers) = answer(&mut blue);
    assert_eq!((at_ns, answers[0].window_bytes), (7, 14_480 / 2));
    assert_eq!(running.event(), "blue: coupled");

    drop(blue);
    assert_eq!(running.event(), "blue: gone");
    let mut blue = listener.accept().unwrap().0;
    blue.write_all(&report(1).encode()).unwrap();
    assert_eq!(
        answer(&mut blue).0,
        1,
        "a machine that restarts has another clock"
    );
    assert_eq!(running.event(), "blue: coupled");
    drop(red);
    assert_eq!(running.event(), "red: gone");
}

#[test]
fn a_misbehaving_guest_is_excluded_for_a_while_and_the_others_go_on() {
    let running = Running::start();
    let listener = UnixListener::bind(running.path("blue")).unwrap();
    let mut blue = listener.accept().unwrap().0;
    blue.write_all(&report(1).encode()).unwrap();
    assert_eq!(answer(&mut blue).0, 1);
    assert_eq!(running.event(), "blue: coupled");

    let flood: Vec<u8> = (1..=2000)
        .flat_map(|at_ns| report(at_ns).encode())
        .collect();
    let twice = [report(9).encode(), report(9).encode()].concat();
    let backwards = report(u64::MAX).encode();
    let mut damaged = report(1).encode();
    damaged[30] ^= 1;
    let mut version = report(1).encode();
    version[4] = 9;
    let huge = {
        let mut frame = report(1);
        let Parts::Report(groups) = &mut frame.parts else {
            unreachable!()
        };
        groups[0].window_bytes = u32::MAX;
        frame.encode()
    };
    let wrong_way = Frame {
        at_ns: 1,
        parts: Parts::Answer(Vec::new()),
    };
    for (sent, reason) in [
        (vec![0x55; 10_000], "that are not a frame"),
        (flood, "reports a second"),
        (damaged, "wrong checksum"),
        (version, "version 9"),
        (huge, "1 GiB"),
        (wrong_way.encode(), "only the host answers"),
    ] {
        let mut red = connect(&running.path("red"));
        // the host may close before it has read everything
        let _ = red.write_all(&sent);
        assert!(is_closed(&mut red), "{reason}");
        let event = running.end();
        assert!(
            event.starts_with("red: ") && event.contains(reason),
            "{event}"
        );
    }
    for sent in [twice, backwards] {
        let mut red = connect(&running.path("red"));
        red.write_all(&sent[..sent.len().min(116)]).unwrap();
        answer(&mut red);
        assert_eq!(running.event(), "red: coupled");
        red.write_all(&report(3).encode()).unwrap();
        assert!(is_closed(&mut red));
        assert!(running.event().contains("time lies before"));
    }
    blue.write_all(&report(2).encode()).unwrap();
    let (at_ns, answers) = answer(&mut blue);
    assert_eq!(at_ns, 2);
    assert!(answers[0].window_bytes >= 14_480, "{answers:?}");
}

#[test]
fn a_killed_host_leaves_a_socket_that_the_next_one_replaces() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("red");
    drop(UnixListener::bind(&path).unwrap());
    assert!(
        path.exists(),
        "std leaves the file as a killed process does"
    );
    let setup = || GuestSetup {
        name: "red".into(),
        place: Place::Listen(path.clone()),
        weight: 1,
    };
    let server = Server::new(Policy::default(), vec![setup()]).unwrap();
    let refusal = Server::new(Policy::default(), vec![setup()]).unwrap_err();
    assert!(refusal.to_string().contains("can't listen"), "{refusal}");
    assert!(path.exists(), "the first one's");
    drop(server);
}

#[test]
fn frames_for_an_end_that_does_not_read_are_dropped_whole() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut end = Channel::of(ours).unwrap();
    let sent = 20_000;
    for at_ns in 1..=sent {
        end.send(&report(at_ns).encode()).unwrap();
    }
    drop(end);
    let mut bytes = Vec::new();
    theirs.read_to_end(&mut bytes).unwrap();
    let (mut rest, mut count, mut last_ns) = (&bytes[..], 0, 0);
    while let Some((frame, length)) = Frame::decode(rest).unwrap() {
        assert!(frame.at_ns > last_ns);
        (rest, count, last_ns) = (&rest[length..], count + 1, frame.at_ns);
    }
    assert!(count > 0 && count < sent, "{count} of {sent}");
}

#[test]
fn a_plain_file_is_neither_removed_for_a_socket_nor_overwritten_as_a_channel() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, "mine").unwrap();
    let guest = GuestSetup {
        name: "red".into(),
        place: Place::Listen(path.clone()),
        weight: 1,
    };
    assert!(Server::new(Policy::default(), vec![guest]).is_err());
    let error = Channel::open(&path).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}

/// Creates a server whose one guest is at the other end of the returned socket.
fn one_guest(folder: &Path) -> (Server, UnixStream) {
    let guest = GuestSetup {
        name: "red".into(),
        place: Place::Connect(folder.join("red")),
        weight: 1,
    };
    let listener = UnixListener::bind(folder.join("red")).unwrap();
    let mut server = Server::new(Policy::default(), vec![guest]).unwrap();
    server.turn(&mut |_, _| {}).unwrap();
    (server, listener.accept().unwrap().0)
}

#[test]
fn a_guest_that_sends_byte_by_byte_is_read_at_most_2000_times_a_second() {
    let folder = tempfile::tempdir().unwrap();
    let (mut server, mut red) = one_guest(folder.path());
    let mut tell =
        |_: &str, event: Event<'_>| assert!(matches!(event, Event::Coupled), "{event:?}");
    let begun = Instant::now();
    // Of two turns one only waits until the channel may be read again.
    for _ in 0..200 {
        red.write_all(&[0x55]).unwrap();
        server.turn(&mut tell).unwrap();
    }
    let least = Duration::from_micros(99 * 500);
    assert!(begun.elapsed() >= least, "{:?}", begun.elapsed());
}

#[test]
fn a_machine_that_accepts_no_connection_delays_no_other() {
    use nix::sys::socket::{Backlog, UnixAddr, bind, listen, socket};
    let folder = tempfile::tempdir().unwrap();
    let (stopped, red) = (folder.path().join("stopped"), folder.path().join("red"));
    let kind = (AddressFamily::Unix, SockType::Stream);
    let full = socket(kind.0, kind.1, SockFlag::SOCK_CLOEXEC, None).unwrap();
    bind(full.as_raw_fd(), &UnixAddr::new(&stopped).unwrap()).unwrap();
    listen(&full, Backlog::new(0).unwrap()).unwrap();
    let _waits = UnixStream::connect(&stopped).unwrap();
    let listener = UnixListener::bind(&red).unwrap();
    let guest = |path: &Path| GuestSetup {
        name: path.file_name().unwrap().to_str().unwrap().into(),
        place: Place::Connect(path.to_owned()),
        weight: 1,
    };
    let (sender, told) = channel();
    thread::spawn(move || {
        let guests = vec![guest(&stopped), guest(&red)];
        let mut server = Server::new(Policy::default(), guests).unwrap();
        let mut waits = 0;
        let mut tell = |_: &str, event: Event<'_>| {
            waits += u32::from(matches!(event, Event::Waiting { .. }));
        };
        server.turn(&mut tell).unwrap();
        sender.send(waits).unwrap();
    });
    assert_eq!(told.recv_timeout(LIMIT), Ok(1));
    assert!(listener.accept().is_ok());
}

#[test]
fn links_and_files_that_are_no_sockets_are_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let _listener = UnixListener::bind(path("socket")).unwrap();
    std::os::unix::fs::symlink(path("socket"), path("link")).unwrap();
    std::fs::write(path("file"), "").unwrap();
    for (place, errno) in [
        (path("link"), Errno::ELOOP),
        (path("file"), Errno::ENOTSOCK),
        ("/dev/null".into(), Errno::ENOTSOCK),
    ] {
        let guest = GuestSetup {
            name: "red".into(),
            place: Place::Connect(place),
            weight: 1,
        };
        let error = Sockets::new(&[guest]).unwrap().open(0).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(errno as i32));
    }
}

#[test]
fn sockets_are_opened_by_another_process_until_that_ends() {
    let folder = tempfile::tempdir().unwrap();
    let setup = |name: &str, place: fn(PathBuf) -> Place| GuestSetup {
        name: name.into(),
        place: place(folder.path().join(name)),
        weight: 1,
    };
    let guests = vec![setup("red", Place::Listen), setup("blue", Place::Connect)];
    let mut sockets = Sockets::new(&guests).unwrap();
    let kind = (AddressFamily::Unix, SockType::SeqPacket);
    let (opens, asks) = socketpair(kind.0, kind.1, None, SockFlag::SOCK_CLOEXEC).unwrap();
    let opener = thread::spawn(move || {
        while sockets.answer(&opens)? {}
        std::io::Result::Ok(())
    });
    let watched = asks.try_clone().unwrap();
    let mut server = Server::through(Policy::default(), guests, RemoteSockets(asks));
    let mut refused = Vec::new();
    let mut tell = |name: &str, event: Event<'_>| {
        if let Event::Waiting { source, .. } = event {
            refused.push((name.to_owned(), source.kind()));
        }
    };
    server.turn(&mut tell).unwrap();
    let mut red = connect(&folder.path().join("red"));
    red.write_all(&report(1).encode()).unwrap();
    while server.shares().is_empty() {
        server.turn(&mut tell).unwrap();
    }
    assert_eq!(answer(&mut red).0, 1);
    assert_eq!(refused, [("blue".to_owned(), std::io::ErrorKind::NotFound)]);
    uc_service::confine::send(&watched, &9_u32.to_le_bytes(), None).unwrap();
    assert!(opener.join().unwrap().is_err(), "there is no such guest");
    let ended = loop {
        if let Err(error) = server.turn(&mut |_, _| {}) {
            break error;
        }
    };
    assert!(matches!(ended, ServeError::Ended), "{ended}");
}

#[test]
fn a_missing_socket_is_reported_once() {
    let folder = tempfile::tempdir().unwrap();
    let absent = folder.path().join("absent");
    let guest = GuestSetup {
        name: "blue".into(),
        place: Place::Connect(absent.clone()),
        weight: 1,
    };
    let mut server = Server::new(Policy::default(), vec![guest]).unwrap();
    let mut told = Vec::new();
    for _ in 0..3 {
        let mut tell = |name: &str, event: Event<'_>| {
            let Event::Waiting { path, source } = event else {
                panic!("{name}: {event:?}");
            };
            told.push((path.to_owned(), source.kind()));
        };
        server.turn(&mut tell).unwrap();
    }
    assert_eq!(told, [(absent, std::io::ErrorKind::NotFound)]);
}
