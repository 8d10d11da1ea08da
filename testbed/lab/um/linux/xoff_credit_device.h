/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Credits, as testbed/linux/credit_device.py uses them: a file that /dev/xoff-pfc gives to a network of which some
 * ports have credits. A device of its own would move the events of networks that have none.
 */
#ifndef __XOFF_CREDIT_DEVICE_H
#define __XOFF_CREDIT_DEVICE_H

#include <linux/types.h>

#define XC_VCS 8		/* virtual channels, which are local priorities */
#define XC_PLACES 4		/* plugs of one queue, at the most */
#define XC_PORTS 2048

struct xc_attach {
	s32 groups;		/* the map of priority groups */
	u32 admitted_at;	/* where an entry has the cells that were charged so far, and those given back */
	u32 released_at;
	u32 pad;
};

/* A port. Of one without credits only the line is known, by which frames leave the buffer. */
struct xc_add {
	u32 slot, interface;
	s32 network;		/* its network namespace */
	u8 source[6];
	u8 sends, receives;	/* masks of virtual channels with credits */
	u32 places[XC_VCS][XC_PLACES];	/* of each queue: what its plugs are below, or 0 */
	u32 limits[XC_VCS];	/* credits */
	u32 cell;		/* of the receiver at the other end, in octets without FCS */
	u32 cf_min, cf_max, cc_interval;	/* in octets of the line */
	u32 total;		/* the credits that all virtual channels share, per port; 0: each has its limit */
	u64 octet_ps;
	u64 held_ps;		/* of an octet that leaves the buffer: 0 where cells come free with the first bit */
};

struct xc_read {
	u32 slot;
	u32 pad;
	u64 counters;		/* address of a struct xc_counters */
};

struct xc_counters {
	u64 consumed[XC_VCS], freed[XC_VCS], used[XC_VCS], used_watermark[XC_VCS];
	u64 stalls[XC_VCS], stalled_ns[XC_VCS];	/* how often, and how long, a frame had the line and no credits */
	u64 receiver_consumed[XC_VCS], receiver_freed[XC_VCS], lost[XC_VCS];
	u64 cc_tx, cf_rx, cf_refused, cf_tx, cc_rx;
};

#define XC_OPEN _IO('c', 0x50)	/* to /dev/xoff-pfc: returns the file for the others */
#define XC_ATTACH _IO('c', 0x51)
#define XC_ADD _IO('c', 0x52)
#define XC_READ _IO('c', 0x53)

#endif
