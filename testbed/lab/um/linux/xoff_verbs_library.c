// SPDX-License-Identifier: GPL-2.0
/*
 * A library for programs of the lab that use verbs, loaded by LD_PRELOAD: one that asks an empty completion queue
 * again and again gives the CPU away in between.
 *
 * A completion queue is memory that the program shares with the kernel, so looking at it is no system call, and
 * the CPU's work takes no time in the lab: without this the lab's clock would stand still, and what the program
 * waits for would never come.
 *
 * ibv_poll_cq() is an inline function of the program that calls a pointer in its context. So the places of the two
 * structures below, from <infiniband/verbs.h>, are part of every compiled program and cannot change. The pointer
 * is replaced when a device is opened.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>

#define EXPORTED __attribute__((visibility("default")))

struct context;

struct queue {
	struct context *context;
};

typedef int poll_function(struct queue *queue, int number, void *completions);

struct context {
	void *device;
	void *others[11];
	poll_function *poll;
};

_Static_assert(offsetof(struct context, poll) == 96, "the place of ops.poll_cq in struct ibv_context");

/* So often the lab's time goes on by no more than a system call */
#define QUICK_LOOKS 20
/* Then the program sleeps, for a part of what it has slept so far, so that the error of a latency is relative */
#define PART 32
#define SHORTEST_NS 1000
#define LONGEST_NS 100000
#define CLOCK_NS 10000

#define PAGE 4096
#define PAGES(size) (((size) + PAGE - 1) / PAGE * PAGE)
/* IBV_ACCESS_REMOTE_WRITE, and the bit of a page fault that says that it was a write */
#define REMOTE_WRITE 2
#define WRITES 2

static poll_function *poll_of_provider;
static __thread int empty_looks;
static __thread long slept_ns;

static bool give_the_cpu_away(void)
{
	long ns = slept_ns / PART;

	if (empty_looks < QUICK_LOOKS) {
		empty_looks++;
		return !sched_yield();
	}
	ns = ns < SHORTEST_NS ? SHORTEST_NS : ns > LONGEST_NS ? LONGEST_NS : ns;
	slept_ns += ns;
	return !nanosleep(&(struct timespec) { .tv_nsec = ns }, NULL);
}

/* Memory that a program waits at for a write of its peer, and what it has seen there */
static char *watched, *seen;
static size_t watched_size;

static void watch(void)
{
	if (watched)
		mprotect(watched, watched_size, PROT_NONE);
}

static int poll_and_yield(struct queue *queue, int number, void *completions)
{
	int found = poll_of_provider(queue, number, completions);

	if (found) {
		empty_looks = slept_ns = 0;
		watch();
	} else {
		give_the_cpu_away();
	}
	return found;
}

/* The program has touched what is watched. If it has read what it has seen already, it waits here; a signal ends that */
static void touched(int signal, siginfo_t *info, void *context)
{
	volatile char *at = info->si_addr;
	size_t place = (char *)at - watched;

	if (place >= PAGES(watched_size)) {
		sigaction(signal, &(struct sigaction) { .sa_handler = SIG_DFL }, NULL);
		return;
	}
	mprotect(watched, watched_size, PROT_READ | PROT_WRITE);
	if (place >= watched_size || ((ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & WRITES)
		return;
	while (*at == seen[place] && give_the_cpu_away())
		;
	empty_looks = slept_ns = 0;
	seen[place] = *at;
}

/* What libibverbs has by that name, also where a program loads it as a part of a plug-in, as UCX does */
static void *of_verbs(const char *name, const char *version)
{
	void *found = dlvsym(RTLD_NEXT, name, version);

	if (!found) {
		void *verbs = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);

		if (verbs)
			found = dlvsym(verbs, name, version);
	}
	return found;
}

EXPORTED struct context *ibv_open_device(void *device)
{
	struct context *(*open_device)(void *) = of_verbs("ibv_open_device", "IBVERBS_1.1");
	struct context *context = open_device ? open_device(device) : NULL;

	/* A host has one kind of device, so a program has one function */
	if (context && (!poll_of_provider || poll_of_provider == context->poll)) {
		poll_of_provider = context->poll;
		context->poll = poll_and_yield;
	}
	return context;
}

/*
 * ib_write_lat waits for the other end by reading the last octet of its buffer again and again. So its first buffer is
 * closed to it when it is connected and after each completion, and what it does next there is seen. Other programs wait for completions.
 */
EXPORTED void *ibv_reg_mr_iova2(void *domain, void *begin, size_t size, uint64_t iova, unsigned int access)
{
	void *(*register_memory)(void *, void *, size_t, uint64_t, unsigned int) = of_verbs("ibv_reg_mr_iova2", "IBVERBS_1.8");
	void *region = register_memory ? register_memory(domain, begin, size, iova, access) : NULL;

	if (region && !watched && access & REMOTE_WRITE && !strcmp(program_invocation_short_name, "ib_write_lat") &&
	    !((uintptr_t)begin % PAGE)) {
		seen = malloc(size);
		memcpy(seen, begin, size);
		sigaction(SIGSEGV, &(struct sigaction) { .sa_sigaction = touched, .sa_flags = SA_SIGINFO }, NULL);
		watched_size = size;
		watched = begin;
	}
	return region;
}

/* Between its registration and this, perftest fills the buffer */
EXPORTED int ibv_modify_qp(void *queue_pair, void *attributes, int mask)
{
	int (*modify)(void *, void *, int) = of_verbs("ibv_modify_qp", "IBVERBS_1.1");
	int error = modify ? modify(queue_pair, attributes, mask) : ENOSYS;

	watch();
	return error;
}

/*
 * Who waits for a lock so that another thread of the program holds, waits for a thread that has given the CPU away above
 */
EXPORTED int pthread_spin_lock(pthread_spinlock_t *lock)
{
	while (pthread_spin_trylock(lock))
		sched_yield();
	return 0;
}

/*
 * perftest measures the frequency of the time stamp counter by this clock, in a busy loop that takes 220 ms, and at
 * both ends at once. Who sleeps in between needs fewer system calls, and does not lose the CPU between the two clocks.
 */
EXPORTED int gettimeofday(struct timeval *time, void *zone)
{
	if (poll_of_provider)
		nanosleep(&(struct timespec) { .tv_nsec = CLOCK_NS }, NULL);
	return syscall(SYS_gettimeofday, time, zone);
}
