/*
 * Redirects a program's opens of dataset files to the tier that a table names.
 *
 *   LD_PRELOAD=libtierscope_redirect.so:libtierscope_trace.so TIERSCOPE_REDIRECT=TABLE
 *
 * It stands before the tracer or a site's Darshan and passes them the tier's path, such
 * as LINKS/lfs.ep3/train/7.jpg, so their logs name tier and epoch. It decides at the
 * open and has no part in reads.
 *
 * No lock, no memory of malloc, no thread: what it does is right in signal handlers, in
 * forked children and in those of vfork.
 */
#include "redirect.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FATAL_STATUS 121

struct table *table;

/* ---- Names ---------------------------------------------------------------------- */

static uint64_t hash_name(const struct table *in, const char *name, size_t bytes) {
  uint64_t hash = in->seed ^ bytes, word;
  for (; bytes >= sizeof word; bytes -= sizeof word, name += sizeof word) {
    memcpy(&word, name, sizeof word);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  word = 0;
  memcpy(&word, name, bytes);
  hash = (hash ^ word) * 0xd6e8feb86659fd93u;
  hash ^= hash >> 32;
  hash *= 0x9e3779b97f4a7c15u;
  return hash;
}

/* The bits of a hash that a slot has; never 0. */
static uint32_t tag_of(uint64_t hash) {
  uint32_t tag = (uint32_t)hash >> STATE_BITS;
  return tag ? tag : 1;
}

/* The slot of a hash, or the free one that it would get. */
static uint64_t probe(const struct table *in, uint64_t hash) {
  const uint32_t *slots = all_slots(in);
  uint64_t i = (uint64_t)((unsigned __int128)hash * in->n_slots >> 64);
  for (;; i = i + 1 < in->n_slots ? i + 1 : 0) {
    uint32_t slot = __atomic_load_n(&slots[i], __ATOMIC_RELAXED);
    if (slot >> STATE_BITS == tag_of(hash) || slot == 0)
      return i;
  }
}

uint32_t *find_slot(const char *name, size_t bytes) {
  uint32_t *slot = all_slots(table) + probe(table, hash_name(table, name, bytes));
  return *slot ? slot : NULL;
}

/*
 * For the builder: enters names, each with a zero byte at its end. The state of file i
 * is states[i]. Returns -1, or the file whose hash an earlier one has.
 */
int64_t tierscope_redirect_fill(struct table *into, const char *names,
                                const uint8_t *states) {
  uint32_t *slots = all_slots(into);
  uint32_t *ids = (uint32_t *)((char *)into + into->ids_at);
  for (uint64_t id = 0; id < into->n_files; id++) {
    size_t bytes = strlen(names);
    uint64_t hash = hash_name(into, names, bytes), at = probe(into, hash);
    if (slots[at])
      return (int64_t)id;
    slots[at] = tag_of(hash) << STATE_BITS | states[id];
    ids[at] = (uint32_t)id;
    names += bytes + 1;
  }
  return -1;
}

/*
 * For the keeper: from now on opens of a file take this tier. Programs may change the
 * slot's other bits meanwhile.
 */
void tierscope_redirect_stage(struct table *in, uint64_t at, bool is_staged) {
  uint32_t *slot = all_slots(in) + at;
  if (is_staged)
    __atomic_fetch_or(slot, STAGED, __ATOMIC_SEQ_CST);
  else
    __atomic_fetch_and(slot, ~(uint32_t)STAGED, __ATOMIC_SEQ_CST);
}

/*
 * For the keeper: a process has ended without a close. Returns how many opens of the
 * file are left.
 */
unsigned tierscope_redirect_release(struct table *in, uint64_t at) {
  return one_reader_less(in, all_slots(in) + at);
}

/* ---- Events --------------------------------------------------------------------- */

static void note(uint32_t what, int epoch, enum event_kind kind, int64_t time_ns,
                 bool was_on_lfs) {
  struct event *events = (struct event *)((char *)table + table->events_at);
  pid_t pid = own_pid();
  uint16_t group = (uint16_t)own_group();
  uint64_t at = __atomic_fetch_add(&table->n_noted, 1, __ATOMIC_RELAXED);
  struct event *event = &events[at & (table->n_events - 1)];
  __atomic_store_n(&event->serial, 0, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_RELEASE);
  event->time_ns = (uint64_t)time_ns;
  event->slot = what;
  event->pid = pid;
  event->epoch = epoch;
  event->group = group;
  event->kind = (uint8_t)kind;
  event->was_on_lfs = was_on_lfs;
  __atomic_store_n(&event->serial, at + 1, __ATOMIC_RELEASE);
}

void note_event(const uint32_t *slot, int epoch, enum event_kind kind, int64_t time_ns,
                bool was_on_lfs) {
  uint32_t what = slot ? (uint32_t)(slot - all_slots(table)) : NO_SLOT;
  note(what, epoch, kind, time_ns, was_on_lfs);
}

void note_mark(int epoch, int64_t time_ns) {
  struct rusage used;
  bool is_known = getrusage(RUSAGE_SELF, &used) == 0 && used.ru_inblock < NO_SLOT;
  note(is_known ? (uint32_t)used.ru_inblock : NO_SLOT, epoch, MARKED, time_ns, false);
}

void note_written(uint32_t *slot, enum event_kind how) {
  __atomic_fetch_or(slot, WRITTEN, __ATOMIC_RELEASE);
  count(WRITES);
  note_event(slot, own_epoch(), how, now_ns(), false);
}

/* ---- Start ---------------------------------------------------------------------- */

/* A run must not go on with files of a wrong tier, or with a log of wrong names. */
__attribute__((noreturn)) static void refuse(const char *what, const char *reason) {
  say_last("tierscope: %s: %s", what, reason);
  syscall(SYS_exit_group, FATAL_STATUS);
  __builtin_unreachable();
}

/* The file name of a library that must stand behind this one, of any other NULL. */
static const char *tracer_name(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  bool is_tracer =
      strncmp(name, "libdarshan", 10) == 0 || strncmp(name, "libtierscope_", 13) == 0;
  return is_tracer ? name : NULL;
}

/* Looks at the loaded libraries in the order in which functions are looked for. */
static int check_place(struct dl_phdr_info *info, size_t bytes, void *own_base) {
  (void)bytes;
  const char *name = tracer_name(info->dlpi_name);
  if ((void *)info->dlpi_addr == own_base)
    return 1;
  if (name)
    refuse(name, "stands before libtierscope_redirect.so in LD_PRELOAD, expected "
                 "behind it.");
  return 0;
}

static struct table *map_table(const char *path) {
  struct stat info;
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
  if (fd < 0 || syscall(SYS_fstat, fd, &info) != 0)
    refuse(path, strerror(errno));
  if ((size_t)info.st_size < sizeof(struct table))
    refuse(path, "is no table of redirections.");
  struct table *map =
      map_anonymous(NULL, (size_t)info.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
  if (map == MAP_FAILED)
    refuse(path, strerror(errno));
  syscall(SYS_close, fd);
  if (memcmp(map->magic, TABLE_MAGIC, sizeof map->magic) != 0)
    refuse(path, "is no table of redirections.");
  if (map->version != TABLE_VERSION || map->header_bytes != sizeof *map ||
      map->file_bytes != (uint64_t)info.st_size)
    refuse(path, "is a table of redirections of another version.");
  return map;
}

/* Libraries of the program may open files before our constructor runs. */
bool start(void) {
  static bool has_started;
  if (LIKELY(has_started))
    return table != NULL;
  has_started = true;
  const char *path = getenv("TIERSCOPE_REDIRECT");
  if (!path)
    return false;
  int saved_errno = errno;
  Dl_info own;
  if (dladdr((void *)start, &own))
    dl_iterate_phdr(check_place, own.dli_fbase);
  table = map_table(path);
  enter_process();
  errno = saved_errno;
  return true;
}

__attribute__((constructor)) static void initialise(void) { start(); }
