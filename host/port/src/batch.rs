//! Reads all entries of a hash map, many with each system call (`BPF_MAP_LOOKUP_BATCH`, Linux 5.6).
//!
//! libbpf-rs has an iterator for this, which takes a batch that isn't full for the last one. For a
//! hash map that is wrong: the kernel returns whole buckets, as many as fit.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::error::PortError;

/// Entries requested at once. No bucket has nearly as many.
const BATCH: u32 = 2048;
/// Maximum number of entries requested at once; if the next bucket does not fit even then, reading
/// fails.
const BATCH_MAX: u32 = 1 << 20;
/// Position of a walk through a hash map.
type Position = u32;

/// Calls `see` with the key and the value of every entry. Entries added or removed meanwhile may be
/// missed; on kernels without batch look-up, an entry may then be seen twice.
pub(crate) fn for_each(
    map: &MapHandle,
    action: &str,
    mut see: impl FnMut(&[u8], &[u8]),
) -> Result<(), PortError> {
    match in_batches(map, &mut see) {
        Ok(()) => Ok(()),
        Err(error) if is_unknown(&error) => one_by_one(map, action, &mut see),
        Err(error) => Err(PortError::from_kernel(action, error)),
    }
}

/// Returns all keys. Unlike libbpf-rs's iterator it does not take an error for the end. Entries added or
/// removed meanwhile may be missed.
pub(crate) fn keys(map: &MapHandle, action: &str) -> Result<Vec<Vec<u8>>, PortError> {
    let mut keys: Vec<Vec<u8>> = Vec::new();
    loop {
        let last = keys.last().map_or(std::ptr::null(), Vec::as_ptr);
        let mut next = vec![0; map.key_size() as usize];
        // SAFETY: both keys have the map's key size and outlive the call; there may be no last one.
        let code = unsafe {
            libbpf_sys::bpf_map_get_next_key(
                map.as_fd().as_raw_fd(),
                last.cast(),
                next.as_mut_ptr().cast(),
            )
        };
        match -code {
            0 => keys.push(next),
            libc::ENOENT => return Ok(keys),
            errno => {
                let error = io::Error::from_raw_os_error(errno);
                return Err(PortError::from_kernel(action, error));
            }
        }
    }
}

/// Returns whether the error means that the kernel lacks the command, or lacks it for such a map;
/// it occurs at the first batch.
fn is_unknown(error: &io::Error) -> bool {
    let known = [
        libc::EINVAL,
        libc::ENOTSUP,
        libc::ENOSYS,
        524, /* ENOTSUPP */
    ];
    error
        .raw_os_error()
        .is_some_and(|errno| known.contains(&errno))
}

fn one_by_one(
    map: &MapHandle,
    action: &str,
    see: &mut impl FnMut(&[u8], &[u8]),
) -> Result<(), PortError> {
    for key in keys(map, action)? {
        let value = map
            .lookup(&key, MapFlags::ANY)
            .map_err(|error| PortError::from_libbpf(action, &error))?;
        if let Some(value) = value {
            see(&key, &value);
        }
    }
    Ok(())
}

fn in_batches(map: &MapHandle, see: &mut impl FnMut(&[u8], &[u8])) -> io::Result<()> {
    let (key_bytes, value_bytes) = (map.key_size() as usize, map.value_size() as usize);
    let mut room = BATCH;
    let mut position = None;
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    loop {
        keys.resize(room as usize * key_bytes, 0);
        values.resize(room as usize * value_bytes, 0);
        let batch = next(map, position, room, &mut keys, &mut values)?;
        if batch.lacks_room {
            if room >= BATCH_MAX {
                return Err(io::Error::from_raw_os_error(libc::ENOSPC));
            }
            room *= 2;
            continue;
        }
        let entries = batch.entries as usize;
        let keys = keys.chunks_exact(key_bytes).take(entries);
        keys.zip(values.chunks_exact(value_bytes))
            .for_each(|(key, value)| see(key, value));
        if batch.is_last {
            return Ok(());
        }
        position = Some(batch.next);
    }
}

struct Batch {
    entries: u32,
    next: Position,
    is_last: bool,
    /// Whether not even the next bucket fits; nothing was read then.
    lacks_room: bool,
}

fn next(
    map: &MapHandle,
    position: Option<Position>,
    room: u32,
    keys: &mut [u8],
    values: &mut [u8],
) -> io::Result<Batch> {
    let options = libbpf_sys::bpf_map_batch_opts {
        sz: size_of::<libbpf_sys::bpf_map_batch_opts>() as _,
        ..Default::default()
    };
    let mut from = position.unwrap_or_default();
    let from = match position {
        Some(_) => (&raw mut from).cast(),
        None => std::ptr::null_mut(),
    };
    let (mut next, mut entries) = (Position::default(), room);
    // SAFETY: `keys` and `values` have room for as many entries as are requested, the position of a
    // walk through a hash map has four bytes, and all outlive the call.
    let done = unsafe {
        libbpf_sys::bpf_map_lookup_batch(
            map.as_fd().as_raw_fd(),
            from,
            (&raw mut next).cast(),
            keys.as_mut_ptr().cast(),
            values.as_mut_ptr().cast(),
            &raw mut entries,
            &raw const options,
        )
    };
    let errno = -done;
    if errno != 0 && ![libc::ENOENT, libc::ENOSPC, libc::EINTR].contains(&errno) {
        return Err(io::Error::from_raw_os_error(errno));
    }
    // A signal arrived before anything was read: the next call repeats the request.
    let again = errno == libc::EINTR;
    Ok(Batch {
        entries: if again { 0 } else { entries },
        next: if again {
            position.unwrap_or_default()
        } else {
            next
        },
        is_last: errno == libc::ENOENT,
        lacks_room: errno == libc::ENOSPC,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::{Duration, Instant};

    use libbpf_rs::MapType;

    use super::*;

    const ENTRIES: u32 = 100_000;
    /// Size of the flow table's values.
    const VALUE_BYTES: u32 = 320;

    fn table() -> Option<MapHandle> {
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as _,
            ..Default::default()
        };
        let name = Some("uc_batch_test");
        let made = MapHandle::create(MapType::Hash, name, 40, VALUE_BYTES, ENTRIES, &options);
        uc_live::or_skip(made)
    }

    fn seen(
        read: impl FnOnce(&mut dyn FnMut(&[u8], &[u8])),
    ) -> (BTreeMap<Vec<u8>, Vec<u8>>, Duration) {
        let mut found = Vec::new();
        let began = Instant::now();
        read(&mut |key, value| found.push((key.to_vec(), value.to_vec())));
        let took = began.elapsed();
        let entries = found.len();
        let found: BTreeMap<_, _> = found.into_iter().collect();
        assert_eq!(found.len(), entries, "no entry is seen twice");
        (found, took)
    }

    #[test]
    fn live_batched_reading_returns_the_entries_of_single_reading() {
        let Some(map) = table() else {
            return;
        };
        for entries in [0, 1, BATCH, ENTRIES] {
            for number in 0..entries {
                let (mut key, mut value) = ([0; 40], [0; VALUE_BYTES as usize]);
                key[7..11].copy_from_slice(&number.to_ne_bytes());
                value[99..103].copy_from_slice(&number.to_be_bytes());
                map.update(&key, &value, MapFlags::ANY).unwrap();
            }
            let (batches, fast) = seen(|see| {
                in_batches(&map, &mut |key: &[u8], value: &[u8]| see(key, value)).unwrap();
            });
            let (each, slow) = seen(|see| {
                one_by_one(&map, "read", &mut |key: &[u8], value: &[u8]| {
                    see(key, value)
                })
                .unwrap();
            });
            assert_eq!(batches.len(), entries as usize);
            assert!(batches == each);
            println!("{entries} entries: {fast:?} in batches, {slow:?} one by one");
        }
    }
}
