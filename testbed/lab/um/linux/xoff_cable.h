/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The memory that the kernels of one partitioned network share, as testbed/lab/partition/memory.py makes it, and the
 * host's side of waiting in it. It is all zeros at first, but for what is said to be the front end's.
 */
#ifndef __XOFF_CABLE_H
#define __XOFF_CABLE_H

#define XC_PARTS	16
#define XC_CABLES	1024
#define XC_RING		(1 << 20)	/* octets under way from one part to another since the receiver last looked */
#define XC_BOX		(1 << 18)	/* octets that a part gives to all others at a time */
#define XC_FRAME	16384
#define XC_NEVER	0x7fffffffffffffffULL

enum { XC_OUT, XC_JOINING, XC_RUNS, XC_WAITS };

/* All but `bell` and `sleeps` changes under the lock only. Odd and even generations, or numbers, have a place each. */
struct xc_part {
	unsigned int bell, sleeps;	/* rung when there may be something to do for a part that waits */
	unsigned int state, generation;
	unsigned long long table[2];	/* digest of the cables that it joined with */
	unsigned long long base;	/* when it runs: it does nothing before this moment */
	unsigned long long next;	/* when it waits: its next event */
	unsigned long long frames;	/* the first arrival of a frame that it has not taken yet */
	unsigned long long left[2];	/* when it left */
	unsigned long long given, given_at[2];
	unsigned int given_octets[2];
	unsigned int waits_for_all;	/* what it has given was not the last of them, or it has not come yet */
	char pad[256 - 108];
};

struct xc_memory {
	unsigned int parts;		/* the front end's */
	unsigned int patience;		/* the front end's: looks at a bell before one sleeps */
	unsigned int lock;
	char pad[4096 - 12];
	struct xc_part part[XC_PARTS];
};

/* From one part to another. Frames up to `visible` may be taken; the part that sends moves it under the lock. */
struct xc_ring {
	unsigned long long head;
	char pad1[120];
	unsigned long long tail;
	char pad2[120];
	unsigned long long visible;
	unsigned int wants_room;
	char pad3[4096 - 268];
	unsigned char octets[XC_RING];
};

/* What a frame has before its octets in a ring; all of it is a multiple of eight octets */
struct xc_head {
	unsigned long long arrival;
	unsigned int cable, generation;
	unsigned int length;
	unsigned short is_partial, csum_start, csum_offset, unused;
	unsigned int unused2;
};

/* Behind the memory's head: a ring for each ordered pair of parts, then two boxes of each part */
#define XC_RINGS_AT	(sizeof(struct xc_memory))
#define XC_SIZE(parts)	(XC_RINGS_AT + (unsigned long)(parts) * (parts) * sizeof(struct xc_ring) \
			 + 2UL * (parts) * XC_BOX)

void *xoff_cable_map(int fd, unsigned long size, int closes);
void xoff_cable_lock(unsigned int *word);
void xoff_cable_unlock(unsigned int *word);
void xoff_cable_sleep(struct xc_part *part, unsigned int seen, unsigned int patience);
void xoff_cable_ring(struct xc_part *part);
unsigned long long xoff_cable_cpu_ns(void);

#endif
