/*
 * Calls every function of libc that takes a path, and says what each has reached: the
 * file of a descriptor, or whether it has worked.
 *
 *   calls DATASET, a folder; train/2.png is a file of it.
 */
#undef _FORTIFY_SOURCE
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

static char path[PATH_MAX], folder[PATH_MAX], text[PATH_MAX], one[PATH_MAX],
    other[PATH_MAX];

static void say(const char *name, int fd) {
  char link[64], file[PATH_MAX] = "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if (fd < 0)
    snprintf(file, sizeof file, "%s", strerror(errno));
  else
    file[readlink(link, file, sizeof file - 1)] = '\0';
  printf("%s %s\n", name, file);
  fflush(stdout);
}

#define OPENS(call)                                                                    \
  do {                                                                                 \
    int fd_ = call;                                                                    \
    say(#call, fd_);                                                                   \
    close(fd_);                                                                        \
  } while (0)
#define OPENS_STREAM(call)                                                             \
  do {                                                                                 \
    FILE *stream_ = call;                                                              \
    say(#call, stream_ ? fileno(stream_) : -1);                                        \
    if (stream_)                                                                       \
      fclose(stream_);                                                                 \
  } while (0)
/* Says the number of a file, too, so that a tier can be told from another. */
#define LOOKS(call, inode)                                                             \
  do {                                                                                 \
    errno = 0;                                                                         \
    int status_ = call;                                                                \
    printf("%s %s %llu\n", #call, status_ < 0 ? strerror(errno) : "ok",                \
           (unsigned long long)(inode));                                               \
  } while (0)
#define WORKS(call)                                                                    \
  do {                                                                                 \
    errno = 0;                                                                         \
    bool works_ = call;                                                                \
    printf("%s %s\n", #call, works_ ? "ok" : strerror(errno));                         \
  } while (0)

int __open_2(const char *, int);
int __open64_2(const char *, int);
int __openat_2(int, const char *, int);
int __openat64_2(int, const char *, int);
int openat2(int, const char *, const void *, size_t) __attribute__((weak));
int __xstat(int, const char *, struct stat *);
int __lxstat(int, const char *, struct stat *);
int __fxstatat(int, int, const char *, struct stat *, int);
int __xstat64(int, const char *, struct stat64 *);
int __lxstat64(int, const char *, struct stat64 *);
int __fxstatat64(int, int, const char *, struct stat64 *, int);
ssize_t __readlink_chk(const char *, char *, size_t, size_t);
ssize_t __readlinkat_chk(int, const char *, char *, size_t, size_t);
char *__realpath_chk(const char *, char *, size_t);

static void open_files(int at) {
  uint64_t how[3] = {O_RDONLY, 0, 0};
  OPENS(open(path, O_RDONLY));
  OPENS(open64(path, O_RDONLY));
  OPENS(openat(AT_FDCWD, path, O_RDONLY));
  OPENS(openat64(AT_FDCWD, path, O_RDONLY));
  OPENS(openat(at, "2.png", O_RDONLY));
  OPENS(openat64(at, "2.png", O_RDONLY));
  OPENS(__open_2(path, O_RDONLY));
  OPENS(__open64_2(path, O_RDONLY));
  OPENS(__openat_2(at, "2.png", O_RDONLY));
  OPENS(__openat64_2(at, "2.png", O_RDONLY));
  OPENS(openat2(at, "2.png", how, sizeof how));
  how[2] = 8; /* RESOLVE_BENEATH */
  OPENS(openat2(at, "2.png", how, sizeof how));
  OPENS_STREAM(fopen(path, "r"));
  OPENS_STREAM(fopen64(path, "re"));
  OPENS_STREAM(freopen(path, "r", fopen("/dev/null", "r")));
  OPENS_STREAM(freopen64(path, "r", fopen("/dev/null", "r")));
}

static void spawn(void) {
  posix_spawn_file_actions_t actions;
  char *arguments[] = {"readlink", "/proc/self/fd/9", NULL};
  pid_t child;
  int status;
  printf("posix_spawn_file_actions_addopen ");
  fflush(stdout);
  posix_spawn_file_actions_init(&actions);
  if (posix_spawn_file_actions_addopen(&actions, 9, path, O_RDONLY, 0) != 0 ||
      posix_spawn_file_actions_addchdir_np(&actions, folder) != 0 ||
      posix_spawnp(&child, "readlink", &actions, NULL, arguments, environ) != 0)
    exit(2);
  waitpid(child, &status, 0);
}

static void look_at_files(int at) {
  struct stat info;
  struct stat64 info64;
  struct statx infox;
  LOOKS(stat(path, &info), info.st_ino);
  LOOKS(lstat(path, &info), info.st_ino);
  LOOKS(fstatat(at, "2.png", &info, 0), info.st_ino);
  LOOKS(__xstat(1, path, &info), info.st_ino);
  LOOKS(__lxstat(1, path, &info), info.st_ino);
  LOOKS(__fxstatat(1, at, "2.png", &info, 0), info.st_ino);
  LOOKS(stat64(path, &info64), info64.st_ino);
  LOOKS(lstat64(path, &info64), info64.st_ino);
  LOOKS(fstatat64(at, "2.png", &info64, AT_SYMLINK_NOFOLLOW), info64.st_ino);
  LOOKS(__xstat64(1, path, &info64), info64.st_ino);
  LOOKS(__lxstat64(1, path, &info64), info64.st_ino);
  LOOKS(__fxstatat64(1, at, "2.png", &info64, 0), info64.st_ino);
  LOOKS(statx(at, "2.png", 0, STATX_BASIC_STATS, &infox), infox.stx_ino);
  LOOKS(statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &infox), infox.stx_ino);
}

static int visit(const char *name, const struct stat *info, int kind) {
  (void)info;
  return kind == FTW_F && strstr(name, "2.png") ? 1 : 0;
}

static int visit_too(const char *name, const struct stat *info, int kind,
                     struct FTW *place) {
  (void)place;
  return visit(name, info, kind);
}

static bool finds(FTS *found) {
  FTSENT *entry;
  bool finds = false;
  while (found && (entry = fts_read(found)))
    finds |= strcmp(entry->fts_name, "2.png") == 0;
  return found && fts_close(found) == 0 && finds;
}

static void ask(int at) {
  struct statfs fs;
  struct statfs64 fs64;
  struct statvfs vfs;
  struct statvfs64 vfs64;
  struct dirent **found;
  struct dirent64 **found64;
  char pattern[PATH_MAX + 8], *roots[] = {folder, NULL};
  glob_t names = {0};
  glob64_t names64 = {0};
  DIR *list = opendir(folder);
  snprintf(pattern, sizeof pattern, "%s/*.png", folder);
  WORKS(list && closedir(list) == 0);
  WORKS(scandir(folder, &found, NULL, alphasort) == 8);
  WORKS(scandir64(folder, &found64, NULL, alphasort64) == 8);
  WORKS(scandirat(AT_FDCWD, folder, &found, NULL, alphasort) == 8);
  WORKS(scandirat64(at, ".", &found64, NULL, alphasort64) == 8);
  WORKS(ftw(folder, visit, 4) == 1);
  WORKS(ftw64(folder, (void *)visit, 4) == 1);
  WORKS(nftw(folder, visit_too, 4, FTW_PHYS) == 1);
  WORKS(nftw64(folder, (void *)visit_too, 4, FTW_PHYS) == 1);
  WORKS(finds(fts_open(roots, FTS_PHYSICAL, NULL)));
  WORKS(finds((FTS *)fts64_open(roots, FTS_PHYSICAL, NULL)));
  WORKS(glob(pattern, 0, NULL, &names) == 0 && names.gl_pathc == 6 &&
        strstr(names.gl_pathv[2], path));
  globfree(&names);
  WORKS(glob64(pattern, 0, NULL, &names64) == 0 && names64.gl_pathc == 6);
  globfree64(&names64);
  WORKS(access(path, R_OK) == 0 && access(path, W_OK) == 0);
  WORKS(eaccess(path, R_OK) == 0);
  WORKS(euidaccess(path, R_OK) == 0);
  WORKS(faccessat(at, "2.png", R_OK, 0) == 0);
  WORKS(faccessat(AT_FDCWD, path, F_OK, AT_EACCESS) == 0);
  WORKS(realpath(path, NULL));
  WORKS(__realpath_chk(path, text, sizeof text));
  WORKS(canonicalize_file_name(path));
  WORKS(statfs(path, &fs) == 0 && statfs64(path, &fs64) == 0);
  WORKS(statvfs(path, &vfs) == 0 && statvfs64(path, &vfs64) == 0);
  WORKS(pathconf(folder, _PC_NAME_MAX) > 0);
  WORKS(inotify_add_watch(inotify_init(), folder, IN_OPEN) >= 0);
  WORKS(listxattr(path, NULL, 0) >= 0 && llistxattr(path, NULL, 0) >= 0);
  WORKS(getxattr(path, "user.none", NULL, 0) < 0 && errno != ENOENT);
  WORKS(lgetxattr(path, "user.none", NULL, 0) < 0 && errno != ENOENT);
}

static void change(int at) {
  struct timeval times[2] = {{0}};
  struct timespec precise[2] = {{0}};
  struct utimbuf seconds = {0};
#define NEW(name) (snprintf(one, sizeof one, "%s/" name, folder), one)
#define SECOND(name) (snprintf(other, sizeof other, "%s/" name, folder), other)
  OPENS(creat(NEW("new"), 0644));
  OPENS(creat64(NEW("new"), 0644));
  OPENS(open(NEW("more"), O_CREAT | O_WRONLY, 0600));
  OPENS_STREAM(fopen(NEW("new"), "w"));
  OPENS(mkstemp(NEW("tXXXXXX")));
  OPENS(mkstemp64(NEW("tXXXXXX")));
  OPENS(mkostemp(NEW("tXXXXXX"), O_APPEND));
  OPENS(mkostemp64(NEW("tXXXXXX"), O_APPEND));
  OPENS(mkstemps(NEW("tXXXXXX.bin"), 4));
  OPENS(mkstemps64(NEW("tXXXXXX.bin"), 4));
  OPENS(mkostemps(NEW("tXXXXXX.bin"), 4, O_APPEND));
  OPENS(mkostemps64(NEW("tXXXXXX.bin"), 4, O_APPEND));
  WORKS(mkdtemp(NEW("dXXXXXX")) == one && access(one, W_OK) == 0);
  WORKS(mkdir(NEW("d"), 0755) == 0 && rmdir(one) == 0);
  WORKS(mkdirat(at, "d", 0755) == 0 && unlinkat(at, "d", AT_REMOVEDIR) == 0);
  WORKS(mkfifo(NEW("f"), 0644) == 0 && unlink(one) == 0);
  WORKS(mkfifoat(AT_FDCWD, NEW("f"), 0644) == 0 && remove(one) == 0);
  WORKS(mknod(NEW("f"), S_IFIFO | 0644, 0) == 0 && remove(one) == 0);
  WORKS(mknodat(AT_FDCWD, NEW("f"), S_IFIFO | 0644, 0) == 0 && remove(one) == 0);
  WORKS(truncate(NEW("new"), 5) == 0 && truncate64(one, 6) == 0);
  WORKS(chmod(NEW("new"), 0600) == 0 && fchmodat(AT_FDCWD, one, 0644, 0) == 0);
  WORKS(chown(NEW("new"), -1, -1) == 0 && lchown(one, -1, -1) == 0);
  WORKS(fchownat(AT_FDCWD, NEW("new"), -1, -1, 0) == 0);
  WORKS(utime(NEW("new"), &seconds) == 0 && utimes(one, times) == 0);
  WORKS(lutimes(NEW("new"), times) == 0 && futimesat(AT_FDCWD, one, times) == 0);
  WORKS(utimensat(AT_FDCWD, NEW("new"), precise, 0) == 0);
  WORKS(setxattr(NEW("new"), "user.a", "1", 1, 0) == 0 || errno == ENOTSUP);
  WORKS(lsetxattr(NEW("new"), "user.a", "1", 1, 0) == 0 || errno == ENOTSUP);
  WORKS(removexattr(NEW("new"), "user.a") == 0 || errno == ENOTSUP);
  WORKS(lremovexattr(NEW("new"), "user.b") < 0 && errno != ENOENT);
  WORKS(rename(NEW("new"), SECOND("newer")) == 0);
  WORKS(renameat(AT_FDCWD, SECOND("newer"), at, "new") == 0);
  WORKS(renameat2(at, "new", AT_FDCWD, SECOND("newer"), 0) == 0);
  WORKS(link(SECOND("newer"), NEW("hard")) == 0 && unlink(one) == 0);
  WORKS(linkat(AT_FDCWD, SECOND("newer"), at, "hard", 0) == 0);
  WORKS(symlink(path, NEW("soft")) == 0 && readlink(one, text, sizeof text) > 0);
  WORKS(symlinkat("2.png", at, "softer") == 0);
  WORKS(readlinkat(AT_FDCWD, NEW("softer"), text, sizeof text) == 5);
  WORKS(__readlink_chk(one, text, sizeof text, sizeof text) == 5);
  WORKS(__readlinkat_chk(at, "softer", text, sizeof text, sizeof text) == 5);
  OPENS(open(NEW("soft"), O_RDONLY));
  WORKS(chdir(folder) == 0 && access("2.png", R_OK) == 0);
}

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  snprintf(folder, sizeof folder, "%s/train", argv[1]);
  snprintf(path, sizeof path, "%s/2.png", folder);
  int at = open(folder, O_RDONLY | O_DIRECTORY);
  open_files(at);
  spawn();
  look_at_files(at);
  ask(at);
  change(at);
  return 0;
}
