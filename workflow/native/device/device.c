/*
 * Emulated storage devices: an LD_PRELOAD library that charges for real calls.
 *
 * It charges virtual time (virtual_time.h): no process sleeps. A device stands in
 * front of one or more directories. It is a small queueing network shared by all
 * processes of the machine:
 *
 *     open, close ── metadata queue ── metadata latency
 *     read        ── object server of the file ── link (if any) ── read latency
 *
 * A read of b bytes is ceil(b / request_bytes) requests, one after the other.
 * A queue is only the instant at which it is free again: a request starts at
 * max(its arrival, that instant), and moves the instant by its service time. The
 * instants are in a file that every process maps, so no daemon is needed.
 *
 * Charged calls. Successful opens for reading (O_RDONLY without O_PATH and without
 * O_DIRECTORY), and reads and the close of the descriptors that they return.
 * Writes run at the speed of the bare directory, so datasets are generated fast. The
 * exception is background traffic: bytes written (O_WRONLY) through an alias
 * `.bg.ep<digits>` of a prefix or of a directory above it are charged as if read.
 * A read that returns no bytes (end of file) is free. So are stat and its family:
 * tf.data makes none, and a loader that does would run them at the real speed.
 * On a device whose close_s is 0 a close has no queue and no latency.
 *
 * Duplicates and forks. A descriptor made by dup or inherited through fork is
 * read through the device like the original, but only the descriptor that open
 * returned pays for its close, in the process that opened it; close_range,
 * closefrom and exec forget without charge.
 *
 * Calls that escape. Static programs, raw system calls, mmap, io_uring, preads of
 * libaio, and stdio (fopen, fread), whose calls stay inside libc.
 *
 * Order. A profiler stands BEFORE this library in LD_PRELOAD: its wrapper calls
 * ours, ours calls libc. In the other order it sees none of the charged time.
 *
 * Environment (neither set: the library does nothing):
 *   TIERSCOPE_DEVICES       text file, one device per line, `key=value` fields
 *                           separated by tabs, written by
 * tierscope/storage/emulated/device.py TIERSCOPE_DEVICE_STATE  state file, made by
 * tierscope_clock_create An error in either ends the process with status 2 and a
 * message: a run must never continue without its devices.
 *
 * cc -O2 -Wall -Wextra -shared -fPIC -pthread -o libtierscope_device.so \
 *   preload.c and all sources here, -ldl
 */
#include "device.h"

#include "virtual_time.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

void fail(const char *format, ...) {
  char reason[900];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  say_last("tierscope: emulated devices: %s", reason);
  _exit(2);
}

void *allocate(size_t count, size_t size) {
  void *memory = calloc(count ? count : 1, size);
  if (!memory)
    fail("no memory for %zu x %zu bytes", count, size);
  return memory;
}

/* ---- devices ------------------------------------------------------------------ */

struct device *devices;
pid_t owner;

/* Whole nanoseconds, a half to the even one, as to_ns in
 * tierscope.model.simulator.stations. */
int64_t to_ns(double seconds) { return (int64_t)__builtin_rint(seconds * 1e9); }

double transfer_s(size_t bytes, double bytes_per_s) {
  return bytes_per_s > 0 ? bytes / bytes_per_s : 0;
}

/* ---- which device a path belongs to ------------------------------------------ */

struct prefix {
  char *path;
  size_t length;
  uint32_t device;
};

/* A hash table, so that opens stay fast with thousands of devices. */
static struct prefix *prefixes;
static size_t prefix_capacity; /* a power of two, at least twice the prefixes */

#define HASH_START 14695981039346656037ULL

static uint64_t hash_more(uint64_t hash, char byte) /* FNV-1a */
{
  return (hash ^ (uint8_t)byte) * 1099511628211ULL;
}

static uint64_t hash_text(const char *text) {
  uint64_t hash = HASH_START;
  for (; *text; text++)
    hash = hash_more(hash, *text);
  return hash;
}

static struct prefix *find_prefix(uint64_t hash, const char *path, size_t length) {
  for (size_t at = hash;; at++) {
    struct prefix *prefix = &prefixes[at & (prefix_capacity - 1)];
    if (!prefix->path ||
        (prefix->length == length && memcmp(prefix->path, path, length) == 0))
      return prefix;
  }
}

static bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

/* The length of a path component without its suffix `.ep<digits>` or
 * `.bg.ep<digits>` or `.peer.ep<digits>`, an epoch's alias for reads, for background
 * traffic (which sets `is_background`) or for reads on behalf of other nodes; each
 * sets `is_alias`. */
static size_t length_without_epoch(const char *component, size_t length,
                                   bool *is_background, bool *is_alias) {
  size_t end = length;
  while (end > 0 && is_digit(component[end - 1]))
    end--;
  if (end == length || end <= 3 || memcmp(component + end - 3, ".ep", 3) != 0)
    return length;
  *is_alias = true;
  end -= 3;
  if (end > 3 && memcmp(component + end - 3, ".bg", 3) == 0) {
    end -= 3;
    *is_background = true;
  } else if (end > 5 && memcmp(component + end - 5, ".peer", 5) == 0) {
    end -= 5;
  }
  return length_without_epoch(component, end, is_background, is_alias);
}

/* Drop from an absolute path `//`, `.`, `..` (as text) and epoch suffixes, which set
 * `is_alias`. Return how much of the result ends in the first alias of background
 * traffic, SIZE_MAX if there was none. */
static size_t canonicalise(char *path, bool *is_alias) {
  size_t background = SIZE_MAX, end = 0;
  const char *from = path;
  while (*(from += strspn(from, "/"))) {
    size_t length = strcspn(from, "/");
    bool is_background = false;
    size_t kept = length_without_epoch(from, length, &is_background, is_alias);
    end = add_component(path, end, from, kept);
    if (is_background && background == SIZE_MAX)
      background = end;
    else if (end < background && kept == 2 && memcmp(from, "..", 2) == 0)
      background = SIZE_MAX;
    from += length;
  }
  path[end] = '\0';
  return background;
}

/* Write a path that starts at a directory descriptor as one from the root. */
static bool make_absolute(char *absolute, size_t size, int directory,
                          const char *path) {
  size_t length = 0;
  if (path[0] != '/') {
    if (!folder_of(directory, absolute, size - 1))
      return false;
    length = strlen(absolute);
    absolute[length++] = '/';
  }
  return snprintf(absolute + length, size - length, "%s", path) < (int)(size - length);
}

/* Return the device with the longest prefix of a path, or -1; `is_background` says
 * whether the prefix or a directory above it was an alias of background traffic,
 * `is_alias` whether the path has any epoch's alias. */
static int64_t device_of(int directory, const char *path, bool *is_background,
                         bool *is_alias) {
  char absolute[2 * PATH_MAX];
  if (!make_absolute(absolute, sizeof absolute, directory, path))
    return -1;
  size_t background = canonicalise(absolute, is_alias);
  int64_t device = -1;
  uint64_t hash = HASH_START;
  for (size_t at = 0; absolute[at]; at++) {
    hash = hash_more(hash, absolute[at]);
    if (absolute[at + 1] != '/' && absolute[at + 1] != '\0')
      continue;
    const struct prefix *prefix = find_prefix(hash, absolute, at + 1);
    if (prefix->path) {
      device = prefix->device;
      *is_background = background <= prefix->length;
    }
  }
  return device;
}

/*
 * The object server of a file: its number modulo the servers, where the number
 * is the last run of digits in the base name's stem, so that numbered files go
 * round robin; a name without digits is hashed.
 */
static uint32_t object_server_of(const char *path, uint32_t n_object_servers) {
  const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
  const char *dot = strrchr(name, '.');
  const char *end = dot && dot != name ? dot : name + strlen(name);
  while (end > name && !is_digit(end[-1]))
    end--;
  if (end == name)
    return hash_text(name) % n_object_servers;
  const char *digit = end;
  while (digit > name && is_digit(digit[-1]))
    digit--;
  uint64_t server = 0;
  for (; digit < end; digit++)
    server = (server * 10 + (*digit - '0')) % n_object_servers;
  return server;
}

/* ---- which device a descriptor belongs to ------------------------------------ */

/* 0, or (device + 1) << 32 | object server << 2 | flags */
_Static_assert(sizeof(uintptr_t) == 8, "a slot holds 64 bits");
#define PAYS_FOR_CLOSE 1ULL
#define IS_BELOW_ALIAS 2ULL /* of an epoch: the process's reader makes the calls */

static uint32_t handle_device(uint64_t value) { return (uint32_t)(value >> 32) - 1; }

static uint32_t handle_server(uint64_t value) { return (uint32_t)value >> 2; }

static uint64_t look_up(int fd) {
  meaning *slot = shared ? slot_of(fd) : NULL;
  return slot ? *slot : 0;
}

/*
 * Set what a descriptor means, 0 to forget it; return what it meant before.
 * A child of vfork shares our memory but not our descriptors: what it closes or
 * duplicates before exec must not touch the table.
 */
uint64_t remember(int fd, uint64_t value) {
  if (value == look_up(fd) || fd < 0 || fd >> 30 || getpid() != owner)
    return 0;
  meaning *slot = make_slot(fd);
  if (!slot)
    fail("no memory for descriptor %d", fd);
  return atomic_exchange(slot, value);
}

static void remember_duplicate(int old_fd, int new_fd) {
  if (new_fd < 0 || new_fd == old_fd || !shared)
    return;
  uint64_t closed = remember(new_fd, look_up(old_fd) & ~PAYS_FOR_CLOSE);
  if (closed & PAYS_FOR_CLOSE)
    take_time(closed & IS_BELOW_ALIAS, CLOSING, handle_device(closed), 0, 0);
}

static void forget_range(unsigned first, unsigned last) {
  if (!shared || getpid() != owner)
    return;
  forget_slots(first, last);
}

/* The parent keeps the opens, and so it pays for their closes. */
static void after_fork_in_child(void) {
  owner = getpid();
  me = NULL; /* it is no actor of virtual time */
  for (size_t number = 0; number < N_LEAVES; number++) {
    meaning *leaf = descriptor_leaves[number];
    for (size_t at = 0; leaf && at < LEAF_SLOTS; at++)
      if (leaf[at])
        leaf[at] &= ~PAYS_FOR_CLOSE;
  }
}

/* ---- what every wrapper does after the real call ------------------------------ */

/* Whether a path is that of a descriptor of ours that is memory (`clock_memory`). */
static bool is_memory(const char *path) {
  static const char folder[] = "/proc/self/fd/";
  if (strncmp(path, folder, sizeof folder - 1) != 0)
    return false;
  uint64_t value = look_up(atoi(path + sizeof folder - 1));
  return value && handle_device(value) == shared->n_devices;
}

static int after_open(int fd, int directory, const char *path, int flags) {
  if (fd < 0 || !shared)
    return fd;
  if (is_memory(path)) {
    remember(fd,
             (uint64_t)(shared->n_devices + 1) << 32 | IS_BELOW_ALIAS | PAYS_FOR_CLOSE);
    return fd;
  }
  bool is_read = (flags & O_ACCMODE) == O_RDONLY && !(flags & O_PATH) &&
                 (flags & O_DIRECTORY) != O_DIRECTORY;
  bool is_write = (flags & O_ACCMODE) == O_WRONLY, is_background = false;
  bool is_alias = false;
  int saved_errno = errno;
  int64_t device =
      is_read || is_write ? device_of(directory, path, &is_background, &is_alias) : -1;
  if (device < 0 || (is_write && !is_background)) {
    remember(fd, 0);
  } else {
    uint32_t server = object_server_of(path, devices[device].n_object_servers);
    remember(fd, (uint64_t)(device + 1) << 32 | (uint64_t)server << 2 |
                     (is_alias ? IS_BELOW_ALIAS : 0) | PAYS_FOR_CLOSE);
    if (!take_time(is_alias, OPENING, device, server, 0)) {
      remember(fd, 0);
      REAL(close)(fd);
      errno = ECANCELED;
      return -1;
    }
  }
  errno = saved_errno;
  return fd;
}

/* After a read; after a write as well, of which only the background's has a device. */
static ssize_t after_transfer(int fd, ssize_t bytes) {
  uint64_t value = bytes > 0 ? look_up(fd) : 0;
  int saved_errno = errno;
  if (value && !take_time(value & IS_BELOW_ALIAS, REQUESTING, handle_device(value),
                          handle_server(value), bytes)) {
    errno = ECANCELED;
    return -1;
  }
  errno = saved_errno;
  return bytes;
}

/* ---- set-up ------------------------------------------------------------------- */

enum {
  OPEN_S,
  CLOSE_S,
  METADATA_LATENCY_S,
  N_OBJECT_SERVERS,
  REQUEST_BYTES,
  REQUEST_S,
  READ_LATENCY_S,
  BANDWIDTH_BYTES_PER_S,
  LINK_BYTES_PER_S,
  N_KEYS
};

/* device.py mirrors the ranges. */
static const struct key {
  const char *name;
  double minimum, maximum;
  bool is_required; /* a rate left out is unlimited */
} keys[N_KEYS] = {
    [OPEN_S] = {"open_s", 0, 3600, true},
    [CLOSE_S] = {"close_s", 0, 3600, true},
    [METADATA_LATENCY_S] = {"metadata_latency_s", 0, 3600, true},
    [N_OBJECT_SERVERS] = {"n_object_servers", 1, 65536, true},
    [REQUEST_BYTES] = {"request_bytes", 1, 1e12, true},
    [REQUEST_S] = {"request_s", 0, 3600, true},
    [READ_LATENCY_S] = {"read_latency_s", 0, 3600, true},
    [BANDWIDTH_BYTES_PER_S] = {"bandwidth_bytes_per_s", 1, 1e18, false},
    [LINK_BYTES_PER_S] = {"link_bytes_per_s", 1, 1e18, false},
};

/* The position in the configuration, for messages. */
struct place {
  const char *file;
  unsigned line;
};

static int find_key(struct place place, const char *name) {
  for (int key = 0; key < N_KEYS; key++)
    if (strcmp(keys[key].name, name) == 0)
      return key;
  fail("%s:%u: unknown key '%s'", place.file, place.line, name);
}

static double parse_number(struct place place, int key, const char *text) {
  char *end;
  double number = strtod(text, &end);
  bool is_number = end != text && *end == '\0';
  bool is_whole = key != N_OBJECT_SERVERS && key != REQUEST_BYTES;
  is_whole = is_whole || (number < 1e15 && number == (double)(int64_t)number);
  if (!is_number || !is_whole ||
      !(number >= keys[key].minimum && number <= keys[key].maximum))
    fail("%s:%u: %s is '%s', expected a number from %.15g to %.15g%s", place.file,
         place.line, keys[key].name, text, keys[key].minimum, keys[key].maximum,
         key == N_OBJECT_SERVERS || key == REQUEST_BYTES ? ", whole" : "");
  return number;
}

static void add_prefix(struct place place, const char *text, uint32_t device) {
  char *path = allocate(strlen(text) + 1, 1);
  strcpy(path, text);
  bool is_alias;
  if (path[0] == '/')
    canonicalise(path, &is_alias);
  if (path[0] != '/' || strcmp(path, text) != 0)
    fail("%s:%u: prefix is '%s', expected an absolute path below / without "
         "'//', '.', '..', final '/' and components ending in .ep<number>",
         place.file, place.line, text);
  struct prefix *prefix = find_prefix(hash_text(path), path, strlen(path));
  if (prefix->path)
    fail("%s:%u: prefix '%s' is given twice", place.file, place.line, text);
  *prefix = (struct prefix){path, strlen(path), device};
}

static struct device device_from(const double *values) {
  return (struct device){
      .open_ns = to_ns(values[OPEN_S]),
      .close_ns = to_ns(values[CLOSE_S]),
      .metadata_latency_ns = to_ns(values[METADATA_LATENCY_S]),
      .read_latency_ns = to_ns(values[READ_LATENCY_S]),
      .request_s = values[REQUEST_S],
      .bandwidth_bytes_per_s = values[BANDWIDTH_BYTES_PER_S],
      .link_bytes_per_s = values[LINK_BYTES_PER_S],
      .request_bytes = values[REQUEST_BYTES],
      .n_object_servers = values[N_OBJECT_SERVERS],
  };
}

static void parse_device(struct place place, char *line, uint32_t number) {
  double values[N_KEYS] = {0};
  bool is_given[N_KEYS] = {false}, has_prefix = false;
  for (char *field; (field = strsep(&line, "\t"));) {
    char *value = strchr(field, '=');
    if (!value || value[1] == '\0')
      fail("%s:%u: '%s' has no value, expected key=value", place.file, place.line,
           field);
    *value++ = '\0';
    if (strcmp(field, "prefix") == 0) {
      add_prefix(place, value, number);
      has_prefix = true;
      continue;
    }
    int key = find_key(place, field);
    if (is_given[key])
      fail("%s:%u: %s is given twice", place.file, place.line, field);
    values[key] = parse_number(place, key, value);
    is_given[key] = true;
  }
  for (int key = 0; key < N_KEYS; key++)
    if (keys[key].is_required && !is_given[key])
      fail("%s:%u: %s is missing", place.file, place.line, keys[key].name);
  if (!has_prefix)
    fail("%s:%u: prefix is missing", place.file, place.line);
  devices[number] = device_from(values);
}

/* Return a file's bytes with a final zero; our own calls go straight to libc. */
static char *read_whole(const char *file) {
  int fd = REAL(open)(file, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    fail("%s: cannot be read: %s", file, strerror(errno));
  off_t size = REAL(lseek)(fd, 0, SEEK_END);
  char *text = allocate(size < 0 ? 1 : size + 1, 1);
  for (off_t done = 0; done < size;) {
    ssize_t bytes = REAL(pread)(fd, text + done, size - done, done);
    if (bytes <= 0)
      fail("%s: cannot be read: %s", file, strerror(bytes ? errno : EIO));
    done += bytes;
  }
  REAL(close)(fd);
  return text;
}

static size_t occurrences(const char *text, const char *word) {
  size_t n = 0;
  for (; (text = strstr(text, word)); text++)
    n++;
  return n;
}

/* Read the devices; return how many there are. */
uint32_t read_devices(const char *file) {
  char *text = read_whole(file), *rest = text;
  size_t length = strlen(text);
  if (length > 0 && text[length - 1] == '\n')
    text[length - 1] = '\0';
  devices = allocate(occurrences(text, "\n") + 2, sizeof *devices); /* and memory */
  prefix_capacity = 16;
  while (prefix_capacity < 2 * occurrences(text, "prefix="))
    prefix_capacity *= 2;
  prefixes = allocate(prefix_capacity, sizeof *prefixes);
  uint32_t n_devices = 0;
  for (char *line; (line = strsep(&rest, "\n")); n_devices++)
    parse_device((struct place){file, n_devices + 1}, line, n_devices);
  free(text);
  return n_devices;
}

static char *map_state(const char *file, size_t *bytes) {
  int fd = REAL(open)(file, O_RDWR | O_CLOEXEC);
  if (fd < 0)
    fail("%s: state cannot be opened: %s", file, strerror(errno));
  off_t size = REAL(lseek)(fd, 0, SEEK_END);
  if (size < (off_t)sizeof(struct virtual_state))
    fail("%s: state has %lld bytes, expected at least %zu", file, (long long)size,
         sizeof(struct virtual_state));
  char *state = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (state == MAP_FAILED)
    fail("%s: state cannot be mapped: %s", file, strerror(errno));
  REAL(close)(fd);
  *bytes = size;
  return state;
}

__attribute__((constructor)) static void set_up(void) {
  const char *config = getenv("TIERSCOPE_DEVICES");
  const char *state = getenv("TIERSCOPE_DEVICE_STATE");
  if (!config && !state)
    return;
  if (!config || !state)
    fail("%s is not set, expected both it and %s",
         config ? "TIERSCOPE_DEVICE_STATE" : "TIERSCOPE_DEVICES",
         config ? "TIERSCOPE_DEVICES" : "TIERSCOPE_DEVICE_STATE");
  uint32_t n_devices = read_devices(config);
  size_t bytes;
  char *map = map_state(state, &bytes);
  owner = getpid();
  pthread_atfork(NULL, NULL, after_fork_in_child);
  /* Last: from here on calls are charged. */
  attach_state(state, map, bytes, n_devices);
}

/* ---- wrappers: open ----------------------------------------------------------- */

#define OPEN_BODY(name, directory, ...)                                                \
  return after_open(REAL(name)(__VA_ARGS__), directory, path, flags);

int open(const char *path, int flags, ...) {
  MODE_ARGUMENT(mode, flags)
  OPEN_BODY(open, AT_FDCWD, path, flags, mode)
}

int open64(const char *path, int flags, ...) {
  MODE_ARGUMENT(mode, flags)
  OPEN_BODY(open64, AT_FDCWD, path, flags, mode)
}

int openat(int directory, const char *path, int flags, ...) {
  MODE_ARGUMENT(mode, flags)
  OPEN_BODY(openat, directory, directory, path, flags, mode)
}

int openat64(int directory, const char *path, int flags, ...) {
  MODE_ARGUMENT(mode, flags)
  OPEN_BODY(openat64, directory, directory, path, flags, mode)
}

/* What programs built with _FORTIFY_SOURCE call. */
int __open_2(const char *path, int flags) { OPEN_BODY(__open_2, AT_FDCWD, path, flags) }

int __open64_2(const char *path, int flags) {
  OPEN_BODY(__open64_2, AT_FDCWD, path, flags)
}

int __openat_2(int directory, const char *path, int flags) {
  OPEN_BODY(__openat_2, directory, directory, path, flags)
}

int __openat64_2(int directory, const char *path,
                 int flags){OPEN_BODY(__openat64_2, directory, directory, path, flags)}

/* ---- wrappers: read ----------------------------------------------------------- */

#define TRANSFER_BODY(name, fd, ...) return after_transfer(fd, REAL(name)(__VA_ARGS__));

ssize_t
    read(int fd, void *buffer, size_t bytes){TRANSFER_BODY(read, fd, fd, buffer, bytes)}

ssize_t pread(int fd, void *buffer, size_t bytes,
              off_t offset){TRANSFER_BODY(pread, fd, fd, buffer, bytes, offset)}

ssize_t pread64(int fd, void *buffer, size_t bytes,
                off64_t offset){TRANSFER_BODY(pread64, fd, fd, buffer, bytes, offset)}

ssize_t readv(int fd, const struct iovec *parts,
              int n){TRANSFER_BODY(readv, fd, fd, parts, n)}

ssize_t preadv(int fd, const struct iovec *parts, int n,
               off_t offset){TRANSFER_BODY(preadv, fd, fd, parts, n, offset)}

ssize_t preadv64(int fd, const struct iovec *parts, int n,
                 off64_t offset){TRANSFER_BODY(preadv64, fd, fd, parts, n, offset)}

ssize_t preadv2(int fd, const struct iovec *parts, int n, off_t offset,
                int flags){TRANSFER_BODY(preadv2, fd, fd, parts, n, offset, flags)}

ssize_t preadv64v2(int fd, const struct iovec *parts, int n, off64_t offset, int flags){
    TRANSFER_BODY(preadv64v2, fd, fd, parts, n, offset, flags)}

ssize_t __read_chk(int fd, void *buffer, size_t bytes,
                   size_t size){TRANSFER_BODY(__read_chk, fd, fd, buffer, bytes, size)}

ssize_t __pread_chk(int fd, void *buffer, size_t bytes, off_t offset, size_t size){
    TRANSFER_BODY(__pread_chk, fd, fd, buffer, bytes, offset, size)}

ssize_t __pread64_chk(int fd, void *buffer, size_t bytes, off64_t offset, size_t size){
    TRANSFER_BODY(__pread64_chk, fd, fd, buffer, bytes, offset, size)}

/* How shutil.copyfile reads. */
ssize_t sendfile(int to, int from, off_t *offset,
                 size_t bytes){TRANSFER_BODY(sendfile, from, to, from, offset, bytes)}

ssize_t sendfile64(int to, int from, off64_t *offset, size_t bytes){
    TRANSFER_BODY(sendfile64, from, to, from, offset, bytes)}

ssize_t copy_file_range(int from, off64_t *from_offset, int to, off64_t *to_offset,
                        size_t bytes, unsigned flags){
    TRANSFER_BODY(copy_file_range, from, from, from_offset, to, to_offset, bytes,
                  flags)}

/* ---- wrappers: write ---------------------------------------------------------- */

ssize_t write(int fd, const void *buffer,
              size_t bytes){TRANSFER_BODY(write, fd, fd, buffer, bytes)}

ssize_t pwrite(int fd, const void *buffer, size_t bytes,
               off_t offset){TRANSFER_BODY(pwrite, fd, fd, buffer, bytes, offset)}

ssize_t pwrite64(int fd, const void *buffer, size_t bytes,
                 off64_t offset){TRANSFER_BODY(pwrite64, fd, fd, buffer, bytes, offset)}

ssize_t writev(int fd, const struct iovec *parts,
               int n){TRANSFER_BODY(writev, fd, fd, parts, n)}

/* ---- wrappers: close and duplicate -------------------------------------------- */

/* The number is forgotten before it is free: another thread may get it at once. */
#define CLOSE_BODY(name, fd, argument)                                                 \
  uint64_t closed = look_up(fd) ? remember(fd, 0) : 0;                                 \
  int result = REAL(name)(argument);                                                   \
  if (closed & PAYS_FOR_CLOSE)                                                         \
    take_time(closed &IS_BELOW_ALIAS, CLOSING, handle_device(closed), 0, 0);           \
  return result;

int close(int fd) {
  CLOSE_BODY(close, fd, fd)
}

/* Only for streams of fdopen: libc closes their descriptors without our wrapper. */
int fclose(FILE *stream) {
  int fd = fileno(stream);
  CLOSE_BODY(fclose, fd, stream)
}

int close_range(unsigned first, unsigned last, int flags) {
  if (!(flags & CLOSE_RANGE_CLOEXEC))
    forget_range(first, last);
  return REAL(close_range)(first, last, flags);
}

void closefrom(int first) {
  forget_range(first < 0 ? 0 : first, INT_MAX);
  REAL(closefrom)(first);
}

#define DUPLICATE_BODY(name, old_fd, ...)                                              \
  int duplicate = REAL(name)(__VA_ARGS__);                                             \
  remember_duplicate(old_fd, duplicate);                                               \
  return duplicate;

int dup(int fd) { DUPLICATE_BODY(dup, fd, fd) }

int dup2(int fd, int new_fd) { DUPLICATE_BODY(dup2, fd, fd, new_fd) }

int dup3(int fd, int new_fd, int flags){DUPLICATE_BODY(dup3, fd, fd, new_fd, flags)}

#define FCNTL_BODY(name)                                                               \
  va_list arguments;                                                                   \
  va_start(arguments, command);                                                        \
  void *argument = va_arg(arguments, void *);                                          \
  va_end(arguments);                                                                   \
  int result = REAL(name)(fd, command, argument);                                      \
  if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)                                \
    remember_duplicate(fd, result);                                                    \
  return result;

int fcntl(int fd, int command, ...) {
  FCNTL_BODY(fcntl)
}

int fcntl64(int fd, int command, ...) { FCNTL_BODY(fcntl64) }
