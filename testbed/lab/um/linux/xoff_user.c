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
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <os.h>
#include <xoff_landlock.h>
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

#define LOAD(member) \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define RETURN(action) \
	BPF_STMT(BPF_RET | BPF_K, (action))
/* Go on if what is loaded equals @value, otherwise behind the next @length instructions */
#define IF_EQUAL(value, length) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (length))
#define ALLOW(number) \
	IF_EQUAL((number), 1), \
	RETURN(SECCOMP_RET_ALLOW)
#define REFUSE \
	RETURN(SECCOMP_RET_ERRNO | EPERM)
/* Allow it with the argument @n being @value; or one of two */
#define ALLOW_WITH(number, n, value) \
	IF_EQUAL((number), 4), \
	LOAD(args[n]), \
	IF_EQUAL((value), 1), \
	RETURN(SECCOMP_RET_ALLOW), \
	REFUSE
#define ALLOW_WITH_EITHER(number, n, value, other) \
	IF_EQUAL((number), 6), \
	LOAD(args[n]), \
	IF_EQUAL((value), 1), \
	RETURN(SECCOMP_RET_ALLOW), \
	IF_EQUAL((other), 1), \
	RETURN(SECCOMP_RET_ALLOW), \
	REFUSE
/* Allow it without any of @bits in the argument @n */
#define ALLOW_WITHOUT(number, n, bits) \
	IF_EQUAL((number), 4), \
	LOAD(args[n]), \
	BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), 1, 0), \
	RETURN(SECCOMP_RET_ALLOW), \
	REFUSE

/* Leave an empty folder of this process and the stubs' as all that there is to find by a path. */
static int empty_root(void)
{
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4k,nr_inodes=2,mode=0") ||
	    chdir("/tmp") ||
	    syscall(__NR_pivot_root, ".", ".") ||
	    umount2(".", MNT_DETACH) ||
	    chdir("/") ||
	    mount("none", "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
		return -errno;
	return 0;
}

static int drop_capabilities(void)
{
	struct { unsigned int version; int pid; } head = { 0x20080522 };
	struct { unsigned int effective, permitted, inheritable; } none[2] = { };

	return syscall(__NR_capset, &head, none) ? -errno : 0;
}

/*
 * The host ends this process if it makes a file larger than it may: the console, or what it writes of the job. Its memory
 * has been written to for the last time that way.
 */
static int bound_files(void)
{
	const char *largest = getenv("XOFF_LARGEST");
	struct rlimit limit;

	if (!largest)
		return 0;
	limit.rlim_cur = limit.rlim_max = strtoull(largest, NULL, 10);
	return setrlimit(RLIMIT_FSIZE, &limit) ? -errno : 0;
}

/*
 * What UML needs of its host from here on. It opens no file, makes no connection, no process and no more
 * memory, and executes nothing: the process that makes stubs has been started. Of other processes it reaches
 * those that it has a descriptor of, which are its stubs. Signals by way of a file (F_SETOWN, O_ASYNC)
 * were set up before. The programs of processes are in memory that it has: MAP_ANONYMOUS would be more.
 */
static int forbid_the_rest(void)
{
	struct sock_filter filter[] = {
		LOAD(arch),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
		RETURN(SECCOMP_RET_KILL_PROCESS),
		LOAD(nr),
		ALLOW(__NR_futex),
		ALLOW_WITHOUT(__NR_mmap, 3, MAP_ANONYMOUS),
		ALLOW(__NR_munmap),
		ALLOW(__NR_mprotect),
		ALLOW(__NR_madvise),
		ALLOW(__NR_read),
		ALLOW(__NR_write),
		ALLOW(__NR_writev),
		ALLOW(__NR_close),
		ALLOW_WITH(__NR_fcntl, 1, F_GETFL),
		ALLOW(__NR_poll),
		ALLOW(__NR_ppoll),
		ALLOW(__NR_epoll_wait),
		ALLOW(__NR_epoll_pwait),
		ALLOW(__NR_epoll_ctl),
		/* Of signals to itself, when it is idle for the first time */
		ALLOW(__NR_signalfd4),
		ALLOW(__NR_recvmsg),
		ALLOW_WITH_EITHER(__NR_ioctl, 1, SECCOMP_IOCTL_NOTIF_RECV, SECCOMP_IOCTL_NOTIF_SEND),
		ALLOW(__NR_wait4),
		ALLOW_WITH(__NR_pidfd_send_signal, 1, SIGKILL),
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
		/* After a stop of the whole process, by a debugger or to freeze a container */
		ALLOW(__NR_restart_syscall),
		ALLOW(__NR_exit),
		ALLOW(__NR_exit_group),
		REFUSE,
	};
	struct sock_fprog program = {
		.len = sizeof(filter) / sizeof(filter[0]),
		.filter = filter,
	};

	return syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) ? -errno : 0;
}

static void tell(const char *what, int value)
{
	char line[80];

	snprintf(line, sizeof(line), "confined: %s%d\n", what, value);
	xoff_write_all(STDERR_FILENO, line, strlen(line));
}

/*
 * Lock this process in, when it has booted and before there is a job. What the host has no part of is missing,
 * and said; without the filter of system calls there is no lab. See os-Linux/xoff_confine.c for what came before.
 */
int xoff_seal(void)
{
	int err = bound_files();

	if (err)
		return err;
	/* As for the processes of the lab: switching between processes that differ in this takes the host long */
	if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0))
		return -errno;
	tell("empty root, error ", empty_root());
	drop_capabilities();
	/* No process of the same user, not even one outside of the namespaces, looks into this one */
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	tell("Landlock of files, version ", xoff_landlock(XOFF_PATHS));
	return forbid_the_rest();
}
