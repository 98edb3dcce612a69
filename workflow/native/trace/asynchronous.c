/* Wrappers of asynchronous reads and writes. */
#include "trace.h"

#include <aio.h>
#include <errno.h>
#include <string.h>

/* Calls that are under way; like Darshan, we count them when their result is fetched.
 */
struct pending {
  const void *block; /* NULL: free */
  struct file *file;
  double start_s;
  enum lane lane;
};

static struct {
  pthread_mutex_t lock;
  struct pending calls[1024];
} asynchronous = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void note_pending(const void *block, int fd, enum lane lane, double start_s) {
  enum { N_CALLS = sizeof asynchronous.calls / sizeof *asynchronous.calls };
  struct file *file = descriptor_file(fd);
  if (!file || file->has_no_record || !become_busy()) /* no thread waits for it */
    return;
  int i = 0;
  pthread_mutex_lock(&asynchronous.lock);
  while (i < N_CALLS && asynchronous.calls[i].block)
    i++;
  if (i < N_CALLS)
    asynchronous.calls[i] = (struct pending){block, file, start_s, lane};
  pthread_mutex_unlock(&asynchronous.lock);
  become_free();
  if (i == N_CALLS)
    note_loss(ENOBUFS);
}

static struct pending take_pending(const void *block) {
  struct pending found = {0};
  if (!become_busy())
    return found;
  pthread_mutex_lock(&asynchronous.lock);
  for (size_t i = 0; i < sizeof asynchronous.calls / sizeof found; i++)
    if (asynchronous.calls[i].block == block) {
      found = asynchronous.calls[i];
      asynchronous.calls[i].block = NULL;
      break;
    }
  pthread_mutex_unlock(&asynchronous.lock);
  become_free();
  return found;
}

static enum lane lane_of(int operation) {
  return operation == LIO_READ ? READ_LANE : WRITE_LANE;
}

#define TRACED_AIO(name, block_type, lane)                                             \
  int name(block_type *block) {                                                        \
    double start_s = call_start();                                                     \
    int status = REAL(name)(block);                                                    \
    if (status == 0)                                                                   \
      note_pending(block, block->aio_fildes, lane, start_s);                           \
    return status;                                                                     \
  }
#define TRACED_AIO_RETURN(name, block_type)                                            \
  ssize_t name(block_type *block) {                                                    \
    int64_t offset = block->aio_offset;                                                \
    struct pending call = take_pending(block);                                         \
    ssize_t bytes = REAL(name)(block);                                                 \
    if (call.block)                                                                    \
      record_transfer(call.file, call.lane, offset, bytes, call.start_s);              \
    return bytes;                                                                      \
  }
#define TRACED_LIO(name, block_type)                                                   \
  int name(int mode, block_type *const blocks[], int n, struct sigevent *event) {      \
    double start_s = call_start();                                                     \
    for (int i = 0; i < n; i++)                                                        \
      if (blocks[i] && blocks[i]->aio_lio_opcode != LIO_NOP)                           \
        note_pending(blocks[i], blocks[i]->aio_fildes,                                 \
                     lane_of(blocks[i]->aio_lio_opcode), start_s);                     \
    return REAL(name)(mode, blocks, n, event);                                         \
  }
#define TRACED_ASYNCHRONOUS(suffix)                                                    \
  TRACED_AIO(aio_read##suffix, struct aiocb##suffix, READ_LANE)                        \
  TRACED_AIO(aio_write##suffix, struct aiocb##suffix, WRITE_LANE)                      \
  TRACED_AIO_RETURN(aio_return##suffix, struct aiocb##suffix)                          \
  TRACED_LIO(lio_listio##suffix, struct aiocb##suffix)

TRACED_ASYNCHRONOUS()
TRACED_ASYNCHRONOUS(64)

/* In a child: a thread that it does not have may have held the lock. */
void forget_asynchronous_locks(void) { pthread_mutex_init(&asynchronous.lock, NULL); }
