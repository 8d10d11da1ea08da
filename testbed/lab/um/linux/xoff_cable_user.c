// SPDX-License-Identifier: GPL-2.0
/* The host's side of xoff_cable_kern.c: memory that several kernels share, and waiting for each other in it. */
#include <limits.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include "xoff_cable.h"

enum { FREE, HELD, WANTED };

#define LOCK_LOOKS 1000	/* before one sleeps: a part holds the lock for a microsecond, and wakes others within it */

/* Map the memory of a descriptor, which no process that this one starts shall have: the last call closes it. */
void *xoff_cable_map(int fd, unsigned long size, int closes)
{
	struct stat status;
	void *mapped;

	if (fstat(fd, &status) || status.st_size < size)
		return NULL;
	mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (closes)
		close(fd);
	return mapped == MAP_FAILED ? NULL : mapped;
}

void xoff_cable_lock(unsigned int *word)
{
	unsigned int found, looks;

	for (looks = 0; looks < LOCK_LOOKS; looks++) {
		found = FREE;
		if (__atomic_load_n(word, __ATOMIC_RELAXED) == FREE &&
		    __atomic_compare_exchange_n(word, &found, HELD, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return;
		__builtin_ia32_pause();
	}
	while (__atomic_exchange_n(word, WANTED, __ATOMIC_ACQUIRE) != FREE)
		syscall(__NR_futex, word, FUTEX_WAIT, WANTED, NULL, NULL, 0);
}

void xoff_cable_unlock(unsigned int *word)
{
	if (__atomic_exchange_n(word, FREE, __ATOMIC_RELEASE) == WANTED)
		syscall(__NR_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Wait until the bell of this part is rung, which it may have been since @seen was read */
void xoff_cable_sleep(struct xc_part *part, unsigned int seen, unsigned int patience)
{
	while (patience--) {
		if (__atomic_load_n(&part->bell, __ATOMIC_ACQUIRE) != seen)
			return;
		__builtin_ia32_pause();
	}
	__atomic_store_n(&part->sleeps, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&part->bell, __ATOMIC_SEQ_CST) == seen)
		syscall(__NR_futex, &part->bell, FUTEX_WAIT, seen, NULL, NULL, 0);
	__atomic_store_n(&part->sleeps, 0, __ATOMIC_SEQ_CST);
}

void xoff_cable_ring(struct xc_part *part)
{
	__atomic_fetch_add(&part->bell, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&part->sleeps, __ATOMIC_SEQ_CST))
		syscall(__NR_futex, &part->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* The CPU time that this kernel has taken from the host, without its processes' */
unsigned long long xoff_cable_cpu_ns(void)
{
	struct timespec now;

	syscall(__NR_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}
