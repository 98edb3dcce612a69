/*
 * A library for LD_PRELOAD that lets posix_fadvise keep all pages in the page cache.
 * PASSES: it passes all calls on instead. HIDES: it removes itself from the
 * environment.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/types.h>

#ifdef PASSES
#define SWALLOWED(advice) 0
#else
#define SWALLOWED(advice) ((advice) == POSIX_FADV_DONTNEED)
#endif

#define ADVICE(name, offset_type)                                                      \
  int name(int fd, offset_type offset, offset_type length, int advice) {               \
    int (*next)(int, offset_type, offset_type, int) = dlsym(RTLD_NEXT, #name);         \
    return SWALLOWED(advice) ? 0 : next(fd, offset, length, advice);                   \
  }

ADVICE(posix_fadvise, off_t)
ADVICE(posix_fadvise64, off64_t)

#ifdef HIDES
__attribute__((constructor)) static void hide(void) { unsetenv("LD_PRELOAD"); }
#endif
