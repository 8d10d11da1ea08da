/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The settings and counters of the qdisc xoff_line, one direction of a cable, as testbed/linux/line_qdisc.py uses them.
 * All times are the lab's.
 */
#ifndef __XOFF_LINE_H
#define __XOFF_LINE_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdint.h>
typedef uint8_t u8;
typedef uint32_t u32;
typedef int32_t s32;
typedef uint64_t u64;
typedef int64_t s64;
#endif

#define XL_JAMS 4
#define XL_COUNTERS 22

/* Disturb what has these numbers of its kind, from 1 on */
struct xl_jam {
	u32 what, fate, first, count;
};

struct xl_settings {
	u64 bps;
	s64 delay_ns;
	u64 loss, seed, slot_threshold;	/* thresholds of 64 bits */
	u32 slot_octets;		/* or 0 */
	u32 wait;			/* enum xl_wait */
	u32 has_llr;			/* enum xl_mode, or 0 */
	u32 frames, octets, replay_count, spacing, init_action, flush_action, re_init, first_sequence;
	u32 pad;
	s64 replay_timer_ns, age_ns;
	struct xl_jam jams[XL_JAMS];
};

/* What an end has counted: as the sender of this direction, and as the receiver of the other one */
struct xl_report {
	u64 counters[XL_COUNTERS];
	u64 flushes, lost, damaged;	/* of the frames of this direction, those that did not come at all or not whole */
	u64 replayed, replayed_octets;	/* frames that were sent again, and their octets with FCS */
	u32 state, receiver, kept, held;
	u32 next_sequence, expected;	/* of the frame that is sent next, and of that which is to come next */
};

/* /dev/xoff-observe: what cables carry, and what happens at their ends, for an observer */
#define XL_WATCH 0x6C01		/* begin to keep what cables carry, until the file is closed */
#define XL_READ 0x6C02		/* fetch and forget it */
#define XL_EVENTS 0x6C03	/* the same of events, which are always kept */
#define XL_REPLAY 16		/* as `what`: a sender replays `data` frames, from `sequence` on */
#define XL_FLUSH 17		/* a sender has given up `data` frames */
#define XL_IS_REPLAY 1		/* flags */
#define XL_IS_PLAIN 2
#define XL_KEPT 64

/* Behind it are `kept` octets of a frame */
struct xl_record {
	s64 at_ns;		/* when it comes to the other end, or would */
	u32 interface;		/* that of the cable's middle at the port that it goes to; of events, too */
	u32 what, fate, sequence, data, flags, length, kept;
};

struct xl_fetch {
	u64 to;
	u32 room, octets;	/* of memory, and how many of them are records now */
	u64 missed;		/* records that were not kept */
};

#endif
