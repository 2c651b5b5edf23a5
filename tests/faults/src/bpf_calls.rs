//! Answers of the simulated kernel to `bpf(2)`.

use libbpf_rs::libbpf_sys as sys;

use crate::objects::{Map, What};
use crate::world::{Answer, Fd, World};

/// Opcode of a BPF instruction, and value of its source register, that mark a map's descriptor in its operand.
const LOAD_MAP: (u8, u8) = (0x18, 1);
/// Commands that could detach a promised port or remove its flows (see `promised` in `world.rs`).
const CHANGES: [u32; 5] = [
    sys::BPF_MAP_UPDATE_ELEM,
    sys::BPF_MAP_DELETE_ELEM,
    sys::BPF_LINK_CREATE,
    sys::BPF_LINK_UPDATE,
    sys::BPF_LINK_DETACH,
];

/// Returns `length` bytes at an address of the calling process.
fn bytes<'a>(at: u64, length: usize) -> &'a [u8] {
    // SAFETY: the caller of bpf(2) gives an address with so many bytes.
    unsafe { std::slice::from_raw_parts(at as *const u8, length) }
}

/// Writes bytes to an address of the calling process.
fn write(at: u64, from: &[u8]) {
    // SAFETY: the caller of bpf(2) gives an address with room for so many bytes.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), at as *mut u8, from.len()) };
}

/// Returns the text before the first zero byte.
fn text(from: impl IntoIterator<Item = std::ffi::c_char>) -> String {
    let bytes = from
        .into_iter()
        .map(|byte| byte as u8)
        .take_while(|byte| *byte != 0);
    String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
}

/// Returns the bytes of a plain structure of the kernel's interface.
fn raw<T>(value: &T) -> &[u8] {
    // SAFETY: the value outlives the answer; it is made of zeroes and plain integers.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// Returns a command's name for the log, and the errors with which it may fail in addition to the usual ones.
fn command_of(number: u32) -> (&'static str, &'static [i32]) {
    match number {
        sys::BPF_MAP_CREATE => ("map_create", &[libc::EMFILE]),
        sys::BPF_MAP_LOOKUP_ELEM => ("map_lookup", &[]),
        sys::BPF_MAP_UPDATE_ELEM => ("map_update", &[libc::EBUSY, libc::E2BIG]),
        sys::BPF_MAP_DELETE_ELEM => ("map_delete", &[libc::EBUSY]),
        sys::BPF_MAP_GET_NEXT_KEY => ("map_next_key", &[]),
        sys::BPF_PROG_LOAD => ("prog_load", &[libc::EAGAIN, libc::ENOSPC]),
        sys::BPF_OBJ_PIN => ("pin", &[libc::ENOSPC]),
        sys::BPF_OBJ_GET => ("open_pin", &[libc::EMFILE]),
        sys::BPF_LINK_CREATE => ("link_create", &[libc::EBUSY, libc::ERANGE]),
        sys::BPF_LINK_UPDATE => ("link_update", &[libc::EBUSY]),
        sys::BPF_LINK_DETACH => ("link_detach", &[]),
        sys::BPF_PROG_QUERY => ("prog_query", &[]),
        sys::BPF_OBJ_GET_INFO_BY_FD => ("object_info", &[]),
        sys::BPF_PROG_TEST_RUN => ("prog_run", &[]),
        _ => ("bpf", &[]),
    }
}

impl World {
    /// Answers `bpf(2)`.
    pub(crate) fn bpf(&mut self, command: u32, attributes: *mut u8, size: usize) -> Answer {
        // SAFETY: all zeroes are a valid value of this union of plain integers.
        let mut asked: sys::bpf_attr = unsafe { std::mem::zeroed() };
        let size = size.min(size_of::<sys::bpf_attr>());
        // SAFETY: the caller gives `size` bytes, and the union has room for them.
        unsafe { std::ptr::copy_nonoverlapping(attributes, (&raw mut asked).cast(), size) };
        let (name, errors) = command_of(command);
        self.may(name, errors)?;
        // SAFETY: the command decides which member the caller has set; each is made of integers.
        let answer = unsafe {
            match command {
                sys::BPF_MAP_CREATE => self.map_create(&asked.__bindgen_anon_1),
                sys::BPF_MAP_LOOKUP_ELEM
                | sys::BPF_MAP_UPDATE_ELEM
                | sys::BPF_MAP_DELETE_ELEM
                | sys::BPF_MAP_GET_NEXT_KEY => self.map_entry(command, &asked.__bindgen_anon_2),
                sys::BPF_PROG_LOAD => self.program_load(&asked.__bindgen_anon_3),
                sys::BPF_OBJ_PIN => {
                    let pin = asked.__bindgen_anon_4;
                    let object = self.object(pin.bpf_fd as i32)?;
                    let path = path(pin.pathname);
                    self.pin(&path, object)
                }
                sys::BPF_OBJ_GET => self.open_pin(&path(asked.__bindgen_anon_4.pathname)),
                sys::BPF_PROG_TEST_RUN => {
                    let program = self.object(asked.test.prog_fd as i32)?;
                    self.bpf.run(program);
                    Ok(0)
                }
                sys::BPF_PROG_GET_FD_BY_ID => {
                    let id = asked.__bindgen_anon_6.__bindgen_anon_1.prog_id as usize;
                    Ok(self.enter(Fd::Object(id.checked_sub(1).ok_or(libc::ENOENT)?)))
                }
                sys::BPF_OBJ_GET_INFO_BY_FD => self.object_info(&asked.info),
                sys::BPF_PROG_QUERY => {
                    let answer = self.query(&mut asked.query);
                    std::ptr::copy_nonoverlapping((&raw const asked).cast(), attributes, size);
                    answer
                }
                sys::BPF_LINK_CREATE => self.link_create(&asked.link_create),
                sys::BPF_LINK_UPDATE => {
                    let update = asked.link_update;
                    let new = self.object(update.__bindgen_anon_1.new_prog_fd as i32)?;
                    self.link_update(update.link_fd as i32, new)
                }
                sys::BPF_LINK_DETACH => {
                    let link = self.object(asked.link_detach.link_fd as i32)?;
                    self.bpf.detach(link);
                    Ok(0)
                }
                sys::BPF_BTF_LOAD => {
                    let types = self.bpf.add(What::Types);
                    Ok(self.enter(Fd::Object(types)))
                }
                _ => Err(libc::EINVAL),
            }
        };
        if CHANGES.contains(&command) {
            self.check();
        }
        answer
    }

    fn object(&mut self, fd: i32) -> Answer<usize> {
        match self.fd(fd)? {
            Fd::Object(object) => Ok(*object),
            _ => Err(libc::EINVAL),
        }
    }

    fn map_create(&mut self, asked: &sys::bpf_attr__bindgen_ty_1) -> Answer {
        let map = Map {
            kind: asked.map_type,
            name: text(asked.map_name),
            key_bytes: asked.key_size as usize,
            value_bytes: asked.value_size as usize,
            entries_max: asked.max_entries,
            ..Map::default()
        };
        let map = self.bpf.add(What::Map(map));
        Ok(self.enter(Fd::Object(map)))
    }

    fn program_load(&mut self, asked: &sys::bpf_attr__bindgen_ty_4) -> Answer {
        let code = bytes(asked.insns, asked.insn_cnt as usize * 8);
        let mut maps = Vec::new();
        for instruction in code.chunks_exact(8) {
            if (instruction[0], instruction[1] >> 4) == LOAD_MAP {
                let fd = i32::from_ne_bytes(instruction[4..].try_into().expect("four bytes"));
                maps.push(self.object(fd)?);
            }
        }
        let name = text(asked.prog_name);
        let program = self.bpf.add(What::Program { name, maps });
        Ok(self.enter(Fd::Object(program)))
    }

    fn map_entry(&mut self, command: u32, asked: &sys::bpf_attr__bindgen_ty_2) -> Answer {
        let object = self.object(asked.map_fd as i32)?;
        // SAFETY: all members of the union are addresses.
        let to = unsafe { asked.__bindgen_anon_1.value };
        let What::Map(map) = self.bpf.objects[object].what.clone_head() else {
            return Err(libc::EINVAL);
        };
        let is_array = !matches!(
            map.kind,
            sys::BPF_MAP_TYPE_HASH | sys::BPF_MAP_TYPE_LRU_HASH
        );
        let given = (asked.key != 0).then(|| bytes(asked.key, map.key_bytes).to_vec());
        let index = |key: &Vec<u8>| u32::from_ne_bytes(key[..4].try_into().expect("four bytes"));
        if command == sys::BPF_MAP_GET_NEXT_KEY {
            let next = match (&given, is_array) {
                (key, true) => {
                    let next = key.as_ref().map_or(0, |key| index(key).wrapping_add(1));
                    (next < map.entries_max).then(|| next.to_ne_bytes().to_vec())
                }
                (Some(key), false) => self.bpf.next_key(object, key),
                (None, false) => self.bpf.data(object).keys().next().cloned(),
            };
            write(to, &next.ok_or(libc::ENOENT)?);
            return Ok(0);
        }
        let key = given.ok_or(libc::EFAULT)?;
        if is_array && index(&key) >= map.entries_max {
            return Err(if command == sys::BPF_MAP_LOOKUP_ELEM {
                libc::ENOENT
            } else {
                libc::E2BIG
            });
        }
        if command == sys::BPF_MAP_LOOKUP_ELEM {
            let blank = matches!(
                map.kind,
                sys::BPF_MAP_TYPE_ARRAY | sys::BPF_MAP_TYPE_PERCPU_ARRAY
            );
            match self.bpf.data(object).get(&key) {
                Some(found) => write(to, found),
                None if blank => write(to, &vec![0; map.value_bytes]),
                None => return Err(libc::ENOENT),
            }
            return Ok(0);
        }
        let has = self.bpf.data(object).contains_key(&key);
        if command == sys::BPF_MAP_DELETE_ELEM {
            return self
                .bpf
                .data(object)
                .remove(&key)
                .map(|_| 0)
                .ok_or(libc::ENOENT);
        }
        match asked.flags & 3 {
            1 if has => return Err(libc::EEXIST),
            2 if !has && !is_array => return Err(libc::ENOENT),
            _ if !has && self.bpf.data(object).len() as u32 >= map.entries_max => {
                return Err(libc::E2BIG);
            }
            _ => {}
        }
        let mut value = bytes(to, map.value_bytes).to_vec();
        if matches!(
            map.kind,
            sys::BPF_MAP_TYPE_PROG_ARRAY | sys::BPF_MAP_TYPE_ARRAY_OF_MAPS
        ) {
            let fd = i32::from_ne_bytes(value[..4].try_into().expect("four bytes"));
            value = (self.object(fd)? as u32 + 1).to_ne_bytes().to_vec();
        }
        self.bpf.data(object).insert(key, value);
        Ok(0)
    }

    fn link_create(&mut self, asked: &sys::bpf_attr__bindgen_ty_14) -> Answer {
        // SAFETY: for TCX the target is an interface; all members are plain integers.
        let (program, ifindex) = unsafe {
            (
                asked.__bindgen_anon_1.prog_fd as i32,
                asked.__bindgen_anon_2.target_ifindex,
            )
        };
        let program = self.object(program)?;
        if !self.interfaces.contains_key(&ifindex) {
            return Err(libc::ENODEV);
        }
        let hook = (ifindex, asked.attach_type);
        let placed = self.bpf.hooks.get(&hook).cloned().unwrap_or_default();
        let is_same = |link: &usize| matches!(self.bpf.objects[*link].what, What::Link { program: own, .. } if own == program);
        if placed.iter().any(is_same) {
            return Err(libc::EEXIST);
        }
        let link = self.bpf.add(What::Link {
            program,
            hook: Some(hook),
        });
        let at_hook = self.bpf.hooks.entry(hook).or_default();
        let at = if asked.flags & sys::BPF_F_BEFORE != 0 {
            0
        } else {
            at_hook.len()
        };
        at_hook.insert(at, link);
        Ok(self.enter(Fd::Object(link)))
    }

    fn link_update(&mut self, link: i32, new: usize) -> Answer {
        let link = self.object(link)?;
        match &mut self.bpf.objects[link].what {
            What::Link { hook: None, .. } => Err(libc::ENOLINK),
            What::Link { program, .. } => {
                *program = new;
                Ok(0)
            }
            _ => Err(libc::EINVAL),
        }
    }

    fn query(&mut self, asked: &mut sys::bpf_attr__bindgen_ty_10) -> Answer {
        // SAFETY: for TCX the target is an interface; all members are plain integers.
        let (ifindex, room) = unsafe {
            (
                asked.__bindgen_anon_1.target_ifindex,
                asked.__bindgen_anon_2.count as usize,
            )
        };
        if !self.interfaces.contains_key(&ifindex) {
            return Err(libc::ENODEV);
        }
        let links = self.bpf.hooks.get(&(ifindex, asked.attach_type));
        let links = links.cloned().unwrap_or_default();
        for (at, link) in links.iter().take(room).enumerate() {
            if let What::Link { program, .. } = self.bpf.objects[*link].what {
                write(
                    asked.prog_ids + 4 * at as u64,
                    &(program as u32 + 1).to_ne_bytes(),
                );
                write(
                    asked.link_ids + 4 * at as u64,
                    &(*link as u32 + 1).to_ne_bytes(),
                );
            }
        }
        asked.__bindgen_anon_2.count = links.len() as u32;
        Ok(0)
    }

    fn object_info(&mut self, asked: &sys::bpf_attr__bindgen_ty_9) -> Answer {
        let object = self.object(asked.bpf_fd as i32)?;
        let id = object as u32 + 1;
        let tell =
            |from: &[u8]| write(asked.info, &from[..from.len().min(asked.info_len as usize)]);
        match &self.bpf.objects[object].what {
            What::Map(map) => {
                let mut info = sys::bpf_map_info {
                    type_: map.kind,
                    id,
                    key_size: map.key_bytes as u32,
                    value_size: map.value_bytes as u32,
                    max_entries: map.entries_max,
                    ..Default::default()
                };
                for (to, from) in info.name.iter_mut().zip(map.name.bytes()) {
                    *to = from as std::ffi::c_char;
                }
                tell(raw(&info));
            }
            What::Program { name, .. } => {
                let mut info = sys::bpf_prog_info {
                    id,
                    ..Default::default()
                };
                for (to, from) in info.name.iter_mut().zip(name.bytes()) {
                    *to = from as std::ffi::c_char;
                }
                tell(raw(&info));
            }
            What::Link { program, hook } => {
                let mut info = sys::bpf_link_info {
                    id,
                    prog_id: *program as u32 + 1,
                    ..Default::default()
                };
                let (ifindex, attach_type) = hook.unwrap_or_default();
                info.__bindgen_anon_1.tcx.ifindex = ifindex;
                info.__bindgen_anon_1.tcx.attach_type = attach_type;
                tell(raw(&info));
            }
            What::Types => return Err(libc::EINVAL),
        }
        Ok(0)
    }
}

/// Returns the path at an address of the calling process.
fn path(at: u64) -> String {
    // SAFETY: the caller of bpf(2) gives the address of a NUL-terminated path.
    let text = unsafe { std::ffi::CStr::from_ptr(at as *const std::ffi::c_char) };
    text.to_string_lossy().into_owned()
}
