/*
 * What our preload libraries share: the functions behind ours, memory, descriptors,
 * paths, processes.
 *
 * Each library has a copy of preload.c. Nothing of it is visible outside the library,
 * so that neither another one nor the program can take its place.
 */
#ifndef TIERSCOPE_PRELOAD_H
#define TIERSCOPE_PRELOAD_H

#undef _FORTIFY_SOURCE /* its inline open() and read() are what we define */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifndef CLOSE_RANGE_CLOEXEC /* glibc before 2.34 */
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

#define LIKELY(condition) __builtin_expect(!!(condition), 1)

#pragma GCC visibility push(hidden)

/* ---- The functions behind ours ------------------------------------------------ */

/* Finds a function in the libraries behind ours; one that sets ENOSYS if none has it.
 */
void *find_next(void *_Atomic *found, const char *name);

static inline void *next_function(void *_Atomic *found, const char *name) {
  void *function = *found;
  return LIKELY(function != NULL) ? function : find_next(found, name);
}

/* The next library's definition of a function: another preload library's or libc's. */
#define REAL(name) REAL_AS(name, #name)
#define REAL_AS(name, symbol)                                                          \
  ({                                                                                   \
    static void *_Atomic found_;                                                       \
    (__typeof__(&name))next_function(&found_, symbol);                                 \
  })

/* The mode argument that open has only if it may create a file. */
#define MODE_ARGUMENT(mode, flags)                                                     \
  mode_t mode = 0;                                                                     \
  if ((flags) & (O_CREAT | __O_TMPFILE)) {                                             \
    va_list arguments;                                                                 \
    va_start(arguments, flags);                                                        \
    mode = va_arg(arguments, mode_t);                                                  \
    va_end(arguments);                                                                 \
  }

/* ---- Memory ------------------------------------------------------------------- */

/*
 * Without a search for libc's function: the search may allocate memory, and an
 * allocator that is not libc's may call mmap for it.
 */
void *map_anonymous(void *wanted, size_t bytes, int protection, int flags, int fd);

/*
 * Zeroed memory, NULL if there is none; keeps errno. Not from malloc: a signal handler
 * may have interrupted it.
 */
void *map_memory(size_t bytes, int flags);

/* ---- Descriptors -------------------------------------------------------------- */

/* What a descriptor means to a library, in two levels; Linux has numbers below 2^30. */
enum { LEAF_BITS = 15, LEAF_SLOTS = 1 << LEAF_BITS, N_LEAVES = 1 << (30 - LEAF_BITS) };
typedef _Atomic uintptr_t meaning; /* 0: nothing */
extern meaning *_Atomic descriptor_leaves[N_LEAVES];

/* NULL: nobody has noted a number like this, or no descriptor has it. */
static inline meaning *slot_of(int fd) {
  if (fd < 0 || fd >> LEAF_BITS >= N_LEAVES)
    return NULL;
  meaning *leaf = descriptor_leaves[fd >> LEAF_BITS];
  return leaf ? &leaf[fd & (LEAF_SLOTS - 1)] : NULL;
}

/* The slot of a number, made if it is new; NULL if there is no memory. */
meaning *make_slot(int fd);

void forget_slots(unsigned first, unsigned last);

/* ---- Paths -------------------------------------------------------------------- */

/* Writes the folder of a descriptor, or the current one; false if it is unknown. */
bool folder_of(int directory_fd, char *path, size_t bytes);

/*
 * Adds a component to a path that ends at `end`, as text: `.` adds nothing, `..`
 * removes one. Returns the new end. The component may lie in the same memory, behind
 * the end.
 */
size_t add_component(char *path, size_t end, const char *component, size_t length);

/* ---- Words -------------------------------------------------------------------- */

/*
 * Writes a line to standard error, before the process ends. Nothing is written if
 * descriptor 2 was closed when the library was loaded, or is another file since then:
 * it is the program's. No signal comes if its reader is gone or its disk full.
 */
void say_last(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- Processes ---------------------------------------------------------------- */

/*
 * Reads the beginning of a file as one line of text; empty if that fails. No library
 * sees these calls, and they cannot be cancelled.
 */
void read_text(const char *path, char *text, size_t bytes);

/*
 * When the kernel started a process, in ticks, as process ids come again, and its
 * parent's id; false if it is gone.
 */
bool read_start(pid_t process, unsigned long long *ticks, pid_t *parent);

/*
 * What the launcher calls this process, such as RANK=3; - if it has no name. Of Slurm,
 * only in a step: the shell of a batch script has a number, too, which all its
 * processes inherit.
 */
#define RANK_BYTES 64
void read_rank(char text[RANK_BYTES]);

/* ---- Programs that escape -------------------------------------------------------- */

/* Why a program that is executed does not load a library, or is not seen by it. */
enum escape {
  ESCAPE_STATIC = 1,
  ESCAPE_USER,
  ESCAPE_ENVIRONMENT,
  ESCAPE_FOREIGN,
  ESCAPE_UNREACHABLE,
  ESCAPE_MUSL,
  ESCAPE_SANITIZER,
  ESCAPE_GO,
  ESCAPE_ROOT
};

/* What a library needs of the environment, and who is told of programs that escape. */
struct watch {
  const char *library, *variable; /* parts of LD_PRELOAD, and of another variable */
  void (*note)(const char *path, enum escape reason);
};

/*
 * Look whether what is executed will load a library. They keep errno, and run in
 * children of vfork, too: they use the stack only. A name without a slash is looked for
 * in PATH, as execvp does. NULL: nobody is told.
 */
void watch_exec(const struct watch *watch, const char *path, char *const *environment);
void watch_exec_of_name(const struct watch *watch, const char *name,
                        char *const *environment);
void watch_exec_at(const struct watch *watch, int directory_fd, const char *path,
                   char *const *environment);

/* The same of a file: an enum escape, or 0. For `tierscope` itself. */
int tierscope_escape_of(const char *path) __attribute__((visibility("default")));

/* The arguments of a call of execl and its kind as an array on the stack. */
#define COLLECT(first, list, after)                                                    \
  va_list list;                                                                        \
  size_t n = 1;                                                                        \
  va_start(list, first);                                                               \
  while (va_arg(list, char *))                                                         \
    n++;                                                                               \
  va_end(list);                                                                        \
  char *arguments[n + 1];                                                              \
  arguments[0] = (char *)first;                                                        \
  va_start(list, first);                                                               \
  for (size_t i = 1; i <= n; i++)                                                      \
    arguments[i] = va_arg(list, char *);                                               \
  after;                                                                               \
  va_end(list);

/* Those that take arguments one by one call those of the library that take an array. */
#define DEFINE_EXECL                                                                   \
  int execl(const char *path, const char *first, ...) {                                \
    COLLECT(first, list, (void)0)                                                      \
    return execv(path, arguments);                                                     \
  }                                                                                    \
  int execlp(const char *name, const char *first, ...) {                               \
    COLLECT(first, list, (void)0)                                                      \
    return execvp(name, arguments);                                                    \
  }                                                                                    \
  int execle(const char *path, const char *first, ...) {                               \
    COLLECT(first, list, char *const *environment = va_arg(list, char *const *))       \
    return execve(path, arguments, environment);                                       \
  }

#pragma GCC visibility pop

#endif
