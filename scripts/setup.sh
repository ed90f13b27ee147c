# Sourced by ./try and ./test, in the root of the workspace: makes sure that what they need is there.

say() { printf '%s\n' "$*"; }
fail() { printf '%s\n' "$@" >&2; exit 1; }

need_rust() {
    # A fresh rustup puts cargo where only a new login shell looks.
    if ! command -v cargo >/dev/null && [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
        PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
    fi
    local wanted version
    wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    if ! command -v cargo >/dev/null; then
        fail "Rust is not installed. Get it from https://rustup.rs:" \
             "  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y" \
             "and run $0 again."
    fi
    version=$(rustc --version | cut -d' ' -f2)
    if [ "$(printf '%s\n%s\n' "$wanted" "${version%%-*}" | sort -V | head -n1)" != "$wanted" ]; then
        fail "Rust $wanted or newer is needed, this is $version. With rustup:" \
             "  rustup update stable"
    fi
}

# need_disk GB: says so if there is less. A full disk shows late, as errors of linkers and package managers.
need_disk() {
    local free
    free=$(($(df -Pk . | awk 'NR == 2 { print $4 }') / 1024 / 1024))
    [ "$free" -ge "$1" ] || say "Only $free GB are free on this disk; $0 needs about $1."
}

# etcd's client is generated from its protocol files: protoc and the standard ones it includes.
need_protoc() {
    if command -v protoc >/dev/null && { [ -e /usr/include/google/protobuf/empty.proto ] || ! command -v apt-get >/dev/null; }; then
        return
    fi
    if ! command -v apt-get >/dev/null; then
        fail "protoc is missing: install the package protobuf (or protobuf-compiler) of your system and run $0 again."
    fi
    local line="apt-get install -y --no-install-recommends protobuf-compiler libprotobuf-dev"
    if [ "$(id -u)" != 0 ]; then
        fail "protoc is missing. Run this once, and $0 again:" "  sudo $line"
    fi
    say "Installing protobuf-compiler and libprotobuf-dev with apt-get (protoc, for the client of etcd)."
    # The package lists of a fresh image are empty: fetch them where the first try finds nothing.
    $line >/dev/null 2>&1 || { apt-get update && DEBIAN_FRONTEND=noninteractive $line; } >/dev/null ||
        fail "apt-get could not install them. Install protoc and its standard .proto files, and run $0 again."
}

# need PACKAGE...: installs Debian packages that are not there, or says how and stops.
need() {
    local missing=() package
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    local line="apt-get install -y --no-install-recommends ${missing[*]}"
    if [ "$(id -u)" != 0 ]; then
        fail "Packages are missing. Run this once, and $0 again:" "  sudo $line"
    fi
    say "Installing ${missing[*]} with apt-get."
    { apt-get update && DEBIAN_FRONTEND=noninteractive $line; } >/dev/null ||
        fail "apt-get could not install them. Install them by hand, and run $0 again."
}
