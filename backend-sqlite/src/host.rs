//! What the host tells: which boot, how long since, and whether a directory is its own.

use std::{fs, path::Path};

use coord_api::{Error, ErrorKind, Result};
use rustix::{
    fs::statfs,
    time::{ClockId, clock_gettime},
};

/// Which boot of which host this is. Another id means that no session of before can have an owner.
pub(crate) fn boot_id() -> Result<String> {
    let read = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let id = read.map(|text| text.trim().to_owned()).unwrap_or_default();
    if id.is_empty() {
        return Err(Error::config(
            "the embedded store needs Linux: /proc/sys/kernel/random/boot_id cannot be read",
        ));
    }
    Ok(id)
}

/// The clock by which sessions are judged, in milliseconds: the host's time since it was booted.
///
/// It goes on while the machine sleeps, no change of the wall clock moves it, and all processes of the host see the same,
/// also those in a time namespace, whose own clock is moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BootClock {
    moved_ms: i64,
}

impl BootClock {
    pub(crate) fn new() -> Self {
        let text = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
        Self { moved_ms: moved(&text) }
    }

    pub(crate) fn now_ms(self) -> i64 {
        #[cfg(target_os = "linux")]
        let clock = ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        let clock = ClockId::Monotonic;
        let time = clock_gettime(clock);
        time.tv_sec.saturating_mul(1000) + time.tv_nsec / 1_000_000 - self.moved_ms
    }
}

/// By how much a time namespace moves its boot-time clock, from `/proc/self/timens_offsets`.
fn moved(text: &str) -> i64 {
    let mut found = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let ours = matches!(words.next(), Some("boottime" | "7"));
        let seconds: i64 = words.next()?.parse().ok()?;
        let nanos: i64 = words.next()?.parse().ok()?;
        ours.then_some(seconds.saturating_mul(1000) + nanos / 1_000_000)
    });
    found.next().unwrap_or(0)
}

/// The wall clock in microseconds: where the revisions of a new file begin.
pub(crate) fn wall_micros() -> u64 {
    let time = clock_gettime(ClockId::Realtime);
    let micros = time.tv_sec.saturating_mul(1_000_000) + time.tv_nsec / 1000;
    u64::try_from(micros).unwrap_or(0)
}

/// File systems that other hosts may write to, by the magic number of the kernel.
const SHARED: &[(u32, &str)] = &[
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xfe53_4d42, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0x0102_1997, "9p, as in WSL and some virtual machines"),
    (0x6573_5546, "FUSE, such as sshfs or virtiofs"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x786f_4256, "the shared folders of VirtualBox"),
    (0xbacb_acbc, "the shared folders of VMware"),
];

/// Refuses a directory that other hosts may share, where that can be told.
///
/// There, file locks and shared memory do not reach the other host, and its boot-time clock is another.
pub(crate) fn refuse_shared(dir: &Path) -> Result<()> {
    let Ok(found) = statfs(dir) else { return Ok(()) };
    // The kernel's field is as wide as a word; the numbers are 32 bits.
    let magic = u32::try_from(i128::from(found.f_type) & 0xffff_ffff).unwrap_or(0);
    match shared(magic) {
        None => Ok(()),
        Some(name) => Err(Error::new(
            ErrorKind::Config,
            "the embedded store is for one host, and this file system may be shared with others, whose locks and \
             clocks it cannot see: put the file on a local disk, or use a store with a server",
        )
        .with_context("file_system", name)
        .with_context("dir", dir.display())),
    }
}

fn shared(magic: u32) -> Option<&'static str> {
    SHARED.iter().find(|(known, _)| *known == magic).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_namespace_does_not_move_the_clock() {
        assert_eq!(moved("monotonic           0         0\nboottime            0         0\n"), 0);
        assert_eq!(moved("monotonic  5 0\nboottime  -86400  500000000\n"), -86_400_000 + 500);
        for bad in ["", "boottime", "boottime x y", "boottime 1"] {
            assert_eq!(moved(bad), 0, "{bad}");
        }
    }

    #[test]
    fn file_systems_of_networks_are_known_and_local_ones_are_not_refused() {
        assert_eq!(shared(0x6969), Some("NFS"));
        for local in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630, 0x2fc1_2fc1, 0xf2f5_2010] {
            assert_eq!(shared(local), None, "{local:x}");
        }
        assert!(refuse_shared(&std::env::temp_dir()).is_ok());
    }

    #[test]
    fn the_boot_has_an_id_and_a_clock() {
        assert_eq!(boot_id().unwrap(), boot_id().unwrap());
        let clock = BootClock::new();
        assert!(clock.now_ms() > 0 && clock.now_ms() < i64::MAX / 2);
    }
}
