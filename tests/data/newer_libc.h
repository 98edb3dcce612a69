/* What the headers of glibc 2.38 and later say of streams: they are not NULL. */
#define _GNU_SOURCE
#include <stdio.h>

#define STREAM_IS(place) __attribute__((nonnull(place)))

int fclose(FILE *) STREAM_IS(1);
FILE *freopen(const char *, const char *, FILE *) STREAM_IS(3);
FILE *freopen64(const char *, const char *, FILE *) STREAM_IS(3);
size_t fread(void *, size_t, size_t, FILE *) STREAM_IS(4);
size_t fread_unlocked(void *, size_t, size_t, FILE *) STREAM_IS(4);
size_t fwrite(const void *, size_t, size_t, FILE *) STREAM_IS(4);
size_t fwrite_unlocked(const void *, size_t, size_t, FILE *) STREAM_IS(4);
int fgetc(FILE *) STREAM_IS(1);
int fgetc_unlocked(FILE *) STREAM_IS(1);
int fputc(int, FILE *) STREAM_IS(2);
int fputc_unlocked(int, FILE *) STREAM_IS(2);
int getw(FILE *) STREAM_IS(1);
int putw(int, FILE *) STREAM_IS(2);
char *fgets(char *, int, FILE *) STREAM_IS(3);
char *fgets_unlocked(char *, int, FILE *) STREAM_IS(3);
int fputs(const char *, FILE *) STREAM_IS(2);
int fputs_unlocked(const char *, FILE *) STREAM_IS(2);
__ssize_t getdelim(char **, size_t *, int, FILE *) STREAM_IS(4);
__ssize_t getline(char **, size_t *, FILE *) STREAM_IS(3);
int vfprintf(FILE *, const char *, __gnuc_va_list) STREAM_IS(1);
int fprintf(FILE *, const char *, ...) STREAM_IS(1);
int vfscanf(FILE *, const char *, __gnuc_va_list) STREAM_IS(1);
int fscanf(FILE *, const char *, ...) STREAM_IS(1);
int ungetc(int, FILE *) STREAM_IS(2);
int fseek(FILE *, long, int) STREAM_IS(1);
int fseeko(FILE *, __off_t, int) STREAM_IS(1);
int fseeko64(FILE *, __off64_t, int) STREAM_IS(1);
void rewind(FILE *) STREAM_IS(1);
int fsetpos(FILE *, const fpos_t *) STREAM_IS(1);
int fsetpos64(FILE *, const fpos64_t *) STREAM_IS(1);
int setvbuf(FILE *, char *, int, size_t) STREAM_IS(1);
int fileno(FILE *) STREAM_IS(1);
int fileno_unlocked(FILE *) STREAM_IS(1);
int pclose(FILE *) STREAM_IS(1);
void flockfile(FILE *) STREAM_IS(1);
void funlockfile(FILE *) STREAM_IS(1);
