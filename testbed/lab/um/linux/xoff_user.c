// SPDX-License-Identifier: GPL-2.0
/*
 * The host's side of xoff_kern.c: file descriptors that the front end opened,
 * and the seccomp filter that leaves this process nothing else.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <os.h>
#include "xoff.h"

/* The descriptor that an environment variable names; -1 without one. */
int xoff_descriptor(const char *name)
{
	const char *value = getenv(name);

	return value ? atoi(value) : -1;
}

void *xoff_map(int fd, unsigned long long *size)
{
	struct stat status;
	void *mapped;

	if (fstat(fd, &status) || status.st_size <= 0)
		return NULL;
	mapped = mmap(NULL, status.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (mapped == MAP_FAILED)
		return NULL;
	*size = status.st_size;
	return mapped;
}

int xoff_write_all(int fd, const char *data, int length)
{
	int done = 0;

	while (done < length) {
		ssize_t n = write(fd, data + done, length - done);

		if (n > 0)
			done += n;
		else if (n < 0 && errno != EINTR)
			return -errno;
	}
	return done;
}

/* Read what is there; with @wait, let the lab's time stand still until there is something. */
int xoff_read(int fd, char *data, int length, int wait)
{
	ssize_t n;

	if (wait)
		os_poll(1, &fd);
	do {
		n = read(fd, data, length);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

int xoff_set_nonblocking(int fd)
{
	return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

#define ALLOW(number) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), \
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/*
 * What UML needs of its host from here on. Nothing opens a file or makes a connection, and the one
 * program that can be executed is the stub, whose descriptor is open. kill() is here because UML ends
 * the processes of its own with it.
 */
int xoff_seal(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(__NR_futex),
		ALLOW(__NR_mmap),
		ALLOW(__NR_munmap),
		ALLOW(__NR_mprotect),
		ALLOW(__NR_madvise),
		ALLOW(__NR_fallocate),
		ALLOW(__NR_brk),
		ALLOW(__NR_read),
		ALLOW(__NR_write),
		ALLOW(__NR_writev),
		ALLOW(__NR_close),
		ALLOW(__NR_close_range),
		ALLOW(__NR_dup2),
		ALLOW(__NR_dup3),
		ALLOW(__NR_fcntl),
		ALLOW(__NR_poll),
		ALLOW(__NR_ppoll),
		ALLOW(__NR_epoll_wait),
		ALLOW(__NR_epoll_pwait),
		ALLOW(__NR_epoll_ctl),
		ALLOW(__NR_signalfd4),
		ALLOW(__NR_socketpair),
		ALLOW(__NR_sendmsg),
		ALLOW(__NR_recvmsg),
		ALLOW(__NR_clone),
		ALLOW(__NR_execveat),
		ALLOW(__NR_wait4),
		ALLOW(__NR_waitid),
		ALLOW(__NR_kill),
		ALLOW(__NR_tgkill),
		ALLOW(__NR_sched_setaffinity),
		ALLOW(__NR_getpid),
		ALLOW(__NR_gettid),
		ALLOW(__NR_rt_sigaction),
		ALLOW(__NR_rt_sigprocmask),
		ALLOW(__NR_rt_sigreturn),
		ALLOW(__NR_sigaltstack),
		ALLOW(__NR_nanosleep),
		ALLOW(__NR_clock_nanosleep),
		ALLOW(__NR_clock_gettime),
		ALLOW(__NR_timer_settime),
		ALLOW(__NR_timer_delete),
		ALLOW(__NR_prctl),
		ALLOW(__NR_arch_prctl),
		ALLOW(__NR_seccomp),
		ALLOW(__NR_set_robust_list),
		ALLOW(__NR_rseq),
		ALLOW(__NR_exit),
		ALLOW(__NR_exit_group),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	};
	struct sock_fprog program = {
		.len = sizeof(filter) / sizeof(filter[0]),
		.filter = filter,
	};

	/* As for the processes of the lab: switching between processes that differ in this takes the host long */
	if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0))
		return -errno;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	if (syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
		return -errno;
	return 0;
}
