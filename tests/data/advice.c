/*
 * A library for LD_PRELOAD that lets posix_fadvise keep all pages in the page cache.
 * PASSES: it passes all calls on instead. HIDES: it removes itself from the
 * environment. SLOW: a call with a length below 0 takes 0.05 s.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#ifdef PASSES
#define SWALLOWED(advice) 0
#else
#define SWALLOWED(advice) ((advice) == POSIX_FADV_DONTNEED)
#endif

#ifdef SLOW
#define DELAY_US 50000
#else
#define DELAY_US 0
#endif

#define ADVICE(name, offset_type)                                                      \
  int name(int fd, offset_type offset, offset_type length, int advice) {               \
    int (*next)(int, offset_type, offset_type, int) = dlsym(RTLD_NEXT, #name);         \
    if (length < 0)                                                                    \
      usleep(DELAY_US);                                                                \
    return SWALLOWED(advice) ? 0 : next(fd, offset, length, advice);                   \
  }

ADVICE(posix_fadvise, off_t)
ADVICE(posix_fadvise64, off64_t)

#ifdef HIDES
__attribute__((constructor)) static void hide(void) { unsetenv("LD_PRELOAD"); }
#endif
