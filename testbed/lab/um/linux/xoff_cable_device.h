/* SPDX-License-Identifier: GPL-2.0 */
/*
 * /dev/xoff-parts, as testbed/linux/parts_device.py uses it: the other parts of a partitioned network. It is there only
 * in a kernel that is one of several. Times are nanoseconds of the lab's clock.
 *
 * A write gives octets to all parts, and the read that follows waits until all have given some and returns a u32 of the
 * length and the octets of each part, in their order, at the same moment of the lab's clock in all of them.
 */
#ifndef __XOFF_CABLE_DEVICE_H
#define __XOFF_CABLE_DEVICE_H

#include <linux/types.h>

struct xc_cut {
	u32 part[2];		/* of the cable's ends */
	u64 delay;		/* no frame ever takes less */
};

struct xc_join {
	u32 count, unused;
	u64 cables;		/* the address of struct xc_cut */
};

struct xc_change {
	u32 cable;
	u32 has_carrier;	/* of the end that is here */
	u32 is_pulled;		/* frames in the cable are lost */
	u32 loss;		/* of 2^32 - 1 frames that are sent here */
	u64 seed;		/* of the frames that are lost */
	u64 delay;		/* of frames that are sent from now on */
};

struct xc_count {
	u64 sent, sent_octets, lost;		/* frames that were sent here, the lost ones among them */
	u64 received, received_octets, dropped;	/* frames that came, and that found no port */
	u64 digest;				/* of the frames that came: arrival and content */
};

struct xc_ask {
	u32 cable, unused;
	u64 count;		/* the address of struct xc_count */
};

struct xc_windows {
	u32 room;		/* for as many numbers */
	u32 many;		/* set: how often this part has come to its horizon since the last call */
	u64 worked;		/* the address of a u32 for each of the first ones: ns of CPU time since the one before */
};

#define XC_WHO _IO('c', 1)	/* returns the number of this part, and in the upper 16 bits how many there are */
#define XC_JOIN _IO('c', 2)	/* the network of these cables begins; time stands still until all parts join */
#define XC_LEAVE _IO('c', 3)	/* it ends here */
#define XC_CHANGE _IO('c', 4)
#define XC_COUNT _IO('c', 5)
#define XC_WINDOWS _IO('c', 6)	/* with struct xc_windows, which also begins to count; all of it is the host's affair */

#endif
