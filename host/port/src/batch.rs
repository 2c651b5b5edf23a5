//! Reads the keys of a hash map one by one, and the values of an array many with each system call
//! (`BPF_MAP_LOOKUP_BATCH`, Linux 5.6).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::error::PortError;

/// Number of map entries that one system call reads at most.
const BATCH: u32 = 2048;

/// Calls `see` with the index and the value of each of the first `count` entries of an array. With flag
/// `LOCK` each is copied under its lock.
pub(crate) fn first(
    map: &MapHandle,
    count: u32,
    flags: MapFlags,
    action: &str,
    mut see: impl FnMut(u32, &[u8]),
) -> Result<(), PortError> {
    match in_batches(map, count, flags, &mut see) {
        Ok(()) => Ok(()),
        Err(error) if is_unknown(&error) => one_by_one(map, count, flags, action, &mut see),
        Err(error) => Err(PortError::from_kernel(action, error)),
    }
}

/// Returns all keys. Unlike libbpf-rs's iterator, it does not treat an error as the end of the keys. Entries added or
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
    count: u32,
    flags: MapFlags,
    action: &str,
    see: &mut impl FnMut(u32, &[u8]),
) -> Result<(), PortError> {
    for index in 0..count {
        let value = map
            .lookup(&index.to_ne_bytes(), flags)
            .map_err(|error| PortError::from_libbpf(action, &error))?;
        if let Some(value) = value {
            see(index, &value);
        }
    }
    Ok(())
}

fn in_batches(
    map: &MapHandle,
    count: u32,
    flags: MapFlags,
    see: &mut impl FnMut(u32, &[u8]),
) -> io::Result<()> {
    let value_bytes = map.value_size() as usize;
    let mut values = vec![0; BATCH.min(count) as usize * value_bytes];
    let mut begin = 0;
    while begin < count {
        let read = read(map, begin, BATCH.min(count - begin), flags, &mut values)?;
        let each = values.chunks_exact(value_bytes).take(read as usize);
        (begin..)
            .zip(each)
            .for_each(|(index, value)| see(index, value));
        begin += read;
    }
    Ok(())
}

/// Reads up to `room` values of an array from one index on. Returns their number; 0 if a signal arrived
/// before anything was read.
fn read(
    map: &MapHandle,
    begin: u32,
    room: u32,
    flags: MapFlags,
    values: &mut [u8],
) -> io::Result<u32> {
    let options = libbpf_sys::bpf_map_batch_opts {
        sz: size_of::<libbpf_sys::bpf_map_batch_opts>() as _,
        elem_flags: flags.bits(),
        ..Default::default()
    };
    // The kernel begins behind the index that it is given.
    let mut before = begin.wrapping_sub(1);
    let from = match begin {
        0 => std::ptr::null_mut(),
        _ => (&raw mut before).cast(),
    };
    let (mut next, mut entries) = (0u32, room);
    let mut keys = vec![0u32; room as usize];
    // SAFETY: `keys` and `values` have room for as many entries as are requested, the position of a
    // walk through an array is an index, and all outlive the call.
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
    match -done {
        // ENOENT: these are the last ones
        0 | libc::ENOENT => Ok(entries),
        libc::EINTR => Ok(0),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use libbpf_rs::MapType;

    use super::*;

    const ENTRIES: u32 = 100_000;
    /// Size of the flow table's values.
    const VALUE_BYTES: u32 = 256;

    fn table() -> Option<MapHandle> {
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as _,
            ..Default::default()
        };
        let name = Some("uc_batch_test");
        let made = MapHandle::create(MapType::Array, name, 4, VALUE_BYTES, ENTRIES, &options);
        uc_live::or_skip(made)
    }

    #[test]
    fn live_batched_reading_returns_the_values_of_single_reading() {
        let Some(map) = table() else {
            return;
        };
        for index in 0..ENTRIES {
            let mut value = [0; VALUE_BYTES as usize];
            value[99..103].copy_from_slice(&index.to_be_bytes());
            map.update(&index.to_ne_bytes(), &value, MapFlags::ANY)
                .unwrap();
        }
        for count in [0, 1, BATCH, BATCH + 1, ENTRIES] {
            let (mut batches, mut each) = (Vec::new(), Vec::new());
            let began = Instant::now();
            in_batches(&map, count, MapFlags::ANY, &mut |index, value: &[u8]| {
                batches.push((index, value.to_vec()));
            })
            .unwrap();
            let fast = began.elapsed();
            one_by_one(
                &map,
                count,
                MapFlags::ANY,
                "read",
                &mut |index, value: &[u8]| {
                    each.push((index, value.to_vec()));
                },
            )
            .unwrap();
            assert_eq!(batches.len(), count as usize);
            assert!(batches == each);
            println!(
                "{count} values: {fast:?} in batches, {:?} in all",
                began.elapsed()
            );
        }
    }
}
