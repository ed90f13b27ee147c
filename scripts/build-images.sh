#!/usr/bin/env bash
# Builds the images of the test servers from Debian packages, for machines that
# can reach a Debian mirror but no image registry:
#
#   coord-lab/zookeeper:3.9   coord-lab/etcd:3.5   coord-lab/redis:8   coord-lab/valkey:8
#
# They answer to the same commands and variables as the public images, and carry
# names of their own, so nobody takes one for the other. To test with them:
#
#   export COORD_TEST_ZK_IMAGE=coord-lab/zookeeper:3.9 COORD_TEST_ETCD_IMAGE=coord-lab/etcd:3.5
#   export COORD_TEST_REDIS_IMAGE=coord-lab/redis:8 COORD_TEST_VALKEY_IMAGE=coord-lab/valkey:8
#
# Needs a Docker engine and mmdebstrap (installed here when run as root). About
# one minute; a second call with nothing changed does nothing.
set -euo pipefail

fail() { printf 'build-images: %s\n' "$*" >&2; exit 1; }

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
suite=trixie prefix=${TAG_PREFIX:-coord-lab}

command -v docker >/dev/null || fail "the docker client is needed: apt-get install docker.io"
docker version --format '{{.Server.Version}}' >/dev/null 2>&1 || fail "no Docker engine answers; is it running?"

# The tag carries a hash of the inputs: an edited script is never served by an old image.
base=$prefix/base:$suite-$(cat "${BASH_SOURCE[0]}" "$here/zk-entry.sh" | sha256sum | cut -c1-12)

# The mirror of the host's own apt, as in fetch-servers.sh. Without one
# mmdebstrap would use its built-in default.
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' |
  grep -E '/debian/?$' | head -n 1 || true)}

build_base() {
  if ! command -v mmdebstrap >/dev/null; then
    [ "$(id -u)" = 0 ] || fail "mmdebstrap is needed: sudo apt-get install --no-install-recommends mmdebstrap"
    echo "build-images: installing mmdebstrap"
    local log
    log=$(apt-get -qq update 2>&1 &&
      DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends mmdebstrap 2>&1) ||
      fail "apt-get: $log"
  fi
  # Not the zookeeper package: it only adds scripts and a desktop JRE.
  local packages=base-files,dash,coreutils,openjdk-21-jre-headless,libzookeeper-java,libnetty-tcnative-java
  packages+=,etcd-server,etcd-client,redis-server,redis-tools,valkey-server,valkey-tools

  # extract: unpack only. No maintainer script runs, so nothing needs /proc, starts
  # a service or asks a question; base-files brings the links of the merged /usr.
  # In this variant only setup and extract hooks run; others are skipped silently.
  mmdebstrap --quiet --mode="${MMDEBSTRAP_MODE:-auto}" --variant=extract --include="$packages" \
    --aptopt='APT::Install-Recommends "false"' --aptopt='Acquire::Check-Valid-Until "false"' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
    --extract-hook="copy-in '$here/zk-entry.sh' /usr/bin" \
    --extract-hook='cd "$1"; chmod 755 usr/bin/zk-entry.sh; mkdir -p data datalog conf var/lib/etcd
      echo root:x:0:0:root:/root:/bin/sh >etc/passwd; ln -sf dash usr/bin/sh' \
    "$suite" - ${mirror:+"$mirror"} |
    # LC_ALL: Redis refuses to start when an inherited locale is unknown to its libc.
    docker import -c 'ENV LC_ALL=C' \
      -c "ENV PATH=/usr/local/bin:/usr/bin:/bin:/usr/lib/jvm/java-21-openjdk-$(dpkg --print-architecture)/bin" \
      - "$base" >/dev/null
}

if ! docker image inspect "$base" >/dev/null 2>&1; then
  echo "build-images: unpacking Debian $suite into $base"
  build_base
fi

# One base, four tags: the same layer is stored once.
image() {
  local tag=$prefix/$1 text
  shift
  text=$(printf '%s\n' "FROM $base" 'LABEL coord.lab=1' "$@")
  # Standard error carries the notice about the classic builder; shown only on failure.
  local log
  log=$(printf '%s\n' "$text" | docker build -q -t "$tag" - 2>&1) || fail "docker build of $tag: $log"
  echo "build-images: $tag"
}
image zookeeper:3.9 'EXPOSE 2181 2888 3888' 'ENTRYPOINT ["/usr/bin/zk-entry.sh"]' 'CMD ["zkServer.sh", "start-foreground"]'
image etcd:3.5 'EXPOSE 2379 2380' 'CMD ["/usr/bin/etcd"]'
image redis:8 'EXPOSE 6379' 'CMD ["redis-server"]'
image valkey:8 'EXPOSE 6379' 'CMD ["valkey-server"]'
