#!/usr/bin/env bash
# Lays out real servers for the tests, without root, Docker or any change to the
# installed packages:
#
#   scripts/fetch-servers.sh [DIR]        default DIR: .servers in the repository root
#
#   DIR/bin/  etcd etcdctl                                        etcd 3.5
#             redis-server redis-cli valkey-server valkey-cli     Redis 8, Valkey 8
#             zk-server  zk-server-3.8                            ZooKeeper 3.9 and 3.8
#             curator                                             java with Curator 5.4 on its class path
#   DIR/bin7/ redis-server                                        Redis 7.0
#
# Needs a Debian 12 or 13 (or a close relative) with apt-get, dpkg-deb and Java 11
# or newer. Packages are downloaded through apt, which checks their signatures,
# from the mirror the host's own apt uses (or $DEBIAN_MIRROR), and unpacked; no
# package script runs. A second call with nothing changed does nothing.
set -euo pipefail

fail() { printf 'fetch-servers: %s\n' "$*" >&2; exit 1; }

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dir=${1:-$repo/.servers}
new=trixie old=bookworm
key=${DEBIAN_KEYRING:-/usr/share/keyrings/debian-archive-keyring.gpg}

command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
  fail "apt-get and dpkg-deb are needed; on another system install the servers yourself and put them on PATH"
[ -n "${JAVA_HOME:-}" ] || command -v java >/dev/null ||
  fail "java is needed for ZooKeeper: apt-get install --no-install-recommends default-jre-headless"
[ -r "$key" ] || fail "no keyring at $key: apt-get install debian-archive-keyring, or set DEBIAN_KEYRING"

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

# The stamp is a hash of this script: an edited list of packages is never served
# by an old tree. It is written last, so a broken run is repeated.
stamp=$(sha256sum <"${BASH_SOURCE[0]}")
[ "$(cat "$dir/.stamp" 2>/dev/null || true)" != "$stamp" ] || exit 0

# Two test runs may start at once in a fresh clone; the second waits and finds
# the stamp of the first.
exec 9>"$dir/.lock"
flock 9
[ "$(cat "$dir/.stamp" 2>/dev/null || true)" != "$stamp" ] || exit 0

mirror=${DEBIAN_MIRROR:-}
if [ -z "$mirror" ]; then
  # The main archive, not the security one, which has none of these packages.
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -E '/debian/?$' | head -n 1 || true)
  # Before the first update apt lists no targets; its sources still name the mirror.
  [ -n "$mirror" ] || mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    grep -E '^(deb|URIs:) ' | grep -oE '[a-z+]+:[^] ]*/debian/?( |$)' | tr -d ' ' | head -n 1 || true)
fi
[ -n "$mirror" ] || fail "no Debian mirror in the apt configuration; set DEBIAN_MIRROR to one"

servers=(etcd-server etcd-client redis-server redis-tools valkey-server valkey-tools)
# What Redis and Valkey link to. They run on these, not on the host's libraries,
# because they need a newer libc than Debian 12 has.
libraries=(libc6 libssl3t64 liblzf1 libjemalloc2 libatomic1 libstdc++6 libgcc-s1 libsystemd0 libcap2
  zlib1g libzstd1)
# The same for Debian 12's Redis 7.0, which runs on its own suite's libraries.
redis7=(redis-server redis-tools libc6 libssl3 liblzf1 libjemalloc2 libatomic1 libstdc++6 libgcc-s1 libsystemd0 libcap2
  zlib1g libzstd1 liblzma5 liblz4-1 libgcrypt20 libgpg-error0 liblua5.1-0 lua-bitop lua-cjson)
# libzookeeper-java alone would pull a desktop JRE; these are the jars it really
# loads. Netty and tcnative are for the TLS port.
jars=(libzookeeper-java libslf4j-java libdropwizard-metrics-java libcommons-io-java libsnappy-java
  libnetty-java libnetty-tcnative-java)
# Curator's locks and its discovery, which ours must respect. Its ZooKeeper client is 3.8's.
curator=(libcurator-client-java libcurator-framework-java libcurator-recipes-java libcurator-discovery-java libguava-java
  libjackson2-annotations-java libjackson2-core-java libjackson2-databind-java)

# A private apt: own lists, own cache, own (empty) status file. Nothing of the
# host's is written, so a plain user can run it.
apt=$dir/apt
rm -rf "$apt" "$dir/$new" "$dir/$old" "$dir/bin" "$dir/bin7"
mkdir -p "$apt"/{lists/partial,cache/archives/partial,"$new","$old"} "$dir"/{"$new","$old",bin,bin7}
: >"$apt/status"
printf "deb [signed-by=$key] $mirror %s main\n" "$new" "$old" >"$apt/sources.list"
apt() {
  apt-get -qq -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::Etc::preferencesparts=/dev/null -o Dir::Etc::preferences=/dev/null \
    -o "Dir::State=$apt" -o "Dir::State::lists=$apt/lists" -o "Dir::State::status=$apt/status" \
    -o "Dir::Cache=$apt/cache" -o Acquire::Languages=none -o Acquire::Check-Valid-Until=false \
    -o Acquire::Retries=3 -o APT::Update::Error-Mode=any -o APT::Sandbox::User="$(id -un)" "$@" ||
    fail "apt-get ${1} from $mirror failed; set DEBIAN_MIRROR to another mirror"
}

# fetch SUITE PACKAGE...: downloads from that suite and unpacks into DIR/SUITE.
fetch() {
  local suite=$1 deb
  shift
  (cd "$apt/$suite" && apt download "${@/%//$suite}")
  for deb in "$apt/$suite"/*.deb; do dpkg-deb -x "$deb" "$dir/$suite"; done
}

echo "fetch-servers: reading package lists"
apt update
echo "fetch-servers: etcd 3.5, Redis 8, Valkey 8, ZooKeeper 3.9 ($new)"
fetch "$new" "${servers[@]}" "${libraries[@]}" "${jars[@]}"
echo "fetch-servers: ZooKeeper 3.8, Redis 7.0 and Curator 5.4 ($old)"
fetch "$old" "${redis7[@]}" "${jars[@]}" "${curator[@]}"

# wrap NAME BODY: a launcher that finds its tree by its own place, so that DIR can
# be moved. Each ends in exec: the process id the test harness sees is the server's.
wrap() {
  printf '#!/bin/sh\nd=$(dirname "$(readlink -f "$0")")/..\n%s\n' "$2" >"$dir/bin/$1"
  chmod 755 "$dir/bin/$1"
}

# on_own_libc SUITE NAME [LAUNCHER]: a launcher for a program that brings its C library.
on_own_libc() {
  local loader
  loader=$(find "$dir/$1" -name 'ld-linux*.so.*' -type f -printf '%P\n' | head -n 1)
  [ -n "$loader" ] || fail "the unpacked libc of $1 has no loader"
  # LC_ALL: Redis refuses to start when the inherited locale is unknown to its libc.
  wrap "${3:-$2}" "lib=\$d/$1/$(dirname "$loader") usr=\$d/$1/usr/lib/$(basename "$(dirname "$loader")")
LC_ALL=C exec \"\$lib/$(basename "$loader")\" --argv0 $2 --library-path \"\$lib:\$usr\" \"\$d/$1/usr/bin/$2\" \"\$@\""
}
for name in redis-server redis-cli valkey-server valkey-cli; do
  on_own_libc "$new" "$name"
done
on_own_libc "$old" redis-server ../bin7/redis-server
for name in etcd etcdctl; do
  wrap "$name" "exec \"\$d/$new/usr/bin/$name\" \"\$@\""
done

zookeeper() {
  wrap "$1" "j=\$d/$2/usr/share/java cp="'
# zookeeper.jar goes last: its manifest names jars under /usr/share/java by their
# absolute paths, and those of another version, if installed, would come first.
for jar in zookeeper-jute slf4j-api slf4j-simple metrics-core commons-io snappy-java netty-buffer netty-codec \
  netty-common netty-handler netty-resolver netty-tcnative netty-transport netty-transport-native-epoll \
  netty-transport-native-unix-common zookeeper; do
  [ ! -e "$j/$jar.jar" ] || cp=$cp${cp:+:}$j/$jar.jar
done
exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" -Xmx${ZK_HEAP:-96m} -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
  -XX:-UsePerfData ${JVMFLAGS:-} -cp "$cp" org.apache.zookeeper.server.quorum.QuorumPeerMain "$@"'
}
zookeeper zk-server "$new"
zookeeper zk-server-3.8 "$old"
wrap curator "j=\$d/$old/usr/share/java cp="'
for jar in curator-x-discovery curator-recipes curator-framework curator-client guava jackson-annotations \
  jackson-core jackson-databind zookeeper-jute slf4j-api slf4j-nop metrics-core commons-io snappy-java netty-all \
  zookeeper; do
  [ ! -e "$j/$jar.jar" ] || cp=$cp${cp:+:}$j/$jar.jar
done
exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$cp" "$@"'

rm -rf "$apt"
echo "$stamp" >"$dir/.stamp"
echo "fetch-servers: ready in $dir/bin"
