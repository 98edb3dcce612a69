#!/bin/bash
# Two real storage tiers on one machine, for system `realfs`; docs/realfs.md says more.
#
#   realfs.sh up [FOLDER]        make and mount both tiers below FOLDER (scratch/realfs)
#   realfs.sh down [FOLDER]      unmount them, end their servers, remove FOLDER
#   realfs.sh status [FOLDER]    say whether they are up; exit code 1 if not
#
# FOLDER/gfs is a GlusterFS volume over loopback. Each brick is a server of its own with
# one thread, which sleeps before it serves a read. FOLDER/lfs is ext4 on a loop device,
# whose disk is such a server, too.
#
# Settings, from the environment:
#
#   REALFS_BRICKS        bricks of the GlusterFS volume; default 4
#   REALFS_READ_US       sleep of a brick before each read, in microseconds; default 10000
#   REALFS_LFS_MIB       size of the loop device, in MiB; default 512
#   REALFS_LFS_READ_US   sleep of the LFS's disk before each read; default 5000
set -eu

BRICKS=${REALFS_BRICKS:-4}
READ_US=${REALFS_READ_US:-10000}
LFS_MIB=${REALFS_LFS_MIB:-512}
LFS_READ_US=${REALFS_LFS_READ_US:-5000}
PORT=24110 # of every brick; each has an address of its own

fail() {
  echo "realfs: $*" >&2
  exit 1
}

usage() {
  sed -n '4,6s/^# *//p' "$0" >&2
  exit 2
}

# Wait up to a minute until a command succeeds.
wait_for() {
  local _
  for _ in $(seq 1200); do
    "$@" && return
    sleep 0.05
  done
  return 1
}

check_number() { # name value least
  case $2 in
    '' | *[!0-9]*) fail "$1: got '$2', expected a whole number" ;;
  esac
  [ "$2" -ge "$3" ] || fail "$1: got $2, expected $3 or more"
}

check_machine() {
  local missing=() tool
  [ "$(id -u)" = 0 ] || fail "got user $(id -un), expected root: mounts need it"
  for tool in glusterfsd:glusterfs-server fusermount3:fuse3 mkfs.ext4:e2fsprogs \
    losetup:mount setfattr:attr; do
    command -v "${tool%:*}" > /dev/null || missing+=("${tool#*:}")
  done
  [ ${#missing[@]} = 0 ] || fail "packages are missing: apt-get install ${missing[*]}"
  [ -c /dev/fuse ] || fail "/dev/fuse: not there; expected a kernel with FUSE"
  [ -c /dev/loop-control ] || fail "/dev/loop-control: not there; expected loop devices"
}

# ---- processes: recorded with their start, as the kernel uses a pid again ------------

start_of() { # pid; its start in clock ticks, empty if it has ended (a zombie has, too)
  sed -n 's/.*) [^Z] /- /p' "/proc/$1/stat" 2> /dev/null | cut -d' ' -f20
}

first_error() { # server
  grep -m1 ' E ' "$DIR/log/$1.log" || tail -n 1 "$DIR/log/$1.log" "$DIR/log/$1.out"
}

# Start a server in the background and record it. It stands for a machine of its own, so
# it gets a processor before others do.
serve() { # name command...
  local name=$1
  shift
  setsid nice -n -10 "$@" > "$DIR/log/$name.out" 2>&1 < /dev/null &
  echo "$! $(start_of $!) $name" >> "$DIR/servers"
}

is_running() { # pid start
  [ -n "$2" ] && [ "$(start_of "$1")" = "$2" ]
}

has_ended() { ! is_running "$@"; }

end_servers() {
  local pid start name
  [ -f "$DIR/servers" ] || return 0
  while read -r pid start name; do
    has_ended "$pid" "$start" || kill "$pid" 2> /dev/null || true
  done < "$DIR/servers"
  while read -r pid start name; do
    wait_for has_ended "$pid" "$start" || kill -KILL "$pid" 2> /dev/null || true
  done < "$DIR/servers"
}

# ---- GFS --------------------------------------------------------------------

# A volume file is a stack of translators; each names those below it.
posix_volume() { # folder
  cat << END
volume posix
  type storage/posix
  option directory $1
end-volume
volume locks
  type features/locks
  subvolumes posix
end-volume
END
}

# One thread serves the reads (they have low priority) and sleeps before each; others
# serve the rest.
server_thread() { # sleep in microseconds
  cat << END
volume delay
  type debug/delay-gen
  option delay-percentage 100
  option delay-duration $1
  option enable read
  subvolumes locks
end-volume
volume brick
  type performance/io-threads
  option thread-count 8
  option low-prio-threads 1
  subvolumes delay
end-volume
END
}

server_volume() { # address
  cat << END
volume server
  type protocol/server
  option transport-type tcp
  option transport.socket.bind-address $1
  option transport.socket.listen-port $PORT
  option auth.addr.brick.allow 127.*
  subvolumes brick
end-volume
END
}

client_volume() { # number address
  cat << END
volume client$1
  type protocol/client
  option transport-type tcp
  option remote-host $2
  option remote-port $PORT
  option remote-subvolume brick
end-volume
END
}

listens() { # address
  (exec 3<> "/dev/tcp/$1/$PORT") 2> /dev/null
}

answers() { # mount point
  mountpoint -q "$1" && stat "$1"/. > /dev/null 2>&1
}

start_gfs() {
  local i address clients=""
  : > "$DIR/client.vol"
  for i in $(seq "$BRICKS"); do
    # All of 127/8 is this machine. An address of its own needs no free port.
    address=127.$((RANDOM % 254 + 1)).$((RANDOM % 254 + 1)).$((RANDOM % 254 + 1))
    mkdir -p "$DIR/bricks/$i"
    setfattr -n trusted.tierscope -v 1 "$DIR/bricks/$i" 2> /dev/null ||
      fail "$DIR: its file system takes no trusted attributes, which GlusterFS needs;" \
        "choose a folder on ext4 or XFS"
    {
      posix_volume "$DIR/bricks/$i"
      server_thread "$READ_US"
      server_volume "$address"
    } > "$DIR/brick$i.vol"
    client_volume "$i" "$address" >> "$DIR/client.vol"
    clients="$clients client$i"
    serve "brick$i" glusterfsd -N -f "$DIR/brick$i.vol" -l "$DIR/log/brick$i.log"
    wait_for listens "$address" ||
      fail "brick $i does not listen: $(first_error "brick$i")"
  done
  cat >> "$DIR/client.vol" << END
volume distribute
  type cluster/distribute
  subvolumes$clients
end-volume
END
  # An open drops the pages of its file from this kernel. Names are kept so briefly that
  # only those of folders are known when they are needed again.
  serve gfs glusterfs -N -f "$DIR/client.vol" -l "$DIR/log/gfs.log" \
    --direct-io-mode=disable --fopen-keep-cache=off --attribute-timeout=0 \
    --entry-timeout=0.1 "$DIR/gfs"
  wait_for answers "$DIR/gfs" ||
    fail "the GlusterFS volume is not mounted: $(first_error gfs)"
}

# ---- LFS --------------------------------------------------------------------

# The disk of the LFS is a file on a mount of its own, whose server serves one read at a
# time. It is no part of the GFS.
start_disk() {
  {
    posix_volume "$DIR/disk"
    server_thread "$LFS_READ_US"
  } > "$DIR/disk.vol"
  serve disk glusterfs -N -f "$DIR/disk.vol" -l "$DIR/log/disk.log" \
    --direct-io-mode=enable "$DIR/disk-mount"
  wait_for answers "$DIR/disk-mount" ||
    fail "the disk of the LFS is not mounted: $(first_error disk)"
}

start_lfs() {
  local image=$DIR/$IMAGE loop
  truncate --size="${LFS_MIB}M" "$image"
  mkfs.ext4 -q -F -m 0 "$image" || fail "$image: mkfs.ext4 failed"
  loop=$(losetup --find --show --direct-io=on "$image") ||
    fail "$image: losetup --direct-io=on failed"
  mount -o noatime "$loop" "$DIR/lfs"
}

# ---- commands ---------------------------------------------------------------

# The mount of a server that was killed cannot be examined, only unmounted.
unmount() { # mount point
  umount "$1" 2> /dev/null || umount --lazy "$1" 2> /dev/null || true
}

# Take down whatever is there of both tiers, each part even if another one fails.
take_down() {
  local loop file
  set +e
  unmount "$DIR/lfs"
  losetup --list --noheadings --output NAME,BACK-FILE | while read -r loop file; do
    [ "$file" != "$DIR/$IMAGE" ] || losetup --detach "$loop"
  done
  unmount "$DIR/disk-mount"
  unmount "$DIR/gfs"
  end_servers
  rm -rf --one-file-system "$DIR"
  set -e
}

is_up() {
  local pid start name
  [ -f "$DIR/up" ] && mountpoint -q "$DIR/gfs" && mountpoint -q "$DIR/lfs" || return 1
  while read -r pid start name; do
    is_running "$pid" "$start" || return 1
  done < "$DIR/servers"
}

settings() {
  echo "GFS of $BRICKS bricks, $READ_US us a read; LFS of $LFS_MIB MiB, $LFS_READ_US us"
}

up() {
  check_number REALFS_BRICKS "$BRICKS" 1
  check_number REALFS_READ_US "$READ_US" 0
  check_number REALFS_LFS_MIB "$LFS_MIB" 16
  check_number REALFS_LFS_READ_US "$LFS_READ_US" 0
  case $DIR in
    *[[:space:]]*) fail "$DIR: got a path with a blank, expected one without" ;;
  esac
  check_machine
  if is_up; then
    [ "$(cat "$DIR/up")" = "$(settings)" ] ||
      fail "$DIR: is up with $(cat "$DIR/up"), expected $(settings); first: $0 down $DIR"
    echo "realfs: is up at $DIR: $(settings)"
    return
  fi
  if [ -e "$DIR" ] && [ ! -f "$DIR/$MARKER" ]; then
    fail "$DIR: is there and was not made by this script; choose another folder"
  fi
  take_down # what a crash or a restart of the machine has left
  trap 'take_down' EXIT
  trap 'exit 1' INT TERM HUP
  mkdir -p "$DIR/gfs" "$DIR/lfs" "$DIR/disk" "$DIR/disk-mount" "$DIR/log"
  touch "$DIR/$MARKER"
  start_gfs
  start_disk
  start_lfs
  settings > "$DIR/up"
  trap - EXIT
  echo "realfs: is up at $DIR: $(settings)"
}

down() {
  [ "$(id -u)" = 0 ] || fail "got user $(id -un), expected root: unmounting needs it"
  if [ ! -f "$DIR/$MARKER" ]; then
    echo "realfs: nothing is up at $DIR"
    return
  fi
  take_down
  [ ! -e "$DIR" ] || fail "$DIR: cannot be removed; see what uses it: fuser -vm $DIR"
  echo "realfs: is down, $DIR is removed"
}

status() {
  is_up || fail "is not up at $DIR; as root: $0 up $DIR"
  echo "realfs: is up at $DIR: $(cat "$DIR/up")"
}

[ $# = 1 ] || [ $# = 2 ] || usage
DIR=$(realpath --canonicalize-missing "${2:-scratch/realfs}")
IMAGE=disk-mount/lfs.img
MARKER=.tierscope-realfs
case $1 in
  up | down | status) "$1" ;;
  *) usage ;;
esac
