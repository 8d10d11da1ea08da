/* SPDX-License-Identifier: GPL-2.0 */
/*
 * /dev/xoff-roce, as testbed/linux/roce_device.py uses it. Who opens it has the RoCE endpoint of one host: queue pairs
 * that the kernel serves until the file is closed, which a process that is killed does too.
 */
#ifndef __XOFF_ROCE_DEVICE_H
#define __XOFF_ROCE_DEVICE_H

#include "xoff_roce.h"
#include "xoff_control_vm.h"

#define XR_FIRST_KEY 0x1000
#define XR_MOST_QUEUE_PAIRS 4096
#define XR_MOST_PROGRAMS 256
#define XR_MOST_SHARED 16	/* shared receive queues of an endpoint */

struct xr_attach {
	s32 socket;		/* of port 4791: queue pairs that are added take their datagrams from it */
	u32 queue_pairs;	/* the most that are added, and the most regions */
	struct xr_settings settings;
	u32 is_per_priority;	/* a CNP concerns all queue pairs of its priority */
	u32 first;		/* the number of the first queue pair */
	u64 content;		/* address of XR_BLOCK octets */
	u64 counters;		/* address of memory that others look at, whole pages */
	u32 counters_size;
	u32 moderation;		/* the packets that share an interval of CNPs */
};

/* The code of a rate control of one's own (xoff_control_vm.h), which the queue pairs of an endpoint share */
struct xr_program {
	u64 code;			/* address of so many struct xc_op */
	u32 count, cells;
	u32 entries[XC_ENTRIES];
	u32 stamps;
};

enum xr_moderation { XR_BY_FLOW, XR_BY_ADDRESS, XR_BY_NIC };

#define XR_IS_SOURCE 1
#define XR_IS_TARGET 2
#define XR_IS_ASKER 4

/* A flow that an asker waits for: its target here, its message, and its size or 0 */
struct xr_wait {
	u32 region, pad;
	u64 message, size;
};

struct xr_add {
	u32 number, far_number, first, far_first;
	u8 address[16], far_address[16];	/* the first four octets of IPv4 */
	u32 is_ipv6, flow_label;
	u16 port, far_port;
	u8 priority, ds_field, cnp_priority, cnp_ds_field;
	u32 buffer;			/* of a socket that would send as many frames at a time */
	u32 roles;			/* XR_IS_... */
	u32 region, operation, far_key, lag;
	u32 has_immediate, immediate;	/* data with the last packet of each message */
	u64 content;			/* the place of the flow's content in the block */
	u64 message, left, messages;
	s64 begin_ns, end_ns, sample_ns;
	u64 line_bps;
	u64 waits;			/* address of so many struct xr_wait */
	u32 waits_count;
	u32 program;			/* of a rate control of one's own: one more than its number, or 0 */
	u64 control_frame;		/* address of its cells as they are at first */
	u32 sent_at, received_at;	/* the places in `counters` of words with the packets of data, or XF_NOWHERE */
	u32 service, q_key;
	struct xr_nic nic;
	struct xr_rate rate;
};

struct xr_progress {
	u32 is_over, has_failed;
};

struct xr_report {
	struct xr_counters counters;
	struct xr_failure failure;
	u64 received;			/* octets, in their order, and are they those of the source? */
	u64 as_expected;
	u64 packets, frame_octets, ecn[4];	/* as they came */
	s64 first_ns, last_ns;
	u32 windows, samples;
};

struct xr_sample {
	s64 at_ns;
	u64 sent_octets;
	double state[XR_STATE];
};

#define XR_ATTACH _IO('r', 1)
#define XR_ADD _IO('r', 2)
#define XR_STOP _IO('r', 3)
#define XR_PROGRESS _IO('r', 4)		/* struct xf_ask, as of those below: of all queue pairs, from the first number on.
					   The file is readable when one has come to its end since. */
#define XR_REPORT _IO('r', 5)
#define XR_WINDOWS _IO('r', 6)
#define XR_SAMPLES _IO('r', 7)
#define XR_REFUSED _IO('r', 8)
#define XR_PROGRAM _IO('r', 9)		/* struct xr_program; its number */

#endif
