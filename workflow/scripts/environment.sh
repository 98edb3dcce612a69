#!/bin/sh
# The Python of the environment that `make setup` makes.
#
#   environment.sh find [PYTHON]           print the path of the Python to make it with
#   environment.sh stale FOLDER [PYTHON]   print why that of FOLDER is no good, if so
#
# PYTHON is what the user named. Else the first python3 of PATH that fits is taken, or the
# newest one that does. A shim has the name of a Python, but may have none to run.
set -euf
IFS='
'
EXPECTED='Python 3.11, 3.12 or 3.13 with venv (Debian: apt-get install python3-venv)'

# Any Python reads this, and prints its version with what speaks against it, and the path
# of the one that it was made from if it is that of an environment.
PROBE='
import sys

words = [".".join([str(part) for part in sys.version_info[:3]])]
words[0] += getattr(sys, "abiflags", "")
if hasattr(sys, "pypy_version_info"):
    words.append("of PyPy")
try:
    import ensurepip, venv
except ImportError:
    words.append("without venv")
print("tierscope:" + " ".join(words))
print(getattr(sys, "_base_executable", sys.executable))
'

fail() {
  echo "tierscope: $1" >&2
  exit 1
}

# Set `version` and `base` of a Python.
probe() {
  answer=$("$1" -c "$PROBE" 2> /dev/null < /dev/null) || answer='does not run'
  answer=${answer#*tierscope:}  # a site may print something before
  version=${answer%%"$IFS"*}
  base=${answer#*"$IFS"}
}

fits() {
  case $1 in
    *[!0-9.]*) return 1 ;;
    3.11.* | 3.12.* | 3.13.*) ;;
    *) return 1 ;;
  esac
}

# Print the files of a name in PATH, each once.
in_path() {
  for folder in $(echo "$PATH" | tr : '\n'); do
    if test -f "$folder/$1" && test -x "$folder/$1"; then
      (CDPATH='' cd -P "$folder" && echo "$PWD/$1")
    fi
  done | awk '!seen[$0]++'
}

candidates() {
  in_path python3
  for minor in 13 12 11; do in_path "python3.$minor"; done
}

# Set `version` and `base` of the first that fits.
search() {
  found=
  for python in $(candidates); do
    probe "$python"
    fits "$version" && return
    found="$found$python ($version), "
  done
  found=${found:-'no python3 and no python3.11 to 3.13 in PATH, '}
  fail "found ${found}expected $EXPECTED; name one: make setup PYTHON=..."
}

find_python() {
  if test -n "$1"; then
    probe "$1"
    fits "$version" || fail "PYTHON: got $1 ($version), expected $EXPECTED"
  else
    search
  fi
  echo "tierscope: Python $version of $base" >&2
  echo "$base"
}

say_why_stale() {
  folder=$1 given=$2 here=$(pwd -P)
  if grep -q '^command = ' "$folder/pyvenv.cfg" &&
    ! grep -qF " $here/$folder" "$folder/pyvenv.cfg"; then
    echo 'the clone was moved or copied'
    return
  fi
  probe "$folder/bin/python"
  own=${version%.*}
  if test ! -x "$folder/bin/pip"; then
    echo 'it has no pip'
  elif ! fits "${version%% *}"; then
    echo "its Python is of no use ($version)"
  elif test ! -d "$folder/lib/python$own/site-packages"; then
    echo "its Python has become $version"
  elif test -n "$given" && probe "$given" && test "${version%.*}" != "$own"; then
    echo "it has Python $own, PYTHON is another one ($version)"
  fi
}

case ${1-} in
  find) find_python "${2-}" ;;
  stale) say_why_stale "$2" "${3-}" ;;
  *) sed -n '4,5s/^# *//p' "$0" >&2; exit 2 ;;
esac
