/* What our preload libraries share; see preload.h. */
#include "preload.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

meaning *_Atomic descriptor_leaves[N_LEAVES];

/* Replaces a function that this C library does not have. */
static long missing_function(void) {
  errno = ENOSYS;
  return -1;
}

void *find_next(void *_Atomic *found, const char *name) {
  void *function = dlsym(RTLD_NEXT, name);
  return *found = function ? function : (void *)missing_function;
}

void *map_anonymous(void *wanted, size_t bytes, int protection, int flags, int fd) {
  return (void *)syscall(SYS_mmap, wanted, bytes, protection, flags, fd, 0L);
}

void *map_memory(size_t bytes, int flags) {
  int saved_errno = errno;
  void *memory = map_anonymous(NULL, bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | flags, -1);
  errno = saved_errno;
  return memory == MAP_FAILED ? NULL : memory;
}

meaning *make_slot(int fd) {
  meaning *slot = slot_of(fd), *none = NULL;
  if (slot || fd < 0 || fd >> LEAF_BITS >= N_LEAVES)
    return slot;
  meaning *leaf = map_memory(LEAF_SLOTS * sizeof *leaf, 0);
  if (!leaf)
    return NULL;
  if (!atomic_compare_exchange_strong(&descriptor_leaves[fd >> LEAF_BITS], &none, leaf))
    munmap(leaf, LEAF_SLOTS * sizeof *leaf); /* another thread was faster */
  return slot_of(fd);
}

void forget_slots(unsigned first, unsigned last) {
  for (unsigned i = first >> LEAF_BITS; i <= last >> LEAF_BITS && i < N_LEAVES; i++) {
    meaning *leaf = descriptor_leaves[i];
    for (unsigned slot = 0; leaf && slot < LEAF_SLOTS; slot++) {
      unsigned fd = (i << LEAF_BITS) + slot;
      if (leaf[slot] && fd >= first && fd <= last)
        leaf[slot] = 0;
    }
  }
}

bool folder_of(int directory_fd, char *path, size_t bytes) {
  char link[64];
  if (directory_fd == AT_FDCWD)
    return REAL(getcwd)(path, bytes) != NULL;
  snprintf(link, sizeof link, "/proc/self/fd/%d", directory_fd);
  ssize_t length = REAL(readlink)(link, path, bytes);
  if (length < 0 || (size_t)length >= bytes)
    return false;
  path[length] = '\0';
  return true;
}

size_t add_component(char *path, size_t end, const char *component, size_t length) {
  if (length == 2 && memcmp(component, "..", 2) == 0) {
    while (end > 0 && path[--end] != '/')
      continue;
  } else if (length > 0 && !(length == 1 && *component == '.')) {
    path[end++] = '/';
    memmove(path + end, component, length);
    end += length;
  }
  return end;
}

static struct stat stderr_at_start;
static bool has_stderr, has_looked;

__attribute__((constructor)) static void look_at_stderr(void) {
  if (!has_looked)
    has_stderr = syscall(SYS_fstat, STDERR_FILENO, &stderr_at_start) == 0;
  has_looked = true;
}

void say_last(const char *format, ...) {
  char line[1024];
  struct stat now;
  sigset_t limits;
  va_list values;
  va_start(values, format);
  int length = vsnprintf(line, sizeof line - 1, format, values);
  va_end(values);
  size_t end = length < (int)sizeof line - 1 ? (size_t)length : sizeof line - 2;
  line[end++] = '\n';
  look_at_stderr();
  if (!has_stderr || syscall(SYS_fstat, STDERR_FILENO, &now) != 0 ||
      now.st_dev != stderr_at_start.st_dev || now.st_ino != stderr_at_start.st_ino)
    return;
  sigemptyset(&limits);
  sigaddset(&limits, SIGPIPE);
  sigaddset(&limits, SIGXFSZ);
  sigprocmask(SIG_BLOCK, &limits, NULL);
  syscall(SYS_write, STDERR_FILENO, line, end);
}

void read_text(const char *path, char *text, size_t bytes) {
  ssize_t length = -1;
  int saved_errno = errno;
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  if (fd >= 0) {
    length = syscall(SYS_read, fd, text, bytes - 1);
    syscall(SYS_close, fd);
  }
  errno = saved_errno;
  length = length < 0 ? 0 : length;
  for (ssize_t i = 0; i < length; i++)
    if (text[i] == '\0' || text[i] == '\n')
      text[i] = ' ';
  text[length] = '\0';
}

/* The 4th and 22nd field of its stat; the second may hold spaces, and ends with `)`. */
bool read_start(pid_t process, unsigned long long *ticks, pid_t *parent) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
  read_text(path, text, sizeof text);
  const char *field = strrchr(text, ')');
  for (int i = 3; field && i <= 22; i++) {
    field = strchr(field + 1, ' ');
    if (field && i == 4)
      *parent = atoi(field + 1);
  }
  *ticks = field ? strtoull(field + 1, NULL, 10) : 0;
  return field != NULL;
}

void read_rank(char text[RANK_BYTES]) {
  snprintf(text, RANK_BYTES, "-");
  static const char *const names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                      "PMIX_RANK", "SLURM_PROCID"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *rank = getenv(names[i]);
    if (!rank || !*rank || strlen(rank) > 9 || rank[strspn(rank, "0123456789")])
      continue;
    if (names[i][0] == 'S' && !getenv("SLURM_STEP_ID"))
      continue;
    snprintf(text, RANK_BYTES, "%s=%s", names[i], rank);
    return;
  }
}

/* ---- Programs that escape ------------------------------------------------------- */

static ssize_t read_at(int fd, void *data, size_t bytes, off_t offset) {
  return syscall(SYS_pread64, fd, data, bytes, offset);
}

/* This library; found when it is loaded, as a child of fork must not look for it. */
static Dl_info own;

__attribute__((constructor)) static void look_at_self(void) {
  dladdr((void *)look_at_self, &own);
}

/* A file of ELF, and where the loader puts its parts. */
struct elf {
  int fd;
  ElfW(Ehdr) head;
};

static bool read_part(const struct elf *file, int i, ElfW(Phdr) * part) {
  off_t at = (off_t)(file->head.e_phoff + (size_t)i * file->head.e_phentsize);
  return read_at(file->fd, part, sizeof *part, at) == sizeof *part;
}

/* The place in the file of an address; 0: none. */
static off_t offset_of(const struct elf *file, ElfW(Addr) address) {
  ElfW(Phdr) part;
  for (int i = 0; i < file->head.e_phnum && read_part(file, i, &part); i++)
    if (part.p_type == PT_LOAD && address >= part.p_vaddr &&
        address - part.p_vaddr < part.p_filesz)
      return (off_t)(part.p_offset + (address - part.p_vaddr));
  return 0;
}

/* Whether a program needs a library whose name begins like this. */
static bool needs(const struct elf *file, const ElfW(Phdr) * dynamic,
                  const char *prefix) {
  enum { MOST = 256 };
  ElfW(Dyn) entry;
  char name[32];
  off_t names = 0;
  for (int round = 0; round < 2; round++)
    for (int i = 0; i < MOST; i++) {
      off_t at = (off_t)dynamic->p_offset + i * (off_t)sizeof entry;
      if (read_at(file->fd, &entry, sizeof entry, at) != sizeof entry ||
          entry.d_tag == DT_NULL)
        break;
      if (entry.d_tag == DT_STRTAB)
        names = offset_of(file, entry.d_un.d_ptr);
      if (round && names && entry.d_tag == DT_NEEDED &&
          read_at(file->fd, name, sizeof name, names + (off_t)entry.d_un.d_val) > 0 &&
          strncmp(name, prefix, strlen(prefix)) == 0)
        return true;
    }
  return false;
}

/* Whether notes of a program say that Go has made it. */
static bool is_of_go(const struct elf *file, const ElfW(Phdr) * notes) {
  char text[512] __attribute__((aligned(8)));
  ssize_t bytes = read_at(file->fd, text, sizeof text, (off_t)notes->p_offset);
  size_t end = bytes < 0 ? 0 : (size_t)bytes, at = 0;
  if (end > notes->p_filesz)
    end = notes->p_filesz;
  while (at + sizeof(ElfW(Nhdr)) + 4 <= end) {
    const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)(text + at);
    if (note->n_namesz == 4 && memcmp(note + 1, "Go\0", 4) == 0)
      return true;
    at += sizeof *note + ((note->n_namesz + 3) & ~3u) + ((note->n_descsz + 3) & ~3u);
  }
  return false;
}

static bool begins_name(const char *path, const char *prefix) {
  const char *slash = strrchr(path, '/');
  return strncmp(slash ? slash + 1 : path, prefix, strlen(prefix)) == 0;
}

/* What the parts of a program that is linked dynamically say. */
static enum escape check_parts(const struct elf *file, const char *path) {
  bool has_loader = begins_name(path, "ld-") || begins_name(path, "ld.so");
  enum escape reason = 0;
  ElfW(Phdr) part;
  for (int i = 0; i < file->head.e_phnum; i++) {
    char loader[256] = "";
    if (!read_part(file, i, &part))
      return 0;
    if (part.p_type == PT_INTERP) {
      has_loader = true;
      read_at(file->fd, loader, sizeof loader - 1, (off_t)part.p_offset);
      if (begins_name(loader, "ld-musl"))
        reason = ESCAPE_MUSL;
    } else if (part.p_type == PT_DYNAMIC && (needs(file, &part, "libasan.so") ||
                                             needs(file, &part, "libclang_rt.asan"))) {
      reason = ESCAPE_SANITIZER;
    } else if (part.p_type == PT_NOTE && is_of_go(file, &part)) {
      reason = ESCAPE_GO;
    }
  }
  return has_loader ? reason : ESCAPE_STATIC; /* so are most programs in Go */
}

/* A program for another machine or word size cannot load this library. */
static enum escape check_program(int fd, const char *path) {
  struct elf file = {.fd = fd};
  const ElfW(Ehdr) *ours = own.dli_fbase, *head = &file.head;
  if (read_at(fd, &file.head, sizeof file.head, 0) != sizeof file.head ||
      memcmp(head->e_ident, ELFMAG, SELFMAG) != 0)
    return 0; /* no program: a shell reads it */
  if (ours && (head->e_ident[EI_CLASS] != ours->e_ident[EI_CLASS] ||
               head->e_machine != ours->e_machine))
    return ESCAPE_FOREIGN;
  return check_parts(&file, path);
}

/* Then the loader takes no library of the environment. */
static bool changes_user(int fd, const struct stat *info) {
  if ((info->st_mode & S_ISUID && info->st_uid != geteuid()) ||
      (info->st_mode & S_ISGID && info->st_mode & S_IXGRP && info->st_gid != getegid()))
    return true;
  return geteuid() != 0 &&
         syscall(SYS_fgetxattr, fd, "security.capability", NULL, 0) > 0;
}

/* The name of a script's interpreter; empty if the file is no script. */
static void read_interpreter(int fd, char *name, size_t bytes) {
  char line[256];
  ssize_t n = read_at(fd, line, sizeof line - 1, 0);
  *name = '\0';
  if (n < 3 || line[0] != '#' || line[1] != '!')
    return;
  line[n] = '\0';
  const char *start = line + 2 + strspn(line + 2, " \t");
  size_t length = strcspn(start, " \t\r\n");
  if (length < bytes)
    snprintf(name, bytes, "%.*s", (int)length, start);
}

/* 0: it loads this library, or cannot run. */
static enum escape check_file(const char *path, int depth) {
  char interpreter[256];
  struct stat info;
  enum escape reason = 0;
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0)
    return 0;
  read_interpreter(fd, interpreter, sizeof interpreter);
  if (syscall(SYS_fstat, fd, &info) != 0 || !S_ISREG(info.st_mode))
    reason = 0;
  else if (!*interpreter)
    reason = changes_user(fd, &info) ? ESCAPE_USER : check_program(fd, path);
  else if (depth < 4)
    reason = check_file(interpreter, depth + 1);
  syscall(SYS_close, fd);
  return reason;
}

int tierscope_escape_of(const char *path) { return (int)check_file(path, 0); }

static bool is_told(const struct watch *watch, char *const *environment) {
  bool has_variable = false, has_library = false;
  size_t length = strlen(watch->variable);
  for (char *const *one = environment; one && *one; one++) {
    has_variable |=
        strncmp(*one, watch->variable, length) == 0 && (*one)[length] == '=';
    has_library |=
        strncmp(*one, "LD_PRELOAD=", 11) == 0 && strstr(*one, watch->library) != NULL;
  }
  return has_variable && has_library;
}

/* Of what can be executed: whether it is told, and would find what it is told. */
static enum escape check_environment(const struct watch *watch, const char *path,
                                     char *const *environment) {
  if (syscall(SYS_faccessat, AT_FDCWD, path, X_OK) != 0)
    return 0;
  if (!is_told(watch, environment))
    return ESCAPE_ENVIRONMENT;
  bool is_there =
      !own.dli_fname || syscall(SYS_faccessat, AT_FDCWD, own.dli_fname, R_OK) == 0;
  return is_there ? 0 : ESCAPE_UNREACHABLE;
}

void watch_exec(const struct watch *watch, const char *path, char *const *environment) {
  if (!watch || !path)
    return;
  int saved_errno = errno;
  enum escape reason = check_file(path, 0);
  if (!reason)
    reason = check_environment(watch, path, environment);
  if (reason)
    watch->note(path, reason);
  errno = saved_errno;
}

void watch_exec_of_name(const struct watch *watch, const char *name,
                        char *const *environment) {
  const char *folders = getenv("PATH");
  char path[1000];
  if (!watch)
    return;
  if (!folders)
    folders = "/bin:/usr/bin"; /* as libc */
  if (!name || strchr(name, '/')) {
    watch_exec(watch, name, environment);
    return;
  }
  int saved_errno = errno;
  for (const char *at = folders; *at; at += *at == ':') {
    int length = (int)strcspn(at, ":");
    snprintf(path, sizeof path, "%.*s%s%s", length, at, length ? "/" : "", name);
    at += length;
    if (syscall(SYS_faccessat, AT_FDCWD, path, X_OK) == 0) {
      watch_exec(watch, path, environment);
      break;
    }
  }
  errno = saved_errno;
}

/* The name of an open file, or of one below an open folder. */
void watch_exec_at(const struct watch *watch, int directory_fd, const char *path,
                   char *const *environment) {
  char name[1000];
  if (!watch)
    return;
  int saved_errno = errno;
  if (path && *path == '/')
    watch_exec(watch, path, environment);
  else if (folder_of(directory_fd, name, sizeof name)) {
    size_t end = strlen(name);
    if (path && *path && end + strlen(path) + 2 <= sizeof name)
      snprintf(name + end, sizeof name - end, "/%s", path);
    watch_exec(watch, name, environment);
  }
  errno = saved_errno;
}
