# Sourced by ./try and ./test: makes sure that what they need is installed.

# say TEXT: one line for people, apart from the output of tools.
say() { printf '\n== %s\n' "$*"; }

# need PACKAGE...: installs Debian packages that are not there, or says how and stops.
need() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    echo "Missing packages. As root, run this line, then try again:" >&2
    echo "  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  say "installing ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# need_rust: cargo is the one thing that is not installed from here.
need_rust() {
  command -v cargo >/dev/null || {
    echo "Rust is missing: install it from https://rustup.rs, then try again." >&2
    exit 1
  }
}

# The build of the etcd client runs protoc, on the well-known types.
build_packages=(protobuf-compiler libprotobuf-dev)
