/*
 * Foreign libraries in this process, and whose posix_fadvise the program reaches.
 *
 * A preloaded library can make posix_fadvise do nothing, so that files stay in the page
 * cache. Behind the tracer it is found out, before the tracer it hides the calls.
 */
#include "trace.h"

#include <dlfcn.h>
#include <gnu/lib-names.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

void *libc_posix_fadvise, *libc_posix_fadvise64;

/*
 * What an event tells, empty if there is nothing to tell: how many preloaded libraries
 * there are, the names of them that fit, and whose posix_fadvise stands before and
 * behind that of the tracer. Slashes stand between the four, colons between names.
 */
enum { NAMES_BYTES = 1024 };
static char found[NAMES_BYTES + 2 * NAME_MAX];

static const char *name_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* The path of the library that holds a function; NULL: it is the program, or none. */
static const char *library_of(void *function) {
  Dl_info info;
  struct link_map *map;
  if (!function || !dladdr1(function, &info, (void **)&map, RTLD_DL_LINKMAP))
    return NULL;
  return *map->l_name ? map->l_name : NULL;
}

/* Whether a library is one that our commands load, or a Darshan. */
static bool is_ours(const char *path) {
  const char *own = library_of((void *)is_ours), *name = name_of(path);
  if (strncmp(name, "libdarshan", 10) == 0 || !own || strcmp(path, own) == 0)
    return true;
  size_t folder = (size_t)(name_of(own) - own);
  return (size_t)(name - path) == folder && strncmp(path, own, folder) == 0 &&
         strncmp(name, "libtierscope_", 13) == 0;
}

/* ---- Preloaded libraries -------------------------------------------------------- */

/* The program, and the libraries that were loaded after it, in their order. */
struct loaded {
  const ElfW(Dyn) * needed; /* the program's dynamic section; NULL: not known yet */
  const char *strings;
  char names[NAMES_BYTES];
  size_t length;               /* of the names */
  unsigned n_found, n_certain; /* not needed by the program; before one that is */
  size_t certain_length;
};

static void read_needed(struct loaded *all, const struct dl_phdr_info *program) {
  for (int i = 0; i < program->dlpi_phnum; i++)
    if (program->dlpi_phdr[i].p_type == PT_DYNAMIC)
      all->needed =
          (const ElfW(Dyn) *)(program->dlpi_addr + program->dlpi_phdr[i].p_vaddr);
  for (const ElfW(Dyn) *entry = all->needed; entry && entry->d_tag; entry++)
    if (entry->d_tag == DT_STRTAB) {
      uintptr_t at = entry->d_un.d_ptr; /* some machines leave it as in the file */
      all->strings =
          (const char *)(at < program->dlpi_addr ? at + program->dlpi_addr : at);
    }
}

static bool is_needed(const struct loaded *all, const char *name) {
  for (const ElfW(Dyn) *entry = all->needed; entry->d_tag; entry++)
    if (entry->d_tag == DT_NEEDED &&
        strcmp(name_of(all->strings + entry->d_un.d_val), name) == 0)
      return true;
  return false;
}

static void add_name(struct loaded *all, const char *name, size_t bytes) {
  all->n_found++;
  if (all->length + bytes + 1 >= sizeof all->names)
    return; /* counted only */
  memcpy(all->names + all->length, name, bytes);
  all->names[all->length + bytes] = ':';
  all->length += bytes + 1;
}

/*
 * The loader lists the program, preloaded libraries, those that the program needs, and
 * then those that these need. So what stands before one that the program needs, and is
 * not needed itself, is preloaded. The environment could have been changed meanwhile.
 */
static int look_at(struct dl_phdr_info *info, size_t bytes, void *argument) {
  (void)bytes;
  struct loaded *all = argument;
  const char *name = name_of(info->dlpi_name);
  if (!all->needed) {
    read_needed(all, info);
    return !all->needed || !all->strings;
  }
  if (is_needed(all, name)) {
    all->n_certain = all->n_found;
    all->certain_length = all->length;
  } else if (name != info->dlpi_name && !is_ours(info->dlpi_name)) {
    add_name(all, name, strlen(name)); /* without a folder: the kernel's */
  }
  return 0;
}

/* ---- posix_fadvise -------------------------------------------------------------- */

/*
 * Looks whose function of a name comes before ours and behind it; returns libc's. Whose
 * a function of libc is takes long to find, so it is not asked.
 */
static void *find_others(void *libc, const char *name, const char **before,
                         const char **behind) {
  void *of_libc = libc ? dlsym(libc, name) : NULL, *next = dlsym(RTLD_NEXT, name);
  const char *first = library_of(dlsym(RTLD_DEFAULT, name)), *other;
  if (first && first != library_of((void *)find_others))
    *before = name_of(first);
  if (of_libc && next != of_libc && (other = library_of(next)))
    *behind = name_of(other);
  return of_libc;
}

/* Those of LD_AUDIT may take any call's place, and the loader does not list them. */
static void add_auditors(struct loaded *all) {
  const char *at = getenv("LD_AUDIT");
  for (size_t length; at && *at; at += length + (at[length] == ':')) {
    const char *name = at;
    length = strcspn(at, ":");
    for (size_t i = 0; i < length; i++)
      if (at[i] == '/')
        name = at + i + 1;
    if (name < at + length)
      add_name(all, name, (size_t)(at + length - name));
  }
  all->n_certain = all->n_found;
  all->certain_length = all->length;
}

void find_libraries(void) {
  struct loaded all = {0};
  const char *before = "", *behind = "";
  add_auditors(&all);
  dl_iterate_phdr(look_at, &all);
  void *libc = dlopen(LIBC_SO, RTLD_LAZY | RTLD_NOLOAD);
  libc_posix_fadvise = find_others(libc, "posix_fadvise", &before, &behind);
  libc_posix_fadvise64 = find_others(libc, "posix_fadvise64", &before, &behind);
  if (libc)
    dlclose(libc);
  if (all.n_certain || *before || *behind)
    snprintf(found, sizeof found, "%u/%.*s/%s/%s", all.n_certain,
             (int)all.certain_length, all.names, before, behind);
}

void note_libraries(void) {
  if (*found)
    note_event("libraries", found);
}
