/* Makes each call that `tierscope trace` counts and a benchmark's run does not. Most
 * files are named after the call. The test knows what must be counted of each. */
#define _GNU_SOURCE
#include <aio.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

static void expect(int is_right, const char *what) {
  if (!is_right) {
    fprintf(stderr, "%s: errno %d\n", what, errno);
    exit(1);
  }
}
#define DO(call) expect((call) >= 0, #call)

static int make(const char *name, size_t bytes) {
  int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
  DO(fd);
  DO(ftruncate(fd, (off_t)bytes));
  return fd;
}

static void temporary(int fd) {
  DO(fd);
  expect(write(fd, "abc", 3) == 3, "write");
  close(fd);
}

static void make_temporaries(void) {
  char a[] = "mkstemp.XXXXXX", b[] = "mkostemp.XXXXXX", c[] = "mkstemps.XXXXXX.end";
  char d[] = "mkostemps.XXXXXX.end", e[] = "mkstemp64.XXXXXX",
       f[] = "mkostemp64.XXXXXX";
  char g[] = "mkstemps64.XXXXXX.end", h[] = "mkostemps64.XXXXXX.end";
  temporary(mkstemp(a));
  temporary(mkostemp(b, O_CLOEXEC));
  temporary(mkstemps(c, 4));
  temporary(mkostemps(d, 4, O_CLOEXEC));
  temporary(mkstemp64(e));
  temporary(mkostemp64(f, O_CLOEXEC));
  temporary(mkstemps64(g, 4));
  temporary(mkostemps64(h, 4, O_CLOEXEC));
}

static void open_beneath(void) {
  struct {
    uint64_t flags, mode, resolve;
  } how = {O_RDWR | O_CREAT, 0640, 0};
  int (*call)(int, const char *, void *, size_t) = dlsym(RTLD_DEFAULT, "openat2");
  int fd = call ? call(AT_FDCWD, "openat2", &how, sizeof how) : -1;
  if (fd >= 0)
    close(fd);
}

static void list_folders(void) {
  struct dirent **found;
  DO(mkdir("opendir", 0755));
  DO(mkdir("scandir", 0755));
  close(make("opendir/one", 0));
  DIR *folder = opendir("opendir");
  expect(folder != NULL, "opendir");
  errno = 0;
  while (readdir(folder))
    ;
  expect(errno == 0, "readdir leaves errno");
  DO(closedir(folder));
  DO(scandir("scandir", &found, NULL, alphasort));
}

static void look_up(void) {
  struct statx info;
  char target[100];
  close(make("statx", 0));
  close(make("access", 0));
  close(make("faccessat", 0));
  close(make("euidaccess", 0));
  DO(symlink("nowhere", "readlink"));
  DO(symlink("nowhere", "readlinkat"));
  DO(statx(AT_FDCWD, "statx", 0, STATX_SIZE, &info));
  DO(access("access", R_OK));
  DO(faccessat(AT_FDCWD, "faccessat", R_OK, 0));
  DO(euidaccess("euidaccess", R_OK));
  DO(readlink("readlink", target, sizeof target));
  DO(readlinkat(AT_FDCWD, "readlinkat", target, sizeof target));
  expect(access("missing", R_OK) < 0 && errno == ENOENT, "errno of a failed call");
}

static void rename_files(void) {
  close(make("rename", 0));
  DO(rename("rename", "rename-to"));
  close(make("renameat", 0));
  DO(renameat(AT_FDCWD, "renameat", AT_FDCWD, "renameat-to"));
  close(make("renameat2", 0));
  DO(renameat2(AT_FDCWD, "renameat2", AT_FDCWD, "renameat2-to", 0));
}

static void copy_files(void) {
  int pipes[2], source = make("sendfile", 5000), target = make("sendfile-to", 0);
  off_t offset = 1000;
  expect(sendfile(target, source, &offset, 9999) == 4000, "sendfile");
  source = make("copy_file_range", 5000);
  target = make("copy_file_range-to", 0);
  expect(copy_file_range(source, NULL, target, NULL, 9999, 0) == 5000, "copy");
  source = make("splice", 5000);
  DO(pipe(pipes));
  expect(splice(source, NULL, pipes[1], NULL, 5000, 0) == 5000, "splice");
}

static void map_files(void) {
  int fd = make("mmap", 5000);
  expect(mmap(NULL, 1 << 20, PROT_READ, MAP_SHARED, fd, 4096) != MAP_FAILED, "mmap");
  expect(mmap(NULL, 100, PROT_READ, MAP_PRIVATE, fd, 0) != MAP_FAILED, "mmap");
  expect(mmap(NULL, 100, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED,
         "mmap of memory");
  expect(mmap(NULL, 0, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED && errno == EINVAL,
         "errno of mmap");
  expect(posix_fadvise(make("posix_fadvise", 5000), 0, 0, POSIX_FADV_WILLNEED) == 0,
         "posix_fadvise");
}

static void wait_for(struct aiocb *block, ssize_t bytes) {
  const struct aiocb *const blocks[] = {block};
  while (aio_error(block) == EINPROGRESS)
    aio_suspend(blocks, 1, NULL);
  expect(aio_return(block) == bytes, "aio_return");
}

static void read_later(void) {
  char data[3000] = {0};
  struct aiocb one = {.aio_fildes = make("aio", 5000),
                      .aio_buf = data,
                      .aio_nbytes = 3000,
                      .aio_offset = 1000};
  DO(aio_read(&one));
  wait_for(&one, 3000);
  one.aio_nbytes = 2000;
  DO(aio_write(&one));
  wait_for(&one, 2000);
  struct aiocb many = {.aio_fildes = make("lio_listio", 5000),
                       .aio_buf = data,
                       .aio_nbytes = 1000,
                       .aio_lio_opcode = LIO_READ};
  struct aiocb *list[] = {&many, NULL};
  DO(lio_listio(LIO_WAIT, list, 2, NULL));
  wait_for(&many, 1000);
}

static int print_listed(FILE *stream, const char *format, ...) {
  va_list values;
  va_start(values, format);
  int bytes = stream ? vfprintf(stream, format, values) : vprintf(format, values);
  va_end(values);
  return bytes;
}

static void use_streams(void) {
  int number;
  char text[100];
  fpos_t start;
  FILE *words = fopen("words", "w+");
  putw(77, words);           /* 4 bytes */
  fprintf(words, "12 34\n"); /* 6 */
  fgetpos(words, &start);
  rewind(words);
  expect(getw(words) == 77, "getw");                                   /* 4 */
  expect(fscanf(words, "%d", &number) == 1 && number == 12, "fscanf"); /* 2 */
  fsetpos(words, &start);
  fclose(words);
  FILE *letters = fopen("letters", "w+");
  for (int i = 0; i < 10000; i++)
    putc_unlocked('x', letters); /* most of them are no calls */
  fflush_unlocked(letters);
  putc_unlocked('y', letters);
  rewind(letters);
  for (int i = 0; i < 9000; i++)
    getc_unlocked(letters);
  fgets_unlocked(text, 100, letters); /* 99 */
  fclose(letters);
  static char zeros[1500];
  FILE *parts = fopen("zeros", "w+");
  memset(zeros, 0, sizeof zeros);
  zeros[499] = zeros[999] = '\n';
  fwrite(zeros, 1, sizeof zeros, parts);
  rewind(parts);
  fgets(text, 100, parts);                            /* 99 zeros */
  expect(fread(zeros, 1000, 2, parts) == 1, "fread"); /* and a part: 1401 */
  fclose(parts);
  FILE *first = fopen("twice", "w"), *second = fopen("twice", "a");
  for (int i = 0; i < 10; i++) {
    putc_unlocked('a', first);
    putc_unlocked('b', second);
  }
  fclose(first);
  fclose(second);
  int fd = make("dprintf", 0);
  dprintf(fd, "%d", 123); /* 3 */
  close(fd);
}

/* The last one: the buffer is not empty when the program ends. */
static void use_standard_output(void) {
  expect(freopen("stdout", "w", stdout) != NULL, "freopen");
  printf("%s", "abc");             /* 3 */
  print_listed(NULL, "%s", "de");  /* 2 */
  print_listed(stdout, "%s", "f"); /* 1 */
  puts("1234");                    /* 5 */
  putchar('z');                    /* 1 */
  fflush(NULL);
  putchar_unlocked('y'); /* 1 */
}

int main(int n_arguments, char **arguments) {
  DO(chdir(arguments[n_arguments - 1]));
  make_temporaries();
  open_beneath();
  list_folders();
  look_up();
  rename_files();
  copy_files();
  map_files();
  read_later();
  use_streams();
  use_standard_output();
  return 0;
}
