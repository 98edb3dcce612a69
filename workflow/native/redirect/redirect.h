/* Redirects opens of dataset files to tiers: what the parts ask of each other. */
#ifndef TIERSCOPE_REDIRECT_H
#define TIERSCOPE_REDIRECT_H

#include "../preload.h"

#include "table.h"

#include <time.h>

#pragma GCC visibility push(hidden)

/* ---- redirect.c: the table ------------------------------------------------------ */

extern struct table *table; /* NULL: nothing is redirected */

/* Maps the table at a process's first call; false if nothing is redirected. */
bool start(void);

static inline uint32_t *all_slots(const struct table *in) {
  return (uint32_t *)((char *)in + in->slots_at);
}

/* How many opens of a slot's file have not been closed, by all processes. */
static inline uint16_t *readers_of(const struct table *in, const uint32_t *slot) {
  return (uint16_t *)((char *)in + in->readers_at) + (slot - all_slots(in));
}

/* Never below none: threads may close the copies of a descriptor at the same time. */
static inline uint16_t one_reader_less(const struct table *in, const uint32_t *slot) {
  uint16_t *readers = readers_of(in, slot);
  uint16_t before = __atomic_load_n(readers, __ATOMIC_RELAXED);
  while (before > 0 && !__atomic_compare_exchange_n(readers, &before, before - 1, true,
                                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    ;
  return before > 0 ? before - 1 : 0;
}

/* The slot of a name below the dataset; NULL: the table does not know it. */
uint32_t *find_slot(const char *name, size_t bytes);
void note_event(const uint32_t *slot, int epoch, enum event_kind kind, int64_t time_ns,
                bool was_on_lfs);
void note_mark(int epoch, int64_t time_ns);

/* From now on the GFS has the file: it was ALTERED, or OPENED_TO_WRITE. */
void note_written(uint32_t *slot, enum event_kind how);

static inline void count(enum count which) {
  __atomic_fetch_add(&table->counts[which], 1, __ATOMIC_RELAXED);
}

static inline int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* ---- processes.c: processes, groups, epochs ------------------------------------- */

void enter_process(void);
pid_t own_pid(void);
unsigned own_group(void);
int own_epoch(void);
int tierscope_epoch(int epoch) __attribute__((visibility("default")));
void tierscope_loops_ended(void) __attribute__((visibility("default")));
int tierscope_first_epoch(void) __attribute__((visibility("default")));
int tierscope_epoch_under_way(void) __attribute__((visibility("default")));

/* ---- opens.c: open files ----------------------------------------------------------
 */

/* In a new process: what it has from its parent is no open of its own. */
void forget_descriptors(void);

/* ---- paths.c: where a path leads ------------------------------------------------ */

/* Bytes of the virtual dataset's path that are the current folder; 0: it is a real one.
 */
extern size_t virtual_folder_bytes;

/* What a call does with a path. */
enum purpose {
  READ,         /* opens a file for reading */
  READ_LINK,    /* the same, but does not follow a link */
  LOOK,         /* asks for its attributes */
  LOOK_LINK,    /* the same, of a link itself */
  WRITE,        /* opens a file for writing */
  CHANGE,       /* changes a file or its name */
  NAME,         /* is of a folder, or is served by the GFS in any case */
  NAME_OR_ABOVE /* the same, and folders above a virtual dataset are there */
};

enum place { AS_GIVEN, ON_GFS, ON_LFS };

/* What a call gets instead of the program's path. */
struct target {
  int directory;
  const char *path;
  enum place place;
  bool is_mark; /* the path marks an epoch */
  bool is_virtual;
  bool is_folder; /* it ends with a slash */
  bool has_fallen_back;
  int epoch;
  int64_t decided_ns; /* of an open */
  uint32_t *slot;     /* NULL: not a known file */
  int given_directory;
  const char *given;
  const char *name; /* below the dataset; in the buffer or in the given path */
  size_t name_bytes;
  size_t n_above; /* bytes of the path, if it is above the virtual dataset */
  char *buffer;
  size_t buffer_bytes;
  char usual[1000]; /* the stack is small under a signal handler */
};

void release(struct target *target);

#define TARGET(it)                                                                     \
  struct target it __attribute__((cleanup(release)));                                  \
  it.buffer = it.usual;                                                                \
  it.buffer_bytes = sizeof it.usual

/*
 * Fills in a target; a path that is none of ours stays as it is. Keeps errno. Makes no
 * system call for an absolute path without `.` and `..`.
 */
void find(int directory, const char *path, enum purpose purpose, struct target *target);

/*
 * After a call on a target has failed: the LFS is followed by the GFS, and that by the
 * path as the program gave it, which has the error that the program would get without
 * us. False if there is no further one.
 */
bool try_next(struct target *target);

/*
 * Whether an open descriptor of another path is a known file, as by a link that lies
 * outside of the dataset. The target then is that file's.
 */
bool leads_to_dataset(int fd, enum purpose purpose, struct target *target);

/*
 * A call with one path that needs no more than another path. `failed` judges `result`.
 */
#define REDIRECTED(type, name, failed, purpose, folder, parameters, arguments)         \
  type name parameters {                                                               \
    TARGET(target);                                                                    \
    find(folder, path, purpose, &target);                                              \
    type result;                                                                       \
    do                                                                                 \
      result = REAL(name) arguments;                                                   \
    while (failed && try_next(&target));                                               \
    if (!(failed))                                                                     \
      end_look(&target, purpose);                                                      \
    return result;                                                                     \
  }

/* After a call that is no open has succeeded. */
static inline void end_look(struct target *target, enum purpose purpose) {
  if (LIKELY(!target->slot))
    return;
  if (purpose == CHANGE)
    note_written(target->slot, ALTERED);
  else if (target->has_fallen_back)
    count(LOOK_FALLBACKS);
}

/*
 * For a call that cannot be made again: the first path of a target that can be read.
 */
void choose_readable(struct target *target);

#pragma GCC visibility pop

#endif
