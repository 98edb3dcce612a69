/*
 * Opens the files of its arguments where the kernel kills it for any other system call
 * than an open, and says how many it has opened.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ALLOW(number)                                                                  \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),                                   \
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

int main(int argc, char **argv) {
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      ALLOW(SYS_openat),
      ALLOW(SYS_clock_gettime), /* where the kernel gives no faster way */
      ALLOW(SYS_write),
      ALLOW(SYS_exit_group),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL),
  };
  struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
  char count[] = "0\n";
  close(open(argv[1], O_RDONLY)); /* finds the functions behind */
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    return 3;
  for (int i = 1; i < argc; i++)
    count[0] += open(argv[i], O_RDONLY) >= 0;
  write(STDOUT_FILENO, count, 2);
  syscall(SYS_exit_group, 0);
}
