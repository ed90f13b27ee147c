#!/bin/sh
# Entry point of the locally built ZooKeeper test image. It writes the server's
# configuration from the same ZOO_* variables, with the same defaults, as the
# public image, so that one test harness can use either.
set -eu
conf=${ZOO_CONF_DIR:-/conf} data=${ZOO_DATA_DIR:-/data} log=${ZOO_DATA_LOG_DIR:-/datalog}
mkdir -p "$conf" "$data" "$log"

# A mounted configuration wins over the variables.
if [ ! -f "$conf/zoo.cfg" ]; then
  {
    echo "dataDir=$data"
    echo "dataLogDir=$log"
    echo "tickTime=${ZOO_TICK_TIME:-2000}"
    echo "initLimit=${ZOO_INIT_LIMIT:-5}"
    echo "syncLimit=${ZOO_SYNC_LIMIT:-2}"
    echo "autopurge.snapRetainCount=${ZOO_AUTOPURGE_SNAPRETAINCOUNT:-3}"
    echo "autopurge.purgeInterval=${ZOO_AUTOPURGE_PURGEINTERVAL:-0}"
    echo "maxClientCnxns=${ZOO_MAX_CLIENT_CNXNS:-60}"
    echo "standaloneEnabled=${ZOO_STANDALONE_ENABLED:-true}"
    # The admin server needs a web server that this image leaves out.
    echo "admin.enableServer=false"
    [ -z "${ZOO_4LW_COMMANDS_WHITELIST:-}" ] || echo "4lw.commands.whitelist=$ZOO_4LW_COMMANDS_WHITELIST"
    # Word splitting is meant in these two: both are lists separated by blanks.
    for line in ${ZOO_SERVERS:-"server.1=localhost:2888:3888;2181"}; do echo "$line"; done
    for line in ${ZOO_CFG_EXTRA:-}; do echo "$line"; done
  } >"$conf/zoo.cfg"
fi
[ -f "$data/myid" ] || echo "${ZOO_MY_ID:-1}" >"$data/myid"

if [ "${1:-}" = zkServer.sh ]; then
  java=/usr/share/java cp=
  # zookeeper.jar last: its manifest pulls in every other jar of the folder.
  for jar in zookeeper-jute slf4j-api slf4j-simple metrics-core commons-io snappy-java netty-buffer netty-codec \
    netty-common netty-handler netty-resolver netty-tcnative netty-transport netty-transport-native-epoll \
    netty-transport-native-unix-common zookeeper; do
    [ ! -e "$java/$jar.jar" ] || cp=$cp${cp:+:}$java/$jar.jar
  done
  # shellcheck disable=SC2086 # JVMFLAGS is a list of flags
  exec java -Xmx${ZK_HEAP:-128m} -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData ${JVMFLAGS:-} \
    -cp "$cp" org.apache.zookeeper.server.quorum.QuorumPeerMain "$conf/zoo.cfg"
fi
exec "$@"
