/* Wrappers of calls that open files, and of those that close what was opened. */
#include "redirect.h"

#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_openat2 /* headers of a kernel before 5.6 */
#define SYS_openat2 437
#endif

/* ---- Descriptors of dataset files ------------------------------------------------ */

/*
 * The file, tier and epoch of a descriptor, if somebody wants to know of closes.
 * IS_SHARED means that another descriptor may be of the same open.
 */
#define IS_SHARED (UINT64_C(1) << 63)
enum { NUMBER_SHIFT = 32, LFS_SHIFT = 31 };
_Static_assert(sizeof(meaning) == 8, "a slot's number, a tier and an epoch");
_Static_assert(INT32_MAX >> LFS_SHIFT == 0, "an epoch has its bits");
static _Atomic int highest_descriptor;

static uintptr_t meaning_of(const struct target *target) {
  uint64_t number = (uint64_t)(target->slot - all_slots(table)) + 1;
  return (uintptr_t)number << NUMBER_SHIFT |
         (uintptr_t)(target->place == ON_LFS) << LFS_SHIFT | (uintptr_t)target->epoch;
}

/* Returns whether there was room for it. */
static bool note_descriptor(int fd, uintptr_t means) {
  meaning *slot = means ? make_slot(fd) : slot_of(fd);
  if (!slot)
    return false;
  *slot = means;
  if (means && fd > highest_descriptor)
    highest_descriptor = fd;
  return means != 0;
}

void forget_descriptors(void) {
  forget_slots(0, UINT_MAX);
  highest_descriptor = 0;
}

/* Whether another descriptor is of the same open. */
static bool has_twin(uintptr_t means) {
  if (!(means & IS_SHARED))
    return false;
  for (int fd = 0; fd <= highest_descriptor; fd++) {
    meaning *slot = slot_of(fd);
    if (slot && *slot == means)
      return true;
  }
  return false;
}

static const uint32_t *slot_meant(uintptr_t means) {
  return all_slots(table) + ((means & ~IS_SHARED) >> NUMBER_SHIFT) - 1;
}

static bool was_on_lfs(uintptr_t means) { return means >> LFS_SHIFT & 1; }

/*
 * The pages of a file leave the page cache before its last descriptor on the node does,
 * if epochs are cold. So nobody needs to open it again for that.
 */
static void drop_pages(int fd, uintptr_t means) {
  uint16_t left = one_reader_less(table, slot_meant(means));
  if (left > 0 || !(was_on_lfs(means) ? table->drops_lfs : table->drops_gfs))
    return;
  int saved_errno = errno;
  syscall(SYS_fadvise64, fd, 0L, 0L, POSIX_FADV_DONTNEED);
  errno = saved_errno;
}

/*
 * Takes the meaning of a descriptor that is about to be closed: as soon as it is,
 * another thread may get its number. 0: no open ends with it. A child of vfork closes
 * its own descriptors but uses its parent's memory.
 */
static uintptr_t take_descriptor(int fd) {
  if (LIKELY(!table || !table->wants_closes))
    return 0;
  meaning *slot = slot_of(fd);
  if (!slot || !*slot || getpid() != own_pid())
    return 0;
  uintptr_t means = atomic_exchange(slot, 0);
  if (!means || has_twin(means))
    return 0;
  drop_pages(fd, means);
  return means;
}

static uintptr_t take_stream(FILE *stream) {
  if (LIKELY(!table || !table->wants_closes))
    return 0;
  int saved_errno = errno; /* a stream may have no descriptor */
  uintptr_t means = take_descriptor(fileno_unlocked(stream));
  errno = saved_errno;
  return means;
}

static void note_end(uintptr_t means, enum event_kind how) {
  note_event(slot_meant(means), (int)(means & INT32_MAX), how, now_ns(),
             was_on_lfs(means));
}

static void note_close(uintptr_t means) {
  if (__builtin_expect(means != 0, false))
    note_end(means, CLOSED);
}

/*
 * A descriptor that the kernel gives anew has been closed: what it meant was closed by
 * a call that libc does not make, or makes inside of itself.
 */
static void end_unseen(int fd) {
  meaning *slot = slot_of(fd);
  if (LIKELY(!slot || !*slot) || getpid() != own_pid())
    return;
  uintptr_t means = atomic_exchange(slot, 0);
  if (!means || has_twin(means))
    return;
  one_reader_less(table, slot_meant(means));
  note_end(means, REUSED);
}

/* ---- Opens ---------------------------------------------------------------------- */

static void note_open(const struct target *target, enum purpose purpose) {
  if (purpose == WRITE) {
    note_written(target->slot, OPENED_TO_WRITE);
    return;
  }
  if (target->place == AS_GIVEN) {
    count(UNDIRECTED);
    return;
  }
  if (target->has_fallen_back) {
    count(FALLBACKS);
    note_event(target->slot, target->epoch, FELL_BACK, target->decided_ns, false);
  }
  note_event(target->slot, target->epoch,
             target->place == ON_LFS ? OPENED_LFS : OPENED_GFS, target->decided_ns,
             false);
}

/* Notes what a call has opened, if it is a known file. */
static void opened(const struct target *target, enum purpose purpose, int fd) {
  if (table && table->wants_closes)
    end_unseen(fd);
  if (!target->slot)
    return;
  note_open(target, purpose);
  if (table->wants_closes && purpose != WRITE && getpid() == own_pid() &&
      note_descriptor(fd, meaning_of(target)))
    __atomic_add_fetch(readers_of(table, target->slot), 1, __ATOMIC_RELAXED);
}

static enum purpose of_flags(uint64_t flags) {
  if ((flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC))
    return WRITE;
  return flags & O_NOFOLLOW ? READ_LINK : READ;
}

static enum purpose of_mode(const char *mode) {
  return mode && *mode == 'r' && !strchr(mode, '+') ? READ : WRITE;
}

/*
 * The body of a call that opens. If its path is none of ours, but leads to a dataset
 * file, it is made again with that file's path. A mark fails with ENOENT.
 */
#define OPEN(type, folder, kind, call, failure, descriptor, undo)                      \
  TARGET(target);                                                                      \
  enum purpose purpose = kind;                                                         \
  find(folder, path, purpose, &target);                                                \
  if (__builtin_expect(target.is_mark, false)) {                                       \
    errno = ENOENT;                                                                    \
    return failure;                                                                    \
  }                                                                                    \
  type result;                                                                         \
  do                                                                                   \
    result = call;                                                                     \
  while (result == failure && try_next(&target));                                      \
  if (result != failure && !target.slot &&                                             \
      leads_to_dataset(descriptor, purpose, &target)) {                                \
    undo;                                                                              \
    do                                                                                 \
      result = call;                                                                   \
    while (result == failure && try_next(&target));                                    \
  }                                                                                    \
  if (result != failure)                                                               \
    opened(&target, purpose, descriptor);                                              \
  return result;

#define OPEN_DESCRIPTOR(folder, kind, call)                                            \
  OPEN(int, folder, kind, call, -1, result, REAL(close)(result))

#define REDIRECTED_OPEN(name)                                                          \
  int name(const char *path, int flags, ...) {                                         \
    MODE_ARGUMENT(mode, flags)                                                         \
    OPEN_DESCRIPTOR(AT_FDCWD, of_flags((unsigned)flags),                               \
                    REAL(name)(target.path, flags, mode))                              \
  }

#define REDIRECTED_OPENAT(name)                                                        \
  int name(int directory, const char *path, int flags, ...) {                          \
    MODE_ARGUMENT(mode, flags)                                                         \
    OPEN_DESCRIPTOR(directory, of_flags((unsigned)flags),                              \
                    REAL(name)(target.directory, target.path, flags, mode))            \
  }

#define REDIRECTED_CREAT(name)                                                         \
  int name(const char *path, mode_t mode) {                                            \
    OPEN_DESCRIPTOR(AT_FDCWD, WRITE, REAL(name)(target.path, mode))                    \
  }

#define REDIRECTED_FOPEN(name)                                                         \
  FILE *name(const char *path, const char *mode) {                                     \
    OPEN(FILE *, AT_FDCWD, of_mode(mode), REAL(name)(target.path, mode), NULL,         \
         fileno_unlocked(result), REAL(fclose)(result))                                \
  }

REDIRECTED_OPEN(open)
REDIRECTED_OPEN(open64)
REDIRECTED_OPENAT(openat)
REDIRECTED_OPENAT(openat64)
REDIRECTED_CREAT(creat)
REDIRECTED_CREAT(creat64)
REDIRECTED_FOPEN(fopen)
REDIRECTED_FOPEN(fopen64)

/* What programs built with _FORTIFY_SOURCE call; passed on under the plain names. */
int __open_2(const char *path, int flags) { return open(path, flags); }
int __open64_2(const char *path, int flags) { return open64(path, flags); }
int __openat_2(int directory, const char *path, int flags) {
  return openat(directory, path, flags);
}
int __openat64_2(int directory, const char *path, int flags) {
  return openat64(directory, path, flags);
}

/* Of the kernel since Linux 5.6, of libc only recently. */
int redirected_openat2(int directory, const char *path, const uint64_t how[3],
                       size_t bytes) __asm__("openat2");

static int next_openat2(const struct target *target, const uint64_t how[3],
                        size_t bytes) {
  uint64_t on_tier[3]; /* flags, mode, and how to resolve the program's path */
  if (target->place != AS_GIVEN && bytes == sizeof on_tier) {
    on_tier[0] = how[0], on_tier[1] = how[1], on_tier[2] = 0;
    how = on_tier;
  }
  int fd = REAL_AS(redirected_openat2, "openat2")(target->directory, target->path, how,
                                                  bytes);
  if (fd < 0 && errno == ENOSYS)
    fd = (int)syscall(SYS_openat2, target->directory, target->path, how, bytes);
  return fd;
}

int redirected_openat2(int directory, const char *path, const uint64_t how[3],
                       size_t bytes){OPEN_DESCRIPTOR(directory,
                                                     how ? of_flags(how[0]) : READ,
                                                     next_openat2(&target, how, bytes))}

/* A call that fails has closed the stream, so it cannot be made again. */
#define REDIRECTED_FREOPEN(name)                                                       \
  FILE *name(const char *path, const char *mode, FILE *stream) {                       \
    TARGET(target);                                                                    \
    enum purpose purpose = of_mode(mode);                                              \
    find(AT_FDCWD, path, purpose, &target);                                            \
    choose_readable(&target);                                                          \
    uintptr_t old = take_stream(stream);                                               \
    FILE *result = REAL(name)(target.path, mode, stream);                              \
    if (result && !target.slot && path &&                                              \
        leads_to_dataset(fileno_unlocked(result), purpose, &target))                   \
      result = REAL(name)(target.path, mode, result);                                  \
    note_close(old);                                                                   \
    if (result)                                                                        \
      opened(&target, purpose, fileno_unlocked(result));                               \
    return result;                                                                     \
  }

REDIRECTED_FREOPEN(freopen) REDIRECTED_FREOPEN(freopen64)

    /* libc makes a name of the program's path, which is of none of the dataset's files.
     */
    static void copy_name(char *path, const char *made) {
  if (made != path)
    memcpy(strrchr(path, '/') + 1, strrchr(made, '/') + 1,
           strlen(strrchr(path, '/') + 1));
}

#define REDIRECTED_TEMPORARY(type, name, parameters, arguments, value)                 \
  type name parameters {                                                               \
    TARGET(target);                                                                    \
    find(AT_FDCWD, path, NAME, &target);                                               \
    char *made = (char *)target.path;                                                  \
    type result = REAL(name) arguments;                                                \
    copy_name(path, made);                                                             \
    return value;                                                                      \
  }
#define REDIRECTED_TEMPORARIES(suffix)                                                 \
  REDIRECTED_TEMPORARY(int, mkstemp##suffix, (char *path), (made), result)             \
  REDIRECTED_TEMPORARY(int, mkostemp##suffix, (char *path, int flags), (made, flags),  \
                       result)                                                         \
  REDIRECTED_TEMPORARY(int, mkstemps##suffix, (char *path, int n_end), (made, n_end),  \
                       result)                                                         \
  REDIRECTED_TEMPORARY(int, mkostemps##suffix, (char *path, int n_end, int flags),     \
                       (made, n_end, flags), result)

REDIRECTED_TEMPORARIES()
REDIRECTED_TEMPORARIES(64)
REDIRECTED_TEMPORARY(char *, mkdtemp, (char *path), (made), result ? path : NULL)

/* ---- Opens in a child that posix_spawn makes --------------------------------------
 */

int posix_spawn_file_actions_addopen(posix_spawn_file_actions_t *actions, int fd,
                                     const char *path, int flags, mode_t mode) {
  TARGET(target);
  enum purpose purpose = of_flags((unsigned)flags);
  find(AT_FDCWD, path, purpose, &target);
  choose_readable(&target);
  int error =
      REAL(posix_spawn_file_actions_addopen)(actions, fd, target.path, flags, mode);
  if (error == 0 && table && target.slot) {
    note_open(&target, purpose);
    if (purpose != WRITE)
      count(SPAWNED);
  }
  return error;
}

REDIRECTED(int, posix_spawn_file_actions_addchdir_np, result != 0, NAME, AT_FDCWD,
           (posix_spawn_file_actions_t * actions, const char *path),
           (actions, target.path))

/* ---- Close and dup ----------------------------------------------------------------
 */

#define REDIRECTED_CLOSE(name, parameter, taken, argument)                             \
  int name(parameter) {                                                                \
    uintptr_t means = taken;                                                           \
    int status = REAL(name)(argument);                                                 \
    note_close(means);                                                                 \
    return status;                                                                     \
  }

REDIRECTED_CLOSE(close, int fd, take_descriptor(fd), fd)
REDIRECTED_CLOSE(fclose, FILE *stream, take_stream(stream), stream)

static void close_descriptors(int first, unsigned last) {
  if (!table || !table->wants_closes || getpid() != own_pid())
    return;
  for (int fd = first; fd <= highest_descriptor && (unsigned)fd <= last; fd++)
    note_close(take_descriptor(fd));
}

int close_range(unsigned first, unsigned last, int flags) {
  bool closes = first <= last && !(flags & ~CLOSE_RANGE_UNSHARE);
  if (closes && first <= INT_MAX)
    close_descriptors((int)first, last);
  return REAL(close_range)(first, last, flags);
}

void closefrom(int first) {
  close_descriptors(first < 0 ? 0 : first, UINT_MAX);
  REAL(closefrom)(first);
}

static int duplicated(int old_fd, int new_fd) {
  meaning *slot = table && table->wants_closes && new_fd >= 0 ? slot_of(old_fd) : NULL;
  if (LIKELY(!slot || !*slot) || new_fd == old_fd || getpid() != own_pid())
    return new_fd;
  end_unseen(new_fd);
  *slot |= IS_SHARED;
  note_descriptor(new_fd, *slot);
  return new_fd;
}

/* What has the new number is closed by a call that will not fail. */
static void replace(int old_fd, int new_fd, int flags) {
  if (LIKELY(!table || !table->wants_closes) || old_fd == new_fd || flags & ~O_CLOEXEC)
    return;
  int saved_errno = errno;
  bool is_open = syscall(SYS_fcntl, old_fd, F_GETFD) >= 0;
  errno = saved_errno;
  if (is_open)
    note_close(take_descriptor(new_fd));
}

int dup(int old_fd) { return duplicated(old_fd, REAL(dup)(old_fd)); }

int dup2(int old_fd, int new_fd) {
  replace(old_fd, new_fd, 0);
  return duplicated(old_fd, REAL(dup2)(old_fd, new_fd));
}

int dup3(int old_fd, int new_fd, int flags) {
  replace(old_fd, new_fd, flags);
  return duplicated(old_fd, REAL(dup3)(old_fd, new_fd, flags));
}

/* Every command takes one argument of at most a pointer's size, or none. */
#define REDIRECTED_FCNTL(name)                                                         \
  int name(int fd, int command, ...) {                                                 \
    va_list arguments;                                                                 \
    va_start(arguments, command);                                                      \
    void *argument = va_arg(arguments, void *);                                        \
    va_end(arguments);                                                                 \
    int result = REAL(name)(fd, command, argument);                                    \
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)                              \
      return duplicated(fd, result);                                                   \
    return result;                                                                     \
  }

REDIRECTED_FCNTL(fcntl)
REDIRECTED_FCNTL(fcntl64)
