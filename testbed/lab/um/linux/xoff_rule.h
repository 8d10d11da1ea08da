/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Rules of one's own in a switch, as code (xoff_control_vm.h).
 *
 * That of a port comes with the settings of qdisc red, in an attribute of its own: `struct xs_given`, the instructions,
 * and the cells as they are at first. Queues of a port can share a rule; then all but the first name the qdisc that has
 * it. red asks it which frames are marked, and the port program (port.bpf.c) which are admitted, and what is stamped.
 *
 * That of a switch comes through a file that /dev/xoff-pfc gives (XS_OPEN); a device of its own would move the events of
 * networks that have none. The port program asks it by which of the equal ways a frame leaves.
 */
#ifndef __XOFF_RULE_H
#define __XOFF_RULE_H

#define XS_ENTRIES 7	/* as XC_ENTRIES */
#define XS_STATE 8	/* as XR_STATE */

#define XS_TOLD 11	/* numbers that the port program tells: those of enum xs_cell behind the answer */
#define XS_MORE 3	/* and of a choice among ways: those that have no fixed cells, and columns with a row for each way */
#define XS_COLUMNS 3
#define XS_WAYS 64

/* Entries of a port's rule */
enum xs_event { XS_ARRIVES, XS_DEPARTS, XS_ADMITS, XS_STAMPS, XS_WEIGHS };

/* The entry of a switch's rule */
enum xs_way_event { XS_CHOOSES };

struct xs_given {
	u32 queue;
	u32 shared;		/* the handle of the qdisc whose rule it is; 0: it follows */
	u32 count, cells;
	u32 more;		/* the first cell of what has none that is fixed; 0: there is none */
	u32 entries[XS_ENTRIES];
};

/* What the port program asks. Of a port's rule it gives only what is before `more`. */
struct xs_asked {
	u32 number;		/* of the port its interface, of the switch's rule what XS_ADD has returned */
	u32 ways;
	s64 told[XS_TOLD];
	s64 more[XS_MORE];
	s64 rows[XS_COLUMNS][XS_WAYS];
};

struct xs_add {
	u64 given;		/* address of a struct xs_given with what follows it */
	u32 size;
	u32 pad;
};

struct xs_read {
	u64 stats;		/* address of a struct xs_stats */
	u32 number;
	u32 pad;
};

/* What is known of a rule, behind red's own statistics */
struct xs_stats {
	u64 asked;
	s64 fault_ns;
	u32 fault, fault_at;
	u64 shown;		/* are the numbers of state() there? */
	double state[XS_STATE];
};

#define XS_OPEN _IO('s', 0x50)	/* to /dev/xoff-pfc: returns the file for the others */
#define XS_ADD _IO('s', 0x51)
#define XS_READ _IO('s', 0x52)

#ifdef __KERNEL__
#include <linux/ioctl.h>

struct Qdisc;
struct sk_buff;
struct xs_rule;

struct xs_rule *xs_new(const struct xs_given *given, u32 size);
struct xs_rule *xs_get(struct xs_rule *rule);
void xs_put(struct xs_rule *rule);
int xs_asked(struct xs_rule *rule, u32 event, u32 queue, struct sk_buff *skb, const struct Qdisc *below);
void xs_stats_of(const struct xs_rule *rule, struct xs_stats *stats);
void xs_place(struct xs_rule *rule, int interface);
long xs_open(void);
int htb_set_quantum(struct Qdisc *sch, u32 classid, int quantum);
#endif

#endif
