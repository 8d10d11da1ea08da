/* SPDX-License-Identifier: GPL-2.0 */
/*
 * /dev/xoff-udp, as testbed/linux/udp_device.py uses it. Who opens it has the UDP flows of one host: senders and
 * receivers that the kernel serves until the file is closed, which a process that is killed does too.
 */
#ifndef __XOFF_UDP_DEVICE_H
#define __XOFF_UDP_DEVICE_H

#include <linux/types.h>

#define XU_MOST_FLOWS 65536
#define XU_SHORTEST 16		/* octets of a datagram: its number, and when it was sent */
#define XU_LONGEST 65507
#define XU_MOST_AT_ONCE 1024

struct xu_attach {
	u64 counters;		/* address of memory that others look at, whole pages */
	u32 counters_size;
	u32 senders, receivers;	/* the most that are added of each */
	u32 pad;
};

struct xu_send {
	s32 socket;		/* connected, with the priority, DS field and buffer of the flow */
	u32 payload;		/* octets of a datagram */
	u32 at_once;		/* datagrams that the socket is given at a time; they have one time of sending */
	u32 sent_at, line_at;	/* the places in `counters` of words: datagrams sent, and until when the line is taken */
	u32 pad;
	u64 most;		/* datagrams */
	s64 begin_ns, end_ns;
	u64 gap_ps;		/* from one datagram to the next, or 0: as fast as the socket takes them */
	s64 frame_ns;		/* what the line takes for a frame */
	s64 held_ns;		/* and for what the sockets of this queue hold */
};

struct xu_receive {
	s32 socket;		/* bound */
	u32 received_at;	/* the place in `counters` of a word with the datagrams that have come */
};

struct xu_report {
	u64 received, doubled, out_of_order, extent, ecn[4];
	s64 first_ns, last_ns, worst_delay_ns;
	u32 windows;
	s32 error;		/* -ENOMEM if something could not be counted, or 0 */
};

#define XU_ATTACH _IO('u', 1)
#define XU_SEND _IO('u', 2)		/* returns the number of the sender, from 0 on */
#define XU_RECEIVE _IO('u', 3)		/* the same of a receiver */
#define XU_STOP _IO('u', 4)		/* no flow sends any more */
#define XU_PROGRESS _IO('u', 5)		/* struct xf_ask, as of those below: an s32 of each sender, 0 if it goes on, 1 if
					   it is over, or why it failed. The file is readable when one has ended since. */
#define XU_REPORT _IO('u', 6)		/* of a receiver */
#define XU_WINDOWS _IO('u', 7)

#endif
