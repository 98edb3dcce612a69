/* Wrappers of streams of libc: module STDIO. */
#include "trace.h"

#ifndef __EXCEPTIONS
#error "-fexceptions: a thread that is cancelled in a call must unlock its stream"
#endif

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * Only for `tierscope trace`. libc makes the calls of its streams inside, where nobody
 * sees them, so these records do not count any call twice.
 *
 * getc and putc are often no calls at all: compiled programs move a pointer of the
 * stream, and call libc when its buffer is empty or full. So we remember where the
 * pointers stood when a call on the stream ended. What lies between that and the next
 * call counts as one read or write, without time.
 */
struct stream {
  struct stream *next; /* another one of the file */
  struct file *file;   /* to which calls are counted */
  FILE *_Atomic of;    /* NULL: it was closed */
  const char *read_at, *write_at;
};

/* The file to which calls on streams of a file are counted. */
static struct file *counted_file(const struct file *file) {
  char usual[1024], *name = usual;
  size_t bytes = strlen(file->path) + 2;
  if (bytes > sizeof usual && !(name = map_memory(bytes, 0)))
    return NULL;
  *name = STREAM_MARK;
  memcpy(name + 1, file->path, bytes - 1);
  struct file *counted = named_file(name);
  if (counted && file->mount) {
    counted->mount = file->mount;
    counted->has_no_record = file->has_no_record;
  }
  if (name != usual)
    munmap(name, bytes);
  return counted;
}

static void remember(struct stream *known) {
  known->read_at = known->of->_IO_read_ptr;
  known->write_at = known->of->_IO_write_ptr;
}

/* A stream of a file, not known before; the caller holds files.lock. */
static struct stream *add_stream(struct file *file, struct file *counted, FILE *of) {
  struct stream *known = file->stream;
  while (known && known->of)
    known = known->next;
  if (!known) {
    if (!(known = allocate(sizeof *known)))
      return NULL;
    known->next = file->stream;
    file->stream = known;
  }
  known->file = counted;
  known->of = of;
  remember(known);
  return known;
}

/* What is known of a stream of a file. NULL: no memory, or an interrupted thread. */
static struct stream *stream_of(struct file *file, FILE *of) {
  for (struct stream *known = file->stream; known; known = known->next)
    if (LIKELY(known->of == of))
      return known;
  struct file *counted = counted_file(file);
  if (!counted || !become_busy())
    return NULL;
  pthread_mutex_lock(&files.lock);
  struct stream *known = add_stream(file, counted, of);
  pthread_mutex_unlock(&files.lock);
  become_free();
  return known;
}

/* The descriptor of a stream, -1 of memory; keeps errno. */
static int number_of(FILE *stream) {
  int saved_errno = errno;
  int fd = fileno_unlocked(stream);
  errno = saved_errno;
  return fd;
}

/* The same of a stream that may be of any file; NULL if that is not traced. */
static struct stream *traced_stream(FILE *of) {
  if (LIKELY(!*events_path) || !of)
    return NULL;
  struct file *file = used_file(number_of(of));
  return LIKELY(!file) ? NULL : stream_of(file, of);
}

/* Counts what the program has read or written in the buffer since the last call. */
static void count_moved(const struct stream *known) {
  const FILE *of = known->of;
  int64_t n_read = of->_IO_read_ptr - known->read_at;
  int64_t n_written = of->_IO_write_ptr - known->write_at;
  if (n_read > 0 && known->read_at >= of->_IO_read_base)
    record_transfer(known->file, READ_LANE, -1, n_read, now_s());
  if (n_written > 0 && known->write_at >= of->_IO_write_base)
    record_transfer(known->file, WRITE_LANE, -1, n_written, now_s());
}

/* A call on a traced stream: other threads wait until it has ended. */
static struct stream *begin_stream_call(struct stream *known) {
  flockfile(known->of);
  count_moved(known);
  return known;
}

static void end_stream_call(struct stream **call) {
  remember(*call);
  funlockfile((*call)->of);
}

/* Also ends if its thread is cancelled in libc's function. */
#define STREAM_CALL(known, start_s)                                                    \
  struct stream *call_ __attribute__((cleanup(end_stream_call), unused)) =             \
      begin_stream_call(known);                                                        \
  double start_s = now_s()

/* The stream is about to be closed, or to be that of another file. */
static void forget_stream(struct stream *known) {
  FILE *of = known->of;
  flockfile(of);
  count_moved(known);
  known->of = NULL;
  funlockfile(of);
}

/*
 * Notes the file of a new stream; path NULL: it is of a descriptor. Those of C++ read
 * its descriptor themselves.
 */
static FILE *opened_stream(FILE *stream, struct file *file, const char *path,
                           double start_s) {
  if (path)
    file = note_opened(fileno_unlocked(stream), file, path);
  struct stream *known = file ? stream_of(file, stream) : NULL;
  if (known) {
    remember(known); /* not what an earlier stream at this address has left */
    record_open(known->file, 0, !path, start_s);
  }
  return stream;
}

#define TRACED_FOPEN(name, parameters, arguments, path)                                \
  FILE *name parameters {                                                              \
    double start_s = call_start();                                                     \
    FILE *opened = REAL(name) arguments;                                               \
    if (LIKELY(!*events_path) || !opened || !(path))                                   \
      return opened;                                                                   \
    return opened_stream(opened, path_file(AT_FDCWD, path), path, start_s);            \
  }

TRACED_FOPEN(fopen, (const char *path, const char *mode), (path, mode), path)
TRACED_FOPEN(fopen64, (const char *path, const char *mode), (path, mode), path)
TRACED_FOPEN(tmpfile, (void), (), P_tmpdir)
TRACED_FOPEN(tmpfile64, (void), (), P_tmpdir)

#define TRACED_FREOPEN(name)                                                           \
  FILE *name(const char *path, const char *mode, FILE *stream) {                       \
    struct stream *before = traced_stream(stream);                                     \
    int fd = *events_path ? number_of(stream) : -1;                                    \
    if (before)                                                                        \
      forget_stream(before);                                                           \
    double start_s = call_start();                                                     \
    FILE *opened = REAL(name)(path, mode, stream);                                     \
    if (LIKELY(!*events_path) || (opened && !path))                                    \
      return opened;                                                                   \
    set_descriptor(fd, NULL); /* closed in any case */                                 \
    if (!opened)                                                                       \
      return NULL;                                                                     \
    return opened_stream(opened, path_file(AT_FDCWD, path), path, start_s);            \
  }

TRACED_FREOPEN(freopen)
TRACED_FREOPEN(freopen64)

FILE *fdopen(int fd, const char *mode) {
  double start_s = call_start();
  FILE *opened = REAL(fdopen)(fd, mode);
  if (LIKELY(!*events_path) || !opened)
    return opened;
  return opened_stream(opened, used_file(fd), NULL, start_s);
}

/* Where a stream stands in its file, -1 if it cannot be told; keeps errno. */
static off_t position(FILE *stream) {
  int saved_errno = errno;
  off_t offset = ftello(stream);
  errno = saved_errno;
  return offset;
}

/* `bytes` says how many bytes a call has moved, from its result; 0: none. */
#define TRACED_STREAM(type, name, lane, parameters, arguments, bytes)                  \
  type name parameters {                                                               \
    struct stream *known = traced_stream(stream);                                      \
    if (LIKELY(!known))                                                                \
      return REAL(name) arguments;                                                     \
    STREAM_CALL(known, start_s);                                                       \
    type result = REAL(name) arguments;                                                \
    int64_t n_bytes = (int64_t)(bytes);                                                \
    if (n_bytes > 0)                                                                   \
      record_transfer(known->file, lane, -1, n_bytes, start_s);                        \
    return result;                                                                     \
  }

/* The result does not say all bytes: part of an element, lines that hold zeros. */
#define TRACED_LOAD(type, name, parameters, arguments, bytes)                          \
  type name parameters {                                                               \
    struct stream *known = traced_stream(stream);                                      \
    if (LIKELY(!known))                                                                \
      return REAL(name) arguments;                                                     \
    STREAM_CALL(known, start_s);                                                       \
    off_t start = position(stream);                                                    \
    type result = REAL(name) arguments;                                                \
    off_t end = start < 0 ? -1 : position(stream);                                     \
    int64_t n_bytes = end < start || start < 0 ? (int64_t)(bytes) : end - start;       \
    if (n_bytes > 0)                                                                   \
      record_transfer(known->file, READ_LANE, -1, n_bytes, start_s);                   \
    return result;                                                                     \
  }

#define TRACED_FREAD(name)                                                             \
  TRACED_LOAD(size_t, name, (void *data, size_t size, size_t n, FILE *stream),         \
              (data, size, n, stream), size *result)
#define TRACED_FWRITE(name)                                                            \
  TRACED_STREAM(size_t, name, WRITE_LANE,                                              \
                (const void *data, size_t size, size_t n, FILE *stream),               \
                (data, size, n, stream), size *result)
#define TRACED_FGETC(name)                                                             \
  TRACED_STREAM(int, name, READ_LANE, (FILE * stream), (stream), result != EOF)
#define TRACED_FPUTC(name)                                                             \
  TRACED_STREAM(int, name, WRITE_LANE, (int character, FILE *stream),                  \
                (character, stream), result != EOF)
#define TRACED_FGETS(name)                                                             \
  TRACED_LOAD(char *, name, (char *text, int size, FILE *stream),                      \
              (text, size, stream), result ? strlen(result) : 0)
#define TRACED_FPUTS(name)                                                             \
  TRACED_STREAM(int, name, WRITE_LANE, (const char *text, FILE *stream),               \
                (text, stream), result != EOF ? strlen(text) : 0)
#define TRACED_GETDELIM(name)                                                          \
  TRACED_STREAM(ssize_t, name, READ_LANE,                                              \
                (char **text, size_t *size, int end, FILE *stream),                    \
                (text, size, end, stream), result)

/* What a program calls when the buffer of a stream is empty or full. */
#define TRACED_UNDERFLOW(name)                                                         \
  TRACED_STREAM(int, name, READ_LANE, (FILE * stream), (stream), result != EOF)
#define TRACED_OVERFLOW(name)                                                          \
  TRACED_STREAM(int, name, WRITE_LANE, (FILE * stream, int character),                 \
                (stream, character), result != EOF && character != EOF)

#undef fread_unlocked /* macros of libc */
#undef fwrite_unlocked
#undef getc
#undef putc
#undef fgetc_unlocked
#undef fputc_unlocked
#undef getc_unlocked
#undef putc_unlocked
#undef getchar
#undef putchar
#undef getchar_unlocked
#undef putchar_unlocked
int _IO_getc(FILE *stream);
int _IO_putc(int character, FILE *stream);
int __vfprintf_chk(FILE *stream, int flag, const char *format, va_list values);

TRACED_FREAD(fread)
TRACED_FREAD(fread_unlocked)
TRACED_FWRITE(fwrite)
TRACED_FWRITE(fwrite_unlocked)
TRACED_FGETC(fgetc)
TRACED_FGETC(getc)
TRACED_FGETC(_IO_getc)
TRACED_FGETC(fgetc_unlocked)
TRACED_FGETC(getc_unlocked)
TRACED_UNDERFLOW(__uflow)
TRACED_FPUTC(fputc)
TRACED_FPUTC(putc)
TRACED_FPUTC(_IO_putc)
TRACED_FPUTC(fputc_unlocked)
TRACED_FPUTC(putc_unlocked)
TRACED_OVERFLOW(__overflow)
TRACED_STREAM(int, getw, READ_LANE, (FILE * stream), (stream),
              feof(stream) || ferror(stream) ? 0 : sizeof result)
TRACED_STREAM(int, putw, WRITE_LANE, (int word, FILE *stream), (word, stream),
              result ? 0 : sizeof word)
TRACED_FGETS(fgets)
TRACED_FGETS(fgets_unlocked)
TRACED_FPUTS(fputs)
TRACED_FPUTS(fputs_unlocked)
TRACED_GETDELIM(getdelim)
TRACED_GETDELIM(__getdelim)
TRACED_STREAM(ssize_t, getline, READ_LANE, (char **text, size_t *size, FILE *stream),
              (text, size, stream), result)
TRACED_STREAM(int, vfprintf, WRITE_LANE,
              (FILE * stream, const char *format, va_list values),
              (stream, format, values), result)
TRACED_STREAM(int, __vfprintf_chk, WRITE_LANE,
              (FILE * stream, int flag, const char *format, va_list values),
              (stream, flag, format, values), result)

/* A function with arguments `...` as a call of the one that takes them as a list. */
#define VARIADIC(name, listed, parameters, arguments)                                  \
  int name parameters {                                                                \
    va_list values;                                                                    \
    va_start(values, format);                                                          \
    int result = listed arguments;                                                     \
    va_end(values);                                                                    \
    return result;                                                                     \
  }

VARIADIC(fprintf, vfprintf, (FILE * stream, const char *format, ...),
         (stream, format, values))
VARIADIC(__fprintf_chk, __vfprintf_chk,
         (FILE * stream, int flag, const char *format, ...),
         (stream, flag, format, values))
VARIADIC(printf, vfprintf, (const char *format, ...), (stdout, format, values))
VARIADIC(__printf_chk, __vfprintf_chk, (int flag, const char *format, ...),
         (stdout, flag, format, values))

int vprintf(const char *format, va_list values) {
  return vfprintf(stdout, format, values);
}
int __vprintf_chk(int flag, const char *format, va_list values) {
  return __vfprintf_chk(stdout, flag, format, values);
}

/* Calls on the standard streams, as calls on any. */
int getchar(void) { return getc(stdin); }
int getchar_unlocked(void) { return getc_unlocked(stdin); }
int putchar(int character) { return putc(character, stdout); }
int putchar_unlocked(int character) { return putc_unlocked(character, stdout); }

int puts(const char *text) {
  struct stream *known = traced_stream(stdout);
  if (LIKELY(!known))
    return REAL(puts)(text);
  STREAM_CALL(known, start_s);
  int result = REAL(puts)(text);
  if (result != EOF)
    record_transfer(known->file, WRITE_LANE, -1, (int64_t)strlen(text) + 1, start_s);
  return result;
}

/* C has several standards of scanf, and headers rename it: symbols are given as text.
 */
#define TRACED_SCANS(name, symbol)                                                     \
  int name##_v(FILE *stream, const char *format,                                       \
               va_list values) __asm__(symbol "vfscanf");                              \
  int name##_stdin_v(const char *format, va_list values) __asm__(symbol "vscanf");     \
  int name(FILE *stream, const char *format, ...) __asm__(symbol "fscanf");            \
  int name##_stdin(const char *format, ...) __asm__(symbol "scanf");                   \
  int name##_v(FILE *stream, const char *format, va_list values) {                     \
    struct stream *known = traced_stream(stream);                                      \
    if (LIKELY(!known))                                                                \
      return REAL_AS(name##_v, symbol "vfscanf")(stream, format, values);              \
    STREAM_CALL(known, start_s);                                                       \
    off_t start = position(stream);                                                    \
    int result = REAL_AS(name##_v, symbol "vfscanf")(stream, format, values);          \
    off_t end = position(stream);                                                      \
    if (start >= 0 && end > start)                                                     \
      record_transfer(known->file, READ_LANE, -1, end - start, start_s);               \
    return result;                                                                     \
  }                                                                                    \
  int name##_stdin_v(const char *format, va_list values) {                             \
    return name##_v(stdin, format, values);                                            \
  }                                                                                    \
  VARIADIC(name, name##_v, (FILE * stream, const char *format, ...),                   \
           (stream, format, values))                                                   \
  VARIADIC(name##_stdin, name##_v, (const char *format, ...), (stdin, format, values))

TRACED_SCANS(scan_gnu, "")
TRACED_SCANS(scan_c99, "__isoc99_")
TRACED_SCANS(scan_c23, "__isoc23_")

size_t __fread_chk(void *data, size_t buffer_size, size_t size, size_t n,
                   FILE *stream) {
  size_t bytes;
  check_buffer(__builtin_mul_overflow(size, n, &bytes) ? SIZE_MAX : bytes, buffer_size);
  return fread(data, size, n, stream);
}

size_t __fread_unlocked_chk(void *data, size_t buffer_size, size_t size, size_t n,
                            FILE *stream) {
  size_t bytes;
  check_buffer(__builtin_mul_overflow(size, n, &bytes) ? SIZE_MAX : bytes, buffer_size);
  return fread_unlocked(data, size, n, stream);
}

char *__fgets_chk(char *text, size_t buffer_size, int size, FILE *stream) {
  check_buffer(size < 0 ? 0 : (size_t)size, buffer_size);
  return fgets(text, size, stream);
}

char *__fgets_unlocked_chk(char *text, size_t buffer_size, int size, FILE *stream) {
  check_buffer(size < 0 ? 0 : (size_t)size, buffer_size);
  return fgets_unlocked(text, size, stream);
}

#define TRACED_SEEK_STREAM(type, name, parameters, arguments)                          \
  type name parameters {                                                               \
    struct stream *known = traced_stream(stream);                                      \
    if (LIKELY(!known))                                                                \
      return REAL(name) arguments;                                                     \
    STREAM_CALL(known, start_s);                                                       \
    type result = REAL(name) arguments;                                                \
    if (result == 0)                                                                   \
      record_seek(known->file, ftello(stream), start_s);                               \
    return result;                                                                     \
  }

TRACED_SEEK_STREAM(int, fseek, (FILE * stream, long offset, int whence),
                   (stream, offset, whence))
TRACED_SEEK_STREAM(int, fseeko, (FILE * stream, off_t offset, int whence),
                   (stream, offset, whence))
TRACED_SEEK_STREAM(int, fseeko64, (FILE * stream, off64_t offset, int whence),
                   (stream, offset, whence))
TRACED_SEEK_STREAM(int, fsetpos, (FILE * stream, const fpos_t *position),
                   (stream, position))
TRACED_SEEK_STREAM(int, fsetpos64, (FILE * stream, const fpos64_t *position),
                   (stream, position))

void rewind(FILE *stream) {
  struct stream *known = traced_stream(stream);
  if (LIKELY(!known)) {
    REAL(rewind)(stream);
    return;
  }
  STREAM_CALL(known, start_s);
  REAL(rewind)(stream);
  record_seek(known->file, 0, start_s);
}

/*
 * Counts what the program has written by putc into a buffer that libc will flush. Of
 * the standard streams only: others may be gone, if their descriptors were closed
 * first.
 */
void count_standard_streams(void) {
  FILE *const standard[] = {stdin, stdout, stderr};
  for (int i = 0; i < 3; i++) {
    if (!standard[i] || ftrylockfile(standard[i]) != 0) /* one waits for input */
      continue;
    struct stream *known = traced_stream(standard[i]);
    if (known) {
      count_moved(known);
      remember(known);
    }
    funlockfile(standard[i]);
  }
}

#define TRACED_FFLUSH(name)                                                            \
  int name(FILE *stream) {                                                             \
    struct stream *known = traced_stream(stream);                                      \
    if (!stream && *events_path)                                                       \
      count_standard_streams();                                                        \
    if (LIKELY(!known)) {                                                              \
      int status = REAL(name)(stream);                                                 \
      if (!stream && *events_path) /* whose buffers are empty now */                   \
        count_standard_streams();                                                      \
      return status;                                                                   \
    }                                                                                  \
    STREAM_CALL(known, start_s);                                                       \
    int status = REAL(name)(stream);                                                   \
    if (status == 0)                                                                   \
      record_flush(known->file, FSYNCS, start_s);                                      \
    return status;                                                                     \
  }

TRACED_FFLUSH(fflush)
TRACED_FFLUSH(fflush_unlocked)

int fclose(FILE *stream) {
  struct stream *known = traced_stream(stream);
  struct file *file = known ? known->file : NULL;
  if (known)
    forget_stream(known);
  if (!set_descriptor(number_of(stream), NULL) || LIKELY(!file))
    return REAL(fclose)(stream);
  double start_s = now_s();
  int status = REAL(fclose)(stream);
  record_close(file, start_s);
  return status;
}
