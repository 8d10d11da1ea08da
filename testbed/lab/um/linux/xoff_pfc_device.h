/* SPDX-License-Identifier: GPL-2.0 */
/*
 * /dev/xoff-pfc, as testbed/linux/pfc_device.py uses it. Who opens it is the PFC agent of one node. While the agent
 * sleeps the kernel does what is frequent at the node's ports: PFC frames for thresholds, and stops of queues.
 */
#ifndef __XOFF_PFC_DEVICE_H
#define __XOFF_PFC_DEVICE_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;
#endif

#define XP_PRIORITIES 8
#define XP_PLACES 4		/* plugs of one queue, at the most */
#define XP_MOST_PORTS 2048
#define XP_TIMERS 10		/* as testbed/switch/pfc/timers.py: the ends of pauses, then these */
#define XP_REFRESH 8
#define XP_POLL 9

struct xp_attach {
	s32 ring;		/* the BPF ring of the node's events, and the map of its priority groups */
	s32 groups;
	u64 consumed;		/* the ring as it is mapped: address of the page with the consumer's position */
	u64 produced;		/* and of the one with the producer's, with the data behind it */
	u32 ring_size;
	u32 congested_at;	/* where a group has the word that is not 0 while it is congested */
	u64 states;		/* address of a struct xp_state for each port, on whole pages */
	u64 lateness;		/* address of a word */
	u32 ports;
	u32 pad;
};

struct xp_add {
	u32 slot, interface;
	s32 socket;		/* a packet socket that is bound to the port */
	u8 source[6];
	u8 pad[2];
	u32 places[XP_PRIORITIES][XP_PLACES];	/* of each queue: what its plugs are below, or 0 */
	u32 more_pad;
	s64 xoff_delay_ns, stop_delay_ns, xoff_allowed_ns, stop_allowed_ns;
	u64 rate_bps;
	u64 timers;		/* address of XP_TIMERS words */
};

/* What the kernel does at a port */
#define XP_THRESHOLDS 1		/* tells the far end of a group that became congested, or has room again */
#define XP_FRAMES 2		/* obeys PFC frames for priorities that are active */

/* Those that are counted, in this order */
enum xp_count {
	XP_XOFF_RECEIVED, XP_XON_RECEIVED, XP_XOFF_SENT, XP_XON_SENT, XP_CONGESTED, XP_RELIEVED, XP_COUNTS
};

/* The state of a port, which has 512 octets. The process writes it before it goes to sleep; from then on it is the
 * kernel's, until the process takes it back. Sets of priorities and queues are masks.
 */
struct xp_state {
	u8 touched;		/* has the kernel changed it? */
	u8 serves;
	u8 paused, congested, announced;
	u8 active;		/* priorities with PFC that are not in a storm */
	u8 held;		/* priorities whose queues are stopped for another reason */
	u8 overlaps;		/* can two priorities stop the same queue? */
	u8 sends_xon;
	u8 began;		/* priorities whose pauses began since, at `since_ns` */
	u8 pad[2];
	u32 quanta;		/* of XOFF */
	u8 queues[XP_PRIORITIES];
	s64 interval_ns;	/* from one XOFF to the next */
	s64 detection_ns, period_ns, polls_at_ns;	/* of the watchdog; the period is 0 without one */
	s64 since_ns[XP_PRIORITIES];
	s64 paused_since_ns[XP_PRIORITIES];		/* of pauses that are counted, or the largest number */
	s64 paused_ns[XP_PRIORITIES];			/* from here on: what came since */
	u32 counts[XP_COUNTS][XP_PRIORITIES];
};

struct xp_serve {
	s64 due_ns;		/* when the process is to wake for a reason of its own */
	s64 started_ns;		/* when it began: nothing before that is late */
	u64 log;		/* address of the event log; its first word is the end of what has been written */
	u64 log_end;		/* octets from there on: where the next record goes, and the end of the memory */
	u64 log_room;
};

#define XP_DUE 1		/* a time that the process has set, or a pause, has come to its end */
#define XP_EVENT 2		/* the next event is one for the process */
#define XP_LOG 4		/* the log has no room */

struct xp_taken {
	s64 now_ns;
	u32 news;
	u32 pad;
};

#define XP_ATTACH _IO('p', 0x51)
#define XP_ADD _IO('p', 0x52)
#define XP_SERVE _IO('p', 0x53)	/* the kernel serves; the file is readable when it wants the process */
#define XP_TAKE _IO('p', 0x54)	/* it ends what it has begun, and serves no more */

#endif
