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
#include <sched.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>
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

static poll_function *poll_of_provider;
static __thread int empty_looks;
static __thread long slept_ns;

static int poll_and_yield(struct queue *queue, int number, void *completions)
{
	int found = poll_of_provider(queue, number, completions);

	if (found) {
		empty_looks = slept_ns = 0;
	} else if (empty_looks < QUICK_LOOKS) {
		empty_looks++;
		sched_yield();
	} else {
		long ns = slept_ns / PART;

		ns = ns < SHORTEST_NS ? SHORTEST_NS : ns > LONGEST_NS ? LONGEST_NS : ns;
		nanosleep(&(struct timespec) { .tv_nsec = ns }, NULL);
		slept_ns += ns;
	}
	return found;
}

EXPORTED struct context *ibv_open_device(void *device)
{
	struct context *(*open_device)(void *) = dlvsym(RTLD_NEXT, "ibv_open_device", "IBVERBS_1.1");
	struct context *context = open_device ? open_device(device) : NULL;

	/* The lab has one kind of device, so one function */
	if (context && (!poll_of_provider || poll_of_provider == context->poll)) {
		poll_of_provider = context->poll;
		context->poll = poll_and_yield;
	}
	return context;
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
