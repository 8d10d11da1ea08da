// SPDX-License-Identifier: GPL-2.0
/*
 * What the lab's kernel gives up of its host before it boots, so that whoever gains control of it in spite of
 * all finds nothing: a privileged user's rights, and the host's processes, mounts, network and names.
 * xoff_seal() in drivers/xoff_user.c does the rest when the root is mounted.
 *
 * A host may refuse any of this (namespaces are often forbidden to ordinary users, or in containers). The
 * lab runs then with what is left, and says so in the first line of its console.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <init.h>
#include <os.h>
#include <xoff_landlock.h>
#include "internal.h"

/* The user that owns nothing, on every Linux */
#define NOBODY 65534

#define NAMESPACES (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)

static pid_t confined;

static void end_with_parent(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* It may have ended before */
	if (getppid() != parent)
		_exit(1);
}

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		err = -errno;
	close(fd);
	return err;
}

/* Become a user without rights. A privileged one would keep them in its own user namespace's parent. */
static int drop_privileges(void)
{
	if (geteuid() != 0)
		return 0;
	if (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY))
		return -errno;
	/* Otherwise /proc/self is root's, and the maps of the namespace cannot be written */
	prctl(PR_SET_DUMPABLE, 1);
	return 0;
}

static int enter_namespaces(void)
{
	unsigned int uid = geteuid(), gid = getegid();
	char map[32];

	if (unshare(NAMESPACES))
		return -errno;
	write_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "%u %u 1", uid, uid);
	write_file("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "%u %u 1", gid, gid);
	write_file("/proc/self/gid_map", map);
	return 0;
}

static void end_confined(int sig)
{
	/* Process 1 of its namespace: nothing in there outlives it */
	kill(confined, SIGKILL);
}

/* Wait for the process in the namespaces, and end as it does. */
static void __attribute__((noreturn)) guard(int held)
{
	struct sigaction action = { .sa_handler = end_confined };
	int status;

	prctl(PR_SET_NAME, "xoff-guard");
	sigaction(SIGTERM, &action, NULL);
	/* The console and what else we were given is the lab's alone */
	dup2(held, 0);
	syscall(__NR_close_range, 1, ~0U, 0);
	while (waitpid(confined, &status, 0) != confined)
		;
	if (WIFSIGNALED(status)) {
		signal(WTERMSIG(status), SIG_DFL);
		kill(getpid(), WTERMSIG(status));
	}
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128);
}

/* Go on as process 1 of the namespace, with this process as its guard. */
static void become_first(void)
{
	int held[2];

	if (pipe2(held, O_CLOEXEC) || (confined = fork()) < 0) {
		perror("the lab's kernel cannot start");
		exit(1);
	}
	if (confined)
		guard(held[1]);
	/* The guard's number means nothing in here; it may have ended before, and its end of the pipe with it */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(held[1]);
	if (poll(&(struct pollfd) { .fd = held[0] }, 1, 0))
		_exit(1);
	close(held[0]);
	/* It was executed by way of /proc/self/exe */
	prctl(PR_SET_NAME, "linux");
}

void xoff_confine(void)
{
	struct rlimit limit = { };
	pid_t parent = getppid();
	int privileges, namespaces;

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	setrlimit(RLIMIT_CORE, &limit);
	/* A descriptor for each process of the lab */
	if (!getrlimit(RLIMIT_NOFILE, &limit)) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	privileges = drop_privileges();
	/* A change of the user has cleared it */
	end_with_parent(parent);
	namespaces = enter_namespaces();
	if (privileges)
		fprintf(stderr, "confined: still a privileged user: %s\n", strerror(-privileges));
	else
		fprintf(stderr, "confined: user %u\n", geteuid());
	if (namespaces)
		fprintf(stderr, "confined: without namespaces: %s\n", strerror(-namespaces));
	else
		fprintf(stderr, "confined: namespaces\n");
	fflush(stderr);
	if (!namespaces)
		become_first();
	/* Before there are stubs, so that they are inside; the guard is not */
	fprintf(stderr, "confined: Landlock of signals, version %d\n", xoff_landlock(XOFF_SCOPES));
	fflush(stderr);
}
