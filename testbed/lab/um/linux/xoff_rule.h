/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Rules of one's own at the queues of a port: code (xoff_control_vm.h) that qdisc red asks in place of its curve.
 *
 * A rule comes with red's settings, in an attribute of its own: `struct xs_given`, the instructions, and the cells as
 * they are at first. Queues of a port can share a rule; then all but the first name the qdisc that has it.
 */
#ifndef __XOFF_RULE_H
#define __XOFF_RULE_H

#define XS_ENTRIES 7	/* as XC_ENTRIES */
#define XS_STATE 8	/* as XR_STATE */

/* Entries */
enum xs_event { XS_ARRIVES, XS_DEPARTS };

struct xs_given {
	u32 queue;
	u32 shared;		/* the handle of the qdisc whose rule it is; 0: it follows */
	u32 count, cells;
	u32 entries[XS_ENTRIES];
};

/* What is known of a rule, behind red's own statistics */
struct xs_stats {
	u64 asked;
	s64 fault_ns;
	u32 fault, fault_at;
	u64 shown;		/* are the numbers of state() there? */
	double state[XS_STATE];
};

#ifdef __KERNEL__
struct Qdisc;
struct sk_buff;
struct xs_rule;

struct xs_rule *xs_new(const struct xs_given *given, u32 size);
struct xs_rule *xs_get(struct xs_rule *rule);
void xs_put(struct xs_rule *rule);
int xs_asked(struct xs_rule *rule, u32 event, u32 queue, struct sk_buff *skb, const struct Qdisc *below);
void xs_stats_of(const struct xs_rule *rule, struct xs_stats *stats);
#endif

#endif
